"""Pool conditions of pods: which process has a job with a list, and whose binds count."""

from msgspec.structs import replace

from kaisched.cluster.pools.owners import OwnersByCondition, PoolCondition
from kaisched.cluster.store import StateStore, update
from kaisched.objects.labels import IN_POOL, pool_condition_of, pool_condition_text
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.wire import Condition
from tests.contract.clusters import make, pod
from tests.unit.cluster.pools.worlds import LIST, listed, node_in, queue_in

JOB = "ns/pg-x-x"


class One:
    """One process for one of the pools ``one`` and ``two``, and what it wants to write."""

    def __init__(self, pool, *objects):
        self.written = []
        self.owners = OwnersByCondition(pool, {"one": True, "two": True}, self.written.append)
        self.store = StateStore(node_pool=pool, owners=self.owners)
        for at in ("one", "two"):
            self.see(node_in(at, f"n-{at}"), queue_in(at, f"a-{at}", project="a"))
        self.see(*objects)

    def see(self, *objects):
        for obj in objects:
            update(self.store, obj)

    def has(self, name="ns/x"):
        self.store.snapshot()
        return self.store.rows.row_of_task(name) >= 0

    def answered(self, obj):
        """What was written is seen, and then the outcome."""
        self.see(obj)
        for condition in self.written:
            self.owners.settled(condition)
        self.written.clear()


def with_condition(pod, pool, moves, version):
    text = pool_condition_text(pool, moves)
    status = replace(pod.status, conditions=[Condition(type=IN_POOL, status="True", message=text)])
    meta = replace(pod.metadata, resource_version=version)
    return replace(pod, metadata=meta, status=status)


def pod_x(pools="one, two"):
    made = listed("x", pools, queue_name="a")
    return replace(made, metadata=replace(made.metadata, resource_version="1"))


def test_the_first_of_the_list_claims_a_job_and_then_has_it():
    one, two = One("one", pod_x()), One("two", pod_x())
    assert (one.has(), two.has()) == (False, False)
    assert one.written == [PoolCondition("ns/x", "x", "1", "one", 1, JOB)]
    assert two.written == []
    for process in (one, two):
        process.answered(with_condition(pod_x(), "one", 1, "2"))
    assert (one.has(), two.has()) == (True, False)


def test_a_job_that_is_passed_on_belongs_to_nobody_until_the_condition_is_seen():
    first = with_condition(pod_x(), "one", 1, "2")
    one, two = One("one", pod_x()), One("two", pod_x())
    one.has()
    two.has()
    one.answered(first)
    two.see(first)
    assert one.has()
    one.store.hand_over(JOB, "two")
    assert (one.has(), two.has()) == (False, False)
    assert one.written == [PoolCondition("ns/x", "x", "2", "two", 2, JOB)]
    one.answered(with_condition(pod_x(), "two", 2, "3"))
    two.answered(with_condition(pod_x(), "two", 2, "3"))
    assert (one.has(), two.has()) == (False, True)


def test_a_move_that_was_refused_leaves_the_job_where_it_was():
    one = One("one", pod_x())
    one.has()
    one.answered(with_condition(pod_x(), "one", 1, "2"))
    assert one.has()
    one.store.hand_over(JOB, "two")
    assert not one.has()
    one.answered(with_condition(pod_x(), "one", 1, "3"))  # somebody has changed the pod
    assert one.has()


def test_a_new_leader_writes_anew_what_an_earlier_one_had():
    """Binds of the earlier one that are under way name a version that is no more."""
    one = One("one", with_condition(pod_x(), "one", 4, "7"))
    assert not one.has()
    assert one.written == [PoolCondition("ns/x", "x", "7", "one", 5, JOB)]
    one.answered(with_condition(pod_x(), "one", 5, "8"))
    assert one.has()


def test_a_taker_writes_on_all_pods_that_wait_before_it_decides():
    notes = {"pod-group-name": "g"}
    pods = [listed(f"g-{at}", "one,two", queue_name="a", annotations=notes) for at in range(3)]
    two = One("two", *(with_condition(pod, "one", 1, "1") for pod in pods))
    two.has()
    two.see(with_condition(pods[0], "two", 2, "2"))
    two.store.snapshot()
    assert [condition.pod for condition in two.written] == ["ns/g-1", "ns/g-2"]
    assert not two.has("ns/g-0")
    two.see(with_condition(pods[1], "two", 2, "3"))
    assert not two.has("ns/g-0")
    two.answered(with_condition(pods[2], "two", 2, "4"))
    assert two.has("ns/g-0")


def test_the_jobs_of_a_pool_that_nobody_serves_are_taken():
    two = One("two", with_condition(pod_x(), "one", 1, "2"))
    assert not two.has()
    assert two.written == []
    two.owners.lose(frozenset({"one"}))
    two.store.pools.look_at_all()
    assert not two.has()
    assert two.written == [PoolCondition("ns/x", "x", "2", "two", 2, JOB)]


def test_the_jobs_of_a_lost_pool_that_run_there_stay():
    running = with_condition(pod_x(), "one", 1, "2")
    running = replace(running, spec=replace(running.spec, node_name="n-one"))
    two = One("two", running)
    two.owners.lose(frozenset({"one"}))
    two.store.pools.look_at_all()
    two.has()
    assert two.written == []


def test_what_is_no_pool_condition_is_none():
    assert pool_condition_of("one 3") == ("one", 3)
    assert pool_condition_of("default 3") == ("", 3)
    others = ("", "one", "one x", " 3", "one 3x", "one 3 3", f"one {'9' * 5000}")
    assert {pool_condition_of(text) for text in others} == {None}


def test_one_pool_alone_needs_no_conditions():
    assert not OwnersByCondition("one", {"one": True}, [].append).is_on


def test_the_first_pod_that_is_left_speaks_for_a_job_whose_speaker_is_gone():
    """A shard that has seen the earlier one agrees with shards that began after it."""
    notes = {"pod-group-name": "g"}
    gone = listed("g-0", "two", queue_name="a", annotations=notes)
    left = listed("g-1", "one,two", queue_name="a", annotations=notes)
    one, two = One("one", gone, left), One("two", gone, left)
    one.store.remove_pod("ns/g-0")
    two.store.remove_pod("ns/g-0")
    assert (one.has("ns/g-1"), two.has("ns/g-1")) == (False, False)
    assert [condition.pod for condition in one.written] == ["ns/g-1"]
    assert two.written == []


def test_a_list_that_is_edited_after_the_speaker_is_gone_counts():
    notes = {"pod-group-name": "g"}
    pods = [pod(f"g-{at}", "a", annotations=notes, uid=f"g-{at}") for at in range(2)]
    one = One("one", group_g("two"), *pods)
    one.store.remove_pod("ns/g-0")
    assert not one.has("ns/g-1")
    assert one.written == []
    one.see(group_g("one,two"))
    one.has("ns/g-1")
    assert [condition.pod for condition in one.written] == ["ns/g-1"]


def group_g(pools):
    return make(PodGroup, "g", annotations={LIST: pools}, spec={"queue": "a", "minMember": 1})
