"""The law of advice for the daemon: what its conditions say would help does, what not does not.

The condition of a pod group is read as it is written to the server, and each change that its words
name is applied to the cluster itself, which is loaded anew. What is no longer so once the cluster
became another one goes, and something else comes once it may.
``python -m tests.laws.test_daemon_advice_laws 500`` prints the rates over so many clusters.
"""

import random
import re
import sys
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kaisched.clock import ManualClock
from kaisched.cluster.kubernetes.client import Answer
from kaisched.cluster.kubernetes.reflector import Change
from kaisched.cluster.kubernetes.reports import Reporter
from kaisched.cluster.kubernetes.status_writer import WEIGHTS
from kaisched.cluster.kubernetes.write_queue import ReportQueue
from kaisched.cluster.members import Members
from kaisched.cluster.store import StateStore
from kaisched.core.axis import TaskState
from kaisched.framework.advice import advice
from kaisched.framework.advice.advice import Advice, Kind
from kaisched.framework.advice.standing import HOLD_S, StandingAdvice
from kaisched.objects.gangs import KNOWN
from kaisched.objects.podgroup import PodGroup
from kaisched.units import base_units
from tests.laws.clusters import NOW_S, make_cluster
from tests.laws.crowded import make_crowded
from tests.laws.test_advice_laws import applied, cycle, placed

_SAID = re.compile(r"; would (help|not be enough by itself) \(tried [-0-9]+ [0-9:]+ UTC\): (.*)$")
_FIXED = {
    "no node selector or node affinity of its own": Kind.SELECTOR,
    "tolerating the taints of the nodes": Kind.TOLERATIONS,
    "being preemptible": Kind.PREEMPTIBLE,
}


class Declared(Members):
    """Says that a pod group stands behind each job."""

    def is_declared(self, job):
        return True


class Server:
    """Keeps what pod groups are told."""

    def __init__(self):
        self.told, self.writes = {}, Counter()

    def call(self, method, path, *, body=None, content_type=""):
        del method, content_type
        *_, namespace, _, name, _ = path.split("/")
        status = (body or {}).get("status", {})
        if "schedulingConditions" in status:
            job = f"{namespace}/{name}"
            self.writes[job] += 1
            self.told[job] = [it["message"] for it in status["schedulingConditions"]]
        version = str(1 + self.writes.total())
        meta = {"namespace": namespace, "name": name, "uid": name, "resourceVersion": version}
        return Answer(200, msgspec.json.encode({"metadata": meta, "spec": {}, "status": status}))


