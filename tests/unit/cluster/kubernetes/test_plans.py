"""Whether a plan is still wanted: what the watch tells, the store knows, and cycles decide."""

import math
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from kaisched.clock import ManualClock
from kaisched.cluster.kubernetes.cluster import KubernetesCluster
from kaisched.cluster.kubernetes.evictor import Plans, promises_of
from kaisched.cluster.kubernetes.leader_election import Leadership
from kaisched.cluster.kubernetes.reflector import Change
from kaisched.cluster.kubernetes.resources import PODS
from kaisched.cluster.store import update
from kaisched.core.axis import TaskState
from kaisched.framework.intents import Bind, Evict, Nominate
from kaisched.testing import draw
from tests.contract.clusters import group, node, pod
from tests.faults.deciding import store_of

pytestmark = pytest.mark.fault("I124")
VICTIMS = ("v0", "v1")
AT_S = 1_700_000_000.0
LEAVING = {"deletionTimestamp": "2026-07-01T12:00:00Z"}


@dataclass
class FakePlan:
    """A plan that only notes what happens to it."""

    promises: list
    evictions: list
    why_over: str = ""
    withdrawn: list = field(default_factory=list)
    sent: set = field(default_factory=set)
    whole: frozenset = frozenset()

    @property
    def why_late(self):
        return self.why_over

    def __post_init__(self):
        self.left = self.evictions

    @property
    def is_settled(self):
        return not self.left

    def withdraw(self, why, *, is_unwanted=False):
        assert is_unwanted or self.why_over
        self.withdrawn.append(why)
        self.left = []
        self.why_over = self.why_over or why

    def spare(self, name):
        self.left = [it for it in self.left if it.pod != name]


def waiting(name="w0", annotations=(), **more):
    notes = {"pod-group-name": "w", **dict(annotations)}
    return pod(name, "b", uid=f"{name}-1", annotations=notes, **more)


def running(name, **more):
    return pod(name, uid=f"{name}-1", where="n0", phase="Running", **more)


def job_of(name):
    return f"ns/pg-{name}-{name}-1"


@pytest.fixture
def store():
    """Two pods of a gang wait, two others are to go for them."""
    made = store_of(group("w", "b", minMember=2), *map(running, VICTIMS), waiting(), waiting("w1"))
    made.snapshot()
    return made


@pytest.fixture
def plan(store):
    evictions = [
        Evict(
            f"ns/{name}", f"{name}-1", "n0", f"ns/pg-{name}-{name}-1", "reclaim", "ns/w", "", 0, 0
        )
        for name in VICTIMS
    ]
    return FakePlan([promise("w0"), promise("w1")], evictions)


def promise(name, where="n0"):
    return Nominate(f"ns/{name}", f"{name}-1", where, "ns/w", 0, 0)


@pytest.fixture
def plans(store, plan):
    made = Plans()
    made.add(plan, "ns/w", store, AT_S)
    return made


def gone(name, uid):
    return Change(PODS.stub("ns", name, uid), is_gone=True)


def test_what_has_not_changed_is_wanted(store, plans, plan):
    update(store, waiting(annotations={"some": "news"}))
    update(store, running("v0"))  # older than its eviction
    plans.review(store)
    plans.compare([], [promise("w0"), promise("w1")])
    assert plan.withdrawn == []
    assert plans.victims() == {"ns/v0", "ns/v1"}


def test_a_job_of_which_no_pod_stays_goes_whole():
    gang = [running(name, annotations={"pod-group-name": "g"}) for name in ("g0", "g1", "g2")]
    store = store_of(group("g", "b", minMember=1), *gang, *map(running, VICTIMS))
    store.snapshot()

    def evict(name, job):
        return Evict(f"ns/{name}", f"{name}-1", "n0", job, "reclaim", "ns/w", "", 0, 0)

    some = FakePlan([], [evict("g0", "ns/g"), evict("v0", job_of("v0"))])
    Plans().add(some, "ns/w", store, AT_S)
    assert some.whole == {job_of("v0")}
    rest = FakePlan([], [evict("g1", "ns/g"), evict("g2", "ns/g")])
    Plans().add(rest, "ns/w", store, AT_S)
    assert rest.whole == {"ns/g"}


def test_the_room_is_promised_before_the_pod_says_so(store, plans):
    def promised(name):
        snapshot = store.snapshot()
        row = int(snapshot.tasks.nominated_node[store.rows.row_of_task(f"ns/{name}")])
        return snapshot.nodes.name[row] if row >= 0 else ""

    assert promised("w0") == promised("w1") == "n0"
    update(store, waiting(status={"conditions": [{"type": "PodScheduled", "status": "False"}]}))
    assert promised("w0") == ""
    plans.review(store)
    assert promised("w0") == "n0"
    update(store, node("a-node"))
    assert promised("w0") == "n0"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (Change(waiting(where="n5")), "it is on n5"),
        (Change(waiting(phase="Failed")), "it has ended"),
        (Change(waiting(metadata=LEAVING)), "it is being deleted"),
        (Change(waiting(spec={"schedulingGates": [{"name": "g"}]})), "it has scheduling gates"),
        (Change(pod("w0", "b", uid="w0-2")), "another pod has its name"),
        (gone("w0", "w0-1"), "it is gone"),
        (gone("w0", ""), "it is gone"),
    ],
)
def test_the_watch_tells_that_nobody_waits(plans, plan, change, why):
    plans.observe(change)
    assert plan.withdrawn == [f"ns/w0: {why}"]


@pytest.mark.parametrize(
    "change",
    [Change(waiting()), gone("w0", "w0-0"), Change(running("v0")), Change(group("w", "b"))],
)
def test_the_watch_tells_of_other_things(plans, plan, change):
    plans.observe(change)
    assert plan.withdrawn == []


