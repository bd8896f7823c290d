"""A plan's life: prepared whole, sent a few at a time, withdrawn at any moment."""

import threading
import time

import pytest

from kaisched.cluster.kubernetes import evictor
from kaisched.cluster.kubernetes.evictor import (
    GRANTED,
    MOST_AT_ONCE,
    EvictionPlan,
    Evictor,
    Verdict,
)
from kaisched.cluster.kubernetes.write_queue import WriteQueue
from kaisched.framework.intents import Evict, Nominate
from kaisched_apiserver import Fault
from tests.unit.cluster.kubernetes.test_binder import refuted
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.fault("I124")


class Fake:
    """An evictor that answers as it is told, and notes what was asked."""

    def __init__(self, writers):
        self.writers = writers
        self.asked = []
        self.answers = {}

    def _ask(self, what, pod):
        self.asked.append((what, pod))
        return self.answers.get((what, pod), GRANTED)

    def promise(self, nominate):
        return self._ask("promise", nominate.pod)

    def try_out(self, evict):
        return self._ask("try", evict.pod)

    def evict(self, evict, unanswered):
        return self._ask("evict", evict.pod)


@pytest.fixture
def fake(writers):
    return Fake(writers)


@pytest.fixture
def works():
    """What the write queue was given: (is prepared, work)."""
    return []


def victim(name):
    return Evict(name, f"{name}-uid", "n0", "v", "reclaim", "b", "above its share", 0, 0)


@pytest.fixture
def plan(fake, works):
    """A plan for pod ``b`` with so many victims, begun."""

    def plan(count, *, promises=True):
        promised = [Nominate("b", "b-uid", "n0", "b", 0, 0)] if promises else []
        made = EvictionPlan(
            fake,
            [victim(f"v{at}") for at in range(count)],
            promised,
            lambda work, is_prepared: works.append((is_prepared, work)),
        )
        made.start()
        return made

    return plan


def run(works):
    """Send everything; a pause is not waited for."""
    while works:
        is_prepared, work = works.pop(0)
        if work.send() is not None:
            works.append((is_prepared, work))


def run_until(works, condition):
    """Send so much that something holds."""
    while not condition():
        is_prepared, work = works.pop(0)
        if work.send() is not None:
            works.append((is_prepared, work))


def asked(fake, what):
    return [pod for it, pod in fake.asked if it == what]


def test_everything_is_prepared_before_anything_is_evicted(plan, works, fake):
    made = plan(3)
    run(works)
    kinds = [what for what, _ in fake.asked]
    assert kinds == ["promise", *3 * ["try"], *3 * ["evict"]]
    assert made.is_settled


def test_one_victim_needs_no_dry_run_and_nobody_s_plan_no_promise(plan, works, fake):
    plan(1)
    run(works)
    assert [what for what, _ in fake.asked] == ["promise", "evict"]
    fake.asked.clear()
    plan(1, promises=False)
    assert [is_prepared for is_prepared, _ in works] == [True]


@pytest.fixture
def write_queue(writers):
    made = WriteQueue(writers.leadership, writers=8, per_second=10_000, write_s=1.0)
    yield made
    made.close(5.0)


def test_few_requests_of_a_plan_are_under_way_at_a_time(fake, write_queue):
    """Others, binds above all, get on meanwhile."""
    lock, now, most = threading.Lock(), [], []
    are_many = threading.Event()

    def evict(evict, _=None):
        with lock:
            now.append(evict.pod)
            most.append(len(now))
            if len(now) >= MOST_AT_ONCE:
                are_many.set()
        are_many.wait(PATIENCE_S)
        time.sleep(0.001)  # so that one too many would be seen
        with lock:
            now.remove(evict.pod)
        return GRANTED

    fake.try_out = fake.evict = evict
    victims = [victim(f"v{at}") for at in range(40)]
    made = EvictionPlan(fake, victims, [], lambda work, is_prepared: write_queue.put(2, work))
    made.start()
    until(lambda: made.is_settled)
    assert len(most) == 80
    assert max(most) == MOST_AT_ONCE


@pytest.mark.parametrize("steps", range(9))
def test_a_plan_that_is_withdrawn_sends_nothing_more(plan, works, fake, news, steps):
    """A promise, four dry runs and four evictions, withdrawn before any of them."""
    made = plan(4)
    for _ in range(steps):
        is_prepared, work = works.pop(0)
        if work.send() is not None:
            works.insert(0, (is_prepared, work))
    before = list(fake.asked)
    made.withdraw("nobody wants it")
    run(works)
    assert fake.asked == before
    assert made.is_settled
    gone = asked(fake, "evict")
    assert sorted(refuted(news)) == sorted({"v0", "v1", "v2", "v3"} - set(gone))


def test_a_victim_whose_eviction_is_under_way_is_let_live_only_if_that_fails(
    plan, works, fake, news
):
    made = plan(1, promises=False)
    fake.answers["evict", "v0"] = Verdict("the answer was lost")
    ((_, work),) = works
    assert work.send() is not None
    made.withdraw("nobody wants it")
    assert not made.is_settled
    assert refuted(news) == []
    assert work.send() is None
    assert made.is_settled
    assert refuted(news) == ["v0"]
    assert asked(fake, "evict") == ["v0"]


def test_a_victim_that_left_by_itself_is_left_out(plan, works, fake, news):
    made = plan(3)
    made.spare("v1")
    run(works)
    assert asked(fake, "evict") == ["v0", "v2"]
    assert refuted(news) == []
    made = plan(2)
    made.spare("v0")
    made.spare("v1")
    run(works)
    assert made.is_settled


