"""Devices of pods that are leaving: which of these could stay, by what others are promised."""

import pytest

from kaisched.engine.policy import default_policy
from tests.unit.cluster.claims.test_shared_devices import shared_node, template
from tests.unit.cluster.claims.worlds import DRIVER, World
from tests.unit.framework.fakes import session


class Moves:
    """Moves of pods by name in one cycle."""

    def __init__(self, world):
        self._now = session(world.cluster.snapshot(), rules=default_policy())
        self.statement = self._now.statement()

    def task(self, name):
        # A pod that asks for other amounts than before has a new row, after the old one.
        names = self._now.snapshot.tasks.name
        return max(at for at, it in enumerate(names) if it == f"team/{name}")

    def evict(self, *names):
        for name in names:
            self.statement.evict(self.task(name))

    def promise(self, name):
        self.statement.pipeline(self.task(name), 0)

    def start(self, name):
        self.statement.allocate(self.task(name), 0)

    def may_stay(self, *names):
        return [self._now.devices.may_stay(self.task(it)) for it in names]


def running(world, *names):
    """Let pods run, whose devices are given in their order; another one waits."""
    for name in names:
        world.pod(name, "team", "mine")
        world.cycle()
    assert all(world.nodes.values())
    world.pod("new", "team", "other")
    return Moves(world)


@pytest.fixture
def whole():
    world = World(team=9)
    world.node("n1", "H100", "H100", "H100")
    world.template("mine")
    world.template("other")
    return world


@pytest.fixture
def shared():
    world = World(team=9)
    shared_node(world, "n1", 80, 80, 80)
    template(world, "mine", "50Gi")
    template(world, "other", "50Gi")
    return world


def test_who_leaves_could_keep_its_device_until_it_is_promised(whole):
    moves = running(whole, "a", "b", "c")
    moves.evict("a", "b")
    assert moves.may_stay("a", "b") == [True, True]
    moves.promise("new")
    assert moves.may_stay("a", "b") == [False, True]


def test_a_promise_of_parts_keeps_who_had_parts_in_the_pool_from_staying(shared):
    """What else would be left of the devices is not worked out."""
    moves = running(shared, "a", "b", "c")
    moves.evict("a", "b")
    assert moves.may_stay("a", "b") == [True, True]
    moves.promise("new")
    assert moves.may_stay("a", "b") == [False, False]


def test_who_starts_now_takes_nothing_from_those_that_leave(shared):
    moves = running(shared, "a", "b")
    moves.evict("a", "b")
    moves.start("new")
    assert moves.may_stay("a", "b") == [True, True]


def test_a_promise_of_counters_keeps_who_had_some_in_the_pool_from_staying():
    world = World(team=9)
    world.node("n1")

    def part(name, memory):
        takes = [{"counterSet": "card", "counters": {"memory": {"value": memory}}}]
        attributes = {"model": {"string": memory}}
        return {"name": name, "attributes": attributes, "consumesCounters": takes}

    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 2}
    common = {"driver": DRIVER, "nodeName": "n1", "pool": pool}
    counters = [{"name": "card", "counters": {"memory": {"value": "80Gi"}}}]
    world.put("ResourceSlice", "n1-a", spec=common | {"sharedCounters": counters})
    devices = [part("half", "40Gi"), part("whole", "80Gi")]
    world.put("ResourceSlice", "n1-b", spec=common | {"devices": devices})
    world.template("mine", model="40Gi")
    world.template("other", model="80Gi")
    moves = running(world, "a")
    moves.evict("a")
    assert moves.may_stay("a") == [True]
    moves.promise("new")
    assert moves.may_stay("a") == [False], "the whole card takes the half of it that was given"


def test_devices_of_a_claim_in_common_are_promised_to_nobody_while_one_of_its_pods_stays(whole):
    whole.claim("common")
    for name in "ab":
        whole.pod(name, "team", claim="common")
        whole.cycle()
    moves = running(whole)
    moves.evict("a")
    moves.promise("new")
    assert moves.may_stay("a") == [True]
