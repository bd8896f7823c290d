"""Claims that take long to find devices for: bounded by counts, put off, and nobody else waits."""

import pytest

from kaisched.core.claims.counting import EVALUATIONS, MOST_EVALUATIONS
from kaisched.core.claims.search import MOST_STEPS, Search
from kaisched.core.claims.selectors import CelSelector
from kaisched.core.refusals import TEXTS, Refusal
from tests.unit.cluster.claims.worlds import DRIVER, World

PUT_OFF = TEXTS[Refusal.PUT_OFF].name
UUID = f"device.attributes['{DRIVER}'].uuid"
ZEROS = "[" + ",".join(["0"] * 180) + "]"
ENDLESS = f"{UUID} == 'none' || !{ZEROS}.all(x, {ZEROS}.all(y, true))"


class Counting(World):
    """A world with devices of which each has an attribute of its own; it counts evaluations."""

    def __init__(self, monkeypatch, *, nodes=8, devices=8, **quotas):
        super().__init__(**quotas)
        self.evaluated = 0
        plain = CelSelector._evaluated

        def counted(selector, device):
            self.evaluated += selector.weight
            return plain(selector, device)

        monkeypatch.setattr(CelSelector, "_evaluated", counted)
        for node in range(nodes):
            found = [
                {"name": f"g{at}", "attributes": {"uuid": {"string": f"{node}-{at}"}}}
                for at in range(devices)
            ]
            self.node(f"n{node}", "h100", devices=found)

    def asking(self, name, queue, expression, count=1, **more):
        selector = [{"cel": {"expression": expression}}]
        exactly = {"deviceClassName": DRIVER, "selectors": selector, "count": count}
        request = {"name": "gpus", "exactly": exactly}
        spec = {"spec": {"devices": {"requests": [request], **more}}}
        self.put("ResourceClaimTemplate", name, "team", spec=spec)
        self.pod(name, queue, name)


@pytest.mark.parametrize(
    ("text", "weight"),
    [
        ("device.driver == 'x'", 1),
        (f"{UUID} == 'none'", 1),
        (" || ".join([f"{UUID} == 'none'"] * 9), 3),
        (f"{UUID}.exists(x, x == 1)", 9),  # 58 characters, at most 29 times
        (ENDLESS, len(ENDLESS) * 50),  # 10,000 rounds of macros
        ("cel.bind(x, 'a' + 'b', (x + x + x).size() > 3)", 8),
    ],
)
def test_an_evaluation_counts_by_what_it_may_cost(text, weight):
    assert CelSelector(text).weight == weight


def test_devices_that_look_alike_count_once(monkeypatch):
    world = Counting(monkeypatch)
    offer = world.cluster.store.device_claims.gpus.offer
    assert offer.evaluations([CelSelector(f"{UUID} == 'none'")]) == 64
    assert offer.evaluations([CelSelector("device == device")]) == 64
    assert offer.evaluations([CelSelector("device.driver == 'x'")]) == 1
    assert offer.evaluations([CelSelector("device.attributes['x.io'].foo == 1")]) == 1


@pytest.mark.fault("I142")
def test_selectors_that_would_take_too_long_are_not_asked_and_nobody_waits_for_them(monkeypatch):
    world = Counting(monkeypatch, a=8, b=8)
    for at in range(5):
        world.asking(f"endless-{at}", "a", f"{ENDLESS} || {at} > 9")
    world.pod("plain", "b")
    result = world.cycle()
    assert [it.pod for it in result.binds] == ["team/plain"]
    assert world.evaluated < MOST_EVALUATIONS
    said = world.reason("endless-0")[1]
    assert "its selectors may need 2,585,600 evaluations" in said
    assert "of at most 100,000" in said


@pytest.mark.fault("I142")
def test_each_cycle_asks_as_much_for_a_queue_as_it_may_and_all_have_their_turn(monkeypatch):
    world = Counting(monkeypatch, a=8, b=8)
    ours = [f"costly-{at:02}" for at in range(24)]
    for at, name in enumerate(ours):
        # 4,096 evaluations, 16 tries: there is no such device
        text = f"{UUID} == 'none' || !{ZEROS[:77]}].all(x, x == {at % 10})"
        world.asking(name, "a", f"{text} && {at} > 99")
    world.asking("cheap", "b", f"{UUID} == '3-3'")
    of_one = CelSelector(f"{text} && 23 > 99").weight * 64
    assert 8 < of_one // EVALUATIONS < 64
    tried, first = set(), None
    for _ in range(40):
        before = world.evaluated
        result = world.cycle()
        assert world.evaluated - before <= 64 * EVALUATIONS + 4 * of_one
        first = first or result
        tried |= {name for name in ours if world.reason(name)[0] != PUT_OFF}
    assert [it.pod for it in first.binds] == ["team/cheap"]
    assert PUT_OFF in {it.reason for it in first.records}
    assert tried == set(ours)


def test_a_cycle_is_the_same_whether_selectors_were_asked_before(monkeypatch):
    """What a queue may ask is counted by what there is, and not by what is left to be asked."""
    results = []
    for forgets in (False, True):
        world = Counting(monkeypatch, a=8, b=8)
        for at in range(24):
            text = f"!{ZEROS[:77]}].all(x, x == {at % 10}) && {UUID} == '{at}-0'"
            world.asking(f"p{at:02}", "a", f"{text} && true")
        for _ in range(6):
            if forgets:
                for it in world.cluster.store.device_claims.specs.selectors.values():
                    it._answers.clear()
            results.append((forgets, world.cycle().encode()))
    assert [it for kind, it in results if kind] == [it for kind, it in results if not kind]


@pytest.mark.fault("I142")
def test_searches_for_devices_take_so_many_steps_on_all_nodes_together(monkeypatch):
    """Twelve devices whose constraints cannot be met: each node has sixteen, and looks good."""
    steps = []
    plain = Search._step

    def counted(search, ask):
        steps.append(1)
        plain(search, ask)

    monkeypatch.setattr(Search, "_step", counted)
    world = Counting(monkeypatch, nodes=6, devices=16, a=96, b=8)
    names = [f"r{at}" for at in range(12)]
    requests = [{"name": name, "exactly": {"deviceClassName": DRIVER}} for name in names]
    apart = {"requests": names, "distinctAttribute": f"{DRIVER}/uuid"}
    alike = {"requests": [names[0], names[11]], "matchAttribute": f"{DRIVER}/uuid"}
    devices = {"requests": requests, "constraints": [apart, alike]}
    world.put("ResourceClaimTemplate", "hard", "team", spec={"spec": {"devices": devices}})
    world.pod("hard", "a", "hard")
    world.pod("plain", "b")
    result = world.cycle()
    assert [it.pod for it in result.binds] == ["team/plain"]
    assert len(steps) < 2 * (MOST_STEPS + 6 * 2 * 16**2)
    assert "50,000 steps" in world.reason("hard")[1]