def test_what_may_not_go_lets_all_others_live(plan, works, fake, news):
    fake.answers["try", "v2"] = Verdict("its budget", is_final=True)
    made = plan(4)
    run(works)
    assert asked(fake, "evict") == []
    assert sorted(refuted(news)) == ["v0", "v1", "v2", "v3"]
    assert made.is_settled


@pytest.mark.parametrize("what", ["try", "evict"])
def test_what_is_not_sent_in_time_is_decided_again(plan, works, fake, news, monkeypatch, what):
    """A stage has 20 s, and a twentieth for each of 31 and 30 requests."""
    now_s = [1000.0]
    monkeypatch.setattr(evictor, "monotonic_s", lambda: now_s[0])
    made = plan(30)
    run_until(works, lambda: len(asked(fake, what)) == 7)
    now_s[0] += 21.6
    run(works)
    assert len(asked(fake, what)) == 7
    assert len(refuted(news)) == 30 - len(asked(fake, "evict"))
    assert "in time" in made.why_over


def test_a_plan_that_was_long_prepared_evicts_all_the_same(plan, works, fake, monkeypatch):
    """Else a gang would go in part: some pods in vain, and the others run in vain."""
    now_s = [1000.0]
    monkeypatch.setattr(evictor, "monotonic_s", lambda: now_s[0])
    made = plan(16)
    for what in ("try", "evict"):
        run_until(works, lambda what=what: len(asked(fake, what)) == 5)
        now_s[0] += 19.0
    run(works)
    assert len(asked(fake, "evict")) == 16
    assert made.why_over == ""


def test_a_retry_is_not_put_off_beyond_the_plan_s_time(plan, works, fake):
    fake.answers["evict", "v0"] = Verdict("busy", asked_s=600.0)
    plan(1, promises=False)
    ((_, work),) = works
    assert 19.0 < work.send() < 21.0


def test_a_plan_of_an_earlier_leadership_is_not_sent(fake, works, plan, news):
    plan(2)
    fake.writers.leadership.renew(1e9, "us", 4, "kaisched-a")
    run(works)
    assert fake.asked == []
    assert sorted(refuted(news)) == ["v0", "v1"]


def test_a_write_queue_that_drops_a_part_ends_the_whole(plan, works, fake, news):
    made = plan(8)
    works.pop(0)[1].drop("we do not lead")
    run(works)
    assert fake.asked == []
    assert len(refuted(news)) == 8
    assert made.is_settled


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [
        (Verdict("it may not go", is_final=True), "dropped"),
        (Verdict("it is on n7", is_final=True, is_unwanted=True), "withdrawn"),
    ],
)
def test_what_nobody_wants_is_no_failure(plan, works, fake, verdict, outcome):
    """A rule of alerts counts what was dropped."""
    fake.answers["promise", "b"] = verdict
    plan(3)
    run(works)
    assert fake.writers.counts.read()["evict", outcome][0] == 3


# -- the answers of a server ---------------------------------------------------------------------


@pytest.fixture
def promise(writers, make_pod):
    """Ask for a promise to a pod that is made so."""

    def promise(uid="", **spec):
        pod = make_pod("b", **spec)
        nominate = Nominate("default/b", uid or pod["metadata"]["uid"], "n0", "default/b", 0, 0)
        return Evictor(writers, lambda *_: None).promise(nominate)

    return promise


def test_a_promise_is_written_to_who_waits_for_it(promise, get_pod):
    assert promise() == GRANTED
    assert get_pod("b")["status"]["nominatedNodeName"] == "n0"


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"nodeName": "n7"}, "default/b: it is on n7"),
        ({"schedulingGates": [{"name": "wait"}]}, "default/b: it has scheduling gates"),
        ({"uid": "another"}, "default/b is another pod than planned for"),
    ],
)
def test_the_answer_tells_that_nobody_waits(promise, how, why):
    assert promise(**how) == Verdict(why, is_final=True, is_unwanted=True)


def test_a_pod_that_is_gone_needs_no_room(writers):
    nominate = Nominate("default/b", "some", "n0", "default/b", 0, 0)
    verdict = Evictor(writers, lambda *_: None).promise(nominate)
    assert verdict.is_final


@pytest.mark.parametrize("effect", ["status", "drop_before", "drop_after"])
def test_a_server_in_trouble_is_asked_again(promise, server, effect):
    server.faults.add(Fault(effect, subresource="status", code=503))
    verdict = promise()
    assert verdict.why
    assert not verdict.is_final


def half_sent(plan, works, whole):
    """Three pods of one job, of which one is evicted when nobody waits any more."""
    made = plan(3, promises=False)
    made.whole = frozenset(whole)
    while not made.sent:
        is_prepared, work = works.pop(0)
        if work.send() is not None:
            works.insert(0, (is_prepared, work))
    made.withdraw("b is placed", is_unwanted=True)
    return made


@pytest.mark.parametrize(("whole", "count"), [((), 1), (("other",), 1), (("v",), 3)])
def test_the_rest_of_a_job_that_goes_whole_follows_though_nobody_waits(
    plan, works, fake, whole, count
):
    made = half_sent(plan, works, whole)
    run(works)
    assert len(asked(fake, "evict")) == count
    assert made.is_settled


def test_a_job_that_goes_whole_stays_whole_where_nothing_of_it_is_sent(plan, works, fake):
    made = plan(3, promises=False)
    made.whole = frozenset({"v"})
    made.withdraw("b is placed", is_unwanted=True)
    run(works)
    assert asked(fake, "evict") == []
    assert made.is_settled


def test_nothing_follows_once_we_do_not_lead(plan, works, fake, monkeypatch):
    made = half_sent(plan, works, ["v"])
    monkeypatch.setattr(type(made), "why_late", "it was made under an earlier leadership")
    run(works)
    assert len(asked(fake, "evict")) == 1
    assert made.is_settled