@pytest.mark.parametrize(
    ("obj", "why"),
    [
        (waiting(gpus=2), "ns/w0 has changed"),
        (waiting(labels={"team": "another"}), "ns/w0 has changed"),
        (waiting(where="n0"), "ns/w0 no longer waits for a node"),
        (group("w", "a", minMember=2), "ns/w has changed"),
        (group("w", "b", minMember=1), "ns/w has changed"),
    ],
)
def test_the_store_knows_what_has_changed(store, plans, plan, obj, why):
    update(store, obj)
    plans.review(store)
    assert plan.withdrawn == [why]
    assert plans.victims() == set()


def test_a_pod_that_is_gone_or_bound_by_us_waits_no_more(store, plans, plan):
    store.assume_bound("ns/w1", "n0")
    plans.review(store)
    assert plan.withdrawn == ["ns/w1 no longer waits for a node"]


def test_a_pod_that_is_gone_wants_nothing(store, plans, plan):
    update(store, waiting(), is_gone=True)
    plans.review(store)
    assert plan.withdrawn == ["ns/w0 is gone"]


@pytest.mark.parametrize(
    ("binds", "nominations", "why"),
    [
        ([], [promise("w0")], "n0 is no longer promised to ns/w1"),
        ([], [promise("w0"), promise("w1", "n1")], "n0 is no longer promised to ns/w1"),
        ([Bind("ns/w0", "w0-1", "n0", "ns/w", 0, 0)], [promise("w1")], "ns/w0 is placed"),
    ],
)
def test_a_plan_lives_by_its_promise(plans, plan, binds, nominations, why):
    plans.compare(binds, nominations)
    assert plan.withdrawn == [why]


def test_a_victim_that_leaves_by_itself_is_left_out(store, plans, plan):
    update(store, running("v0"), is_gone=True)
    update(store, running("v1", metadata=LEAVING))
    plans.review(store)
    assert plan.withdrawn == []
    assert plan.left == []


def test_a_victim_that_is_another_now_ends_the_plan(store, plans, plan):
    update(store, running("v0", labels={"team": "another"}))
    assert store.rows.state_of("ns/v0") == TaskState.RUNNING
    plans.review(store)
    assert plan.withdrawn == ["ns/v0 has changed"]


def test_a_plan_that_was_sent_is_forgotten_when_its_promise_is_told(store, plans, plan):
    plan.left = []
    plans.review(store)
    assert plans.is_promised("ns/w0")
    for name in ("w0", "w1"):
        update(store, waiting(name, status={"nominatedNodeName": "n0"}))
    plans.review(store)
    assert not plans.is_promised("ns/w0")


def test_or_when_its_time_is_over(store, plans, plan):
    plan.left = []
    plans.review(store)
    assert plans.is_promised("ns/w0")
    plan.why_over = "its time is over"
    plans.review(store)
    assert not plans.is_promised("ns/w0")


@pytest.mark.parametrize("sent", [(), ("v0",), VICTIMS])
def test_what_was_not_sent_does_not_count_as_evicted(store, plans, plan, sent):
    """Neither in the budget of an hour nor for the delays of jobs."""
    assert list(store.snapshot().evictions_s) == 2 * [AT_S]
    plan.sent = {f"ns/{name}" for name in sent}
    plan.withdraw("nobody wants it", is_unwanted=True)
    plans.review(store)
    assert list(store.snapshot().evictions_s) == len(sent) * [AT_S]
    for name in VICTIMS:
        at_s = store.rows.last_evicted_s(job_of(name))
        assert at_s == AT_S if name in sent else math.isnan(at_s)
    plans.review(store)
    assert len(store.snapshot().evictions_s) == len(sent)


# -- whose promises a plan rests on ----------------------------------------------------------------


def test_a_plan_rests_on_the_promises_of_its_own_claim():
    """Two pods wait for n0, as they did before. The third waits for n2, which b3 leaves for n1."""
    before = draw("""
        queue a
        queue b
        node  n0  | b1>a1 b1>a1 b1>a1 b1>a1
        node  n1  | b2 .
        node  n2  | b3 .
        job   a1  tasks=3 min=2 gpu=2
        job   b1  tasks=4
    """)
    result = before.builder().run("allocate", "consolidate").result
    assert sorted(it.node for it in result.nominations) == ["n0", "n0", "n1", "n2"]
    (own,) = promises_of(result.evictions, result.nominations)
    assert (own.pod_group, own.node) == (result.evictions[0].beneficiary, "n2")


def test_the_end_of_one_claim_of_a_job_is_not_the_end_of_another(store):
    """w0 is bound while the victim of w1 is still to go."""
    queue = SimpleNamespace(put=lambda rank, work: None)
    cluster = KubernetesCluster(None, Leadership(), queue, ManualClock(AT_S), store)
    claims = list(zip(("w0", "w1"), VICTIMS, strict=True))
    cluster.apply(
        [],
        [
            Evict(f"ns/{it}", f"{it}-1", "n0", job_of(it), "reclaim", "ns/w", "", 0, 0, step=step)
            for step, (_, it) in enumerate(claims)
        ],
        [replace(promise(pod), step=step) for step, (pod, _) in enumerate(claims)],
    )
    cluster.apply([Bind("ns/w0", "w0-1", "n0", "ns/w", 0, 0)], [], [promise("w1")])
    cluster.snapshot()
    states = [store.rows.state_of(f"ns/{name}") for name in VICTIMS]
    assert states == [TaskState.RUNNING, TaskState.RELEASING]