class Daemon:
    """The reporter and the advice of a daemon, in a time of their own."""

    def __init__(self):
        self.server, self.report_queue_s, self.advice = Server(), 0.0, StandingAdvice()
        self.report_queue = ReportQueue(WEIGHTS, now=lambda: self.report_queue_s)
        self.reporter = None

    def see(self, cluster):
        """Begin to report on a cluster."""
        store = StateStore()
        store.members = Declared(store.rows, store.pods, store.pools, KNOWN, owner_wait_s=0.0)
        self.reporter = Reporter(
            self.server, self.report_queue, ManualClock(NOW_S), store, advice=self.advice
        )
        for job in cluster.jobs:
            meta = {"name": job.name, "namespace": "default", "uid": job.name}
            group = msgspec.convert({"metadata": meta, "spec": {}}, PodGroup)
            self.reporter.handle(Change(group))
        cluster.load(store.rows)
        return store

    def live(self, cluster, now_s):
        """Take turns on a cluster in which nothing happens until nothing more is said."""
        snapshot = self.see(cluster).snapshot()
        while True:
            result = cycle_on(snapshot, now_s)
            count = self.advice.trials
            self.advice.find(result)
            if self.advice.trials == count and self.advice.left > 0:
                break
        for _ in range(2 + len(result.records) // 20):  # all have their turn
            self.report_queue_s += 60.0
            self.reporter.after(snapshot, result)
            while self.reporter.step():
                pass
        return result

    def said(self, job):
        """Return what the condition of a pod group says of advice."""
        found = [it for text in self.server.told.get(job, ()) for it in _SAID.findall(text)]
        return [read(words, helps == "help") for helps, each in found for words in split(each)]


def cycle_on(snapshot, now_s):
    class Loaded:
        def store(self):
            return self

        def snapshot(self):
            return snapshot

    return cycle(Loaded(), now_s)


def split(text):
    return re.split(r"; or |; ", text)


def read(words, helps):
    """Return the advice that words stand for."""
    some = [read_one(each, helps) for each in words.split(advice.TOGETHER)]
    return Advice(*advice.together(*((it.kind, it.changes) for it in some)), helps)


def read_one(words, helps):
    """Return the advice of one kind that words stand for."""
    if words in _FIXED:
        return Advice(_FIXED[words], (advice.Change(""),), helps)
    if found := re.fullmatch(r"(\d+) more nodes? like (\S+)(?: but with (.*))?", words):
        larger = [amount(found[2], it) for it in (found[3] or "").split(" and ") if it]
        return Advice(Kind.NODES, (advice.Change(found[2], "", int(found[1])), *larger), helps)
    if found := re.fullmatch(r"a minimum of (\d+)", words):
        return Advice(Kind.MINIMUM, (advice.Change("", amount=int(found[1])),), helps)
    if found := re.fullmatch(r"the end of (\S+)", words):
        return Advice(Kind.END, (advice.Change(found[1]),), helps)
    if found := re.fullmatch(r"waiting until (.*) UTC", words):
        until = datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
        return Advice(Kind.TIME, (advice.Change("", amount=int(until.timestamp())),), helps)
    parts = [
        re.fullmatch(r"a (quota|limit) of (.*) for queue (\S+)", it) for it in words.split(" and ")
    ]
    return Advice(Kind(parts[0][1]), tuple(amount(it[3], it[2]) for it in parts), helps)


def amount(on, text):
    resource, _, quantity = text.partition(" ")
    return advice.Change(on, resource, base_units(resource, quantity))


def judged(daemon, cluster, now_s, result):
    """Return how often each kind of advice was right and wrong, by what it said."""
    found = Counter(waiting=len(result.records))
    for record in result.records:
        job = record.pod_group
        before = placed(result, cluster, job)
        for each in daemon.said(job):
            changes = each.changes
            if each.kind is Kind.TIME:
                changes = (replace(changes[0], amount=changes[0].amount - now_s),)
            changed, later_s = applied(cluster, job, replace(each, changes=changes))
            starts = placed(cycle(changed, now_s + later_s), changed, job) > before
            found[each.kind, each.helps, starts] += 1
        found["with advice"] += any(it.helps for it in daemon.said(job))
    return found


def wrong(found):
    return [key for key in found if isinstance(key, tuple) and key[1] != key[2]]


def with_copies(cluster, seed, count):
    """Return a cluster in which so many jobs wait beside each that does, and are younger."""
    ages, jobs = random.Random(seed), list(cluster.jobs)
    for job in cluster.jobs:
        if all(task.state == TaskState.PENDING for task in job.tasks):
            for at in range(count):
                tasks = tuple(
                    replace(task, name=f"{task.name}c{at}", nominated="") for task in job.tasks
                )
                created_s = job.created_s + ages.choice([0, 0, 1, 5])
                jobs.append(replace(job, name=f"{job.name}c{at}", created_s=created_s, tasks=tasks))
    return replace(cluster, jobs=tuple(jobs))


@settings(max_examples=3)  # slow: some fifty cycles each
@given(
    st.sampled_from([make_crowded, make_cluster]), st.integers(0, 100_000), st.sampled_from([0, 2])
)
def test_what_conditions_advise_holds(make, seed, copies):
    daemon, cluster = Daemon(), with_copies(make(seed), seed, copies)
    result = daemon.live(cluster, NOW_S)
    found = judged(daemon, cluster, NOW_S, result)
    assert wrong(found) == []


# What is left of the job to be placed is another pod meanwhile, which hears something else.
@example(seed=1764, which=233)
# The code of a plugin's refusal was compared as an object.
@example(seed=213, which=2)
@settings(max_examples=3)  # slow: some hundred cycles each
@given(st.integers(0, 100_000), st.integers(0, 1000))
def test_advice_that_a_change_made_untrue_goes_and_other_comes_later(seed, which):
    daemon, cluster = Daemon(), make_crowded(seed)
    daemon.live(cluster, NOW_S)
    told = dict(daemon.advice.told)
    later, soon_s = without_one(cluster, which), NOW_S + HOLD_S / 2
    result = daemon.live(later, soon_s)
    for job, known in told.items():
        now = daemon.advice.told.get(job)
        is_other = now is not None and (now.code, now.subject) != (known.code, known.subject)
        assert now is None or now == known or not now.text or is_other, "said otherwise at once"
    assert wrong(judged(daemon, later, soon_s, result)) == []
    result = daemon.live(later, NOW_S + 2 * HOLD_S)
    assert wrong(judged(daemon, later, NOW_S + 2 * HOLD_S, result)) == []


def without_one(cluster, which):
    """Return a cluster that lacks a job, or has a node more."""
    at = which % (len(cluster.jobs) + 1)
    if at < len(cluster.jobs):
        return replace(cluster, jobs=cluster.jobs[:at] + cluster.jobs[at + 1 :])
    return replace(cluster, nodes=(*cluster.nodes, replace(cluster.nodes[0], name="another")))


def main(count):
    for make in (make_crowded, make_cluster):
        found = Counter()
        for seed in range(count):
            daemon, cluster = Daemon(), make(seed)
            found += judged(daemon, cluster, NOW_S, daemon.live(cluster, NOW_S))
        print(make.__name__, f"{found['waiting']} waiting, {found['with advice']} with advice")
        for kind in Kind:
            for said in (True, False):
                right, false = found[kind, said, said], found[kind, said, not said]
                if right + false:
                    words = "would help" if said else "would not be enough"
                    print(f"  {kind:12} {words:20} right {right:5} wrong {false:5}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
