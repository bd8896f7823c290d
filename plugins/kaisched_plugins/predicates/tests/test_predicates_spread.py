"""Predicates: topology spread constraints, by the rules of kube-scheduler's PodTopologySpread.

The skew of a domain is its pods, with the new one if that counts itself, less the fewest of any
domain; on a node it must not be above maxSkew.
"""

import random
from collections import Counter

import pytest

from kaisched import Constraints, PodTerm, Requirement, SpreadRule, Toleration
from kaisched.core.constraints import Taint
from kaisched.testing import ClusterBuilder

HOST, ZONE = "kubernetes.io/hostname", "zone"
WEB, OTHER = 0, 1
"""Numbers of label sets: those of the first and of the second job of each test."""
KEEP_OFF = Taint("k", "v", "NoSchedule")


def rule(app="web", key=ZONE, skew=1, **more):
    return SpreadRule(
        PodTerm(key, ("default",), False, (Requirement("app", "In", (app,)),)), skew, **more
    )


def spread(*rules, label_set=WEB, **more):
    return Constraints(spread=rules or (rule(),), label_set=label_set, **more)


def cluster(*zones, gpu=8, taints=()):
    """Return a builder with one node a letter, in the zone of that letter; numbers are tainted."""
    builder = ClusterBuilder().queue("q")
    for number, zone in enumerate(zones):
        labels = {HOST: f"n{number}"} | ({} if zone == "-" else {ZONE: zone})
        bad = [KEEP_OFF] if number in taints else []
        builder.node(f"n{number}", gpu=gpu, labels=labels, taints=bad)
    return builder


def web(builder, tasks=1, name="web", **job):
    job.setdefault("constraints", spread())
    return builder.job(name, queue="q", tasks=tasks, labels={"app": "web"}, **job)


def nodes_of(ran, job="web"):
    return Counter(node for pod, node in ran.placed.items() if pod.startswith(f"{job}-"))


def test_a_gang_is_spread_over_zones():
    # 0, 0 -> 1, 0 -> 1, 1 -> 2, 1 -> 2, 2: never 2 more than the other.
    ran = web(cluster("a", "a", "b"), tasks=4).run("allocate")
    found = nodes_of(ran)
    assert found["n0"] + found["n1"] == 2
    assert found["n2"] == 2


def test_single_pods_count_those_of_the_same_cycle():
    builder = cluster("a", "b", "c")
    for number in range(6):
        web(builder, name=f"web{number}", constraints=spread())
    ran = builder.run("allocate")
    assert Counter(ran.placed.values()) == {"n0": 2, "n1": 2, "n2": 2}


def test_max_skew_is_how_many_more():
    # n1 is full after one pod: 1 + 3 is the most on n0, and a fifth pod would make the skew 4.
    builder = cluster("a", "b").job("filler", queue="q", tasks=7, running={"n1": 7})
    for number in range(6):
        web(builder, name=f"web{number}", constraints=spread(rule(skew=3), label_set=1))
    ran = builder.run("allocate")
    assert Counter(ran.placed.values()) == {"n0": 4, "n1": 1}


def test_a_gang_that_would_be_uneven_waits_and_says_so():
    builder = cluster("a", "b").job("filler", queue="q", tasks=7, running={"n1": 7})
    ran = web(builder, tasks=4, constraints=spread(label_set=1)).run("allocate")
    assert ran.placed == {}
    (record,) = ran.result.records
    assert "maxSkew 1 over zone: a has 0, b has 0" in record.message


def test_the_reason_names_the_constraint_and_the_counts():
    builder = cluster("a", "b", gpu=2).job("filler", queue="q", tasks=2, running={"n1": 2})
    web(builder, name="old", running={"n0": 1}, constraints=spread(label_set=1))
    (record,) = web(builder, constraints=spread(label_set=1)).run("allocate").result.records
    assert {each.reason for each in record.node_misses} == {"TopologySpread", "Resources"}
    assert "maxSkew 1 over zone: b has 0, a has 1" in record.message


def test_pods_that_run_count_whoever_placed_them():
    builder = web(cluster("a", "b"), running={"n0": 1}, constraints=None)
    ran = web(builder, name="new").run("allocate")
    assert nodes_of(ran, "new") == {"n1": 1}


def test_a_pod_that_was_asked_to_leave_does_not_count():
    # Of those that stay a has none and b one: so only a is open, though a has more that hold room.
    builder = web(cluster("a", "b"), name="stays", running={"n1": 1}, constraints=None)
    web(builder, name="old", tasks=2, leaving={"n0": 2}, constraints=None)
    assert nodes_of(web(builder, name="new").run("allocate"), "new") == {"n0": 1}


def test_without_enough_domains_the_fewest_are_none():
    # Two domains of at least three: each may have maxSkew pods in all.
    builder = cluster("a", "b")
    for number in range(4):
        web(builder, name=f"web{number}", constraints=spread(rule(min_domains=3)))
    assert Counter(builder.run("allocate").placed.values()) == {"n0": 1, "n1": 1}


def test_nodes_without_the_label_are_out_and_their_pods_do_not_count():
    builder = web(cluster("-", "a", "b"), name="old", tasks=3, running={"n0": 3}, constraints=None)
    ran = web(builder, tasks=2).run("allocate")
    assert nodes_of(ran) == {"n1": 1, "n2": 1}
    alone = web(cluster("-")).run("allocate").result.records[0]
    assert [each.reason for each in alone.node_misses] == ["TopologyLabel"]


def test_a_node_counts_only_with_the_labels_of_all_constraints():
    # n0 has no zone: the pods there do not count for the host constraint either.
    builder = web(cluster("-", "a", "b"), name="old", tasks=3, running={"n0": 3}, constraints=None)
    ran = web(builder, tasks=2, constraints=spread(rule(), rule(key=HOST))).run("allocate")
    assert nodes_of(ran) == {"n1": 1, "n2": 1}


def test_several_constraints_hold_at_once():
    # Zones 2 and 2, so 1 each of the hosts of a and 2 on that of b would be a skew of 1: allowed.
    both = spread(rule(), rule(key=HOST))
    assert nodes_of(web(cluster("a", "a", "b"), tasks=4, constraints=both).run("allocate")) == {
        "n0": 1,
        "n1": 1,
        "n2": 2,
    }


@pytest.mark.parametrize(("honors", "count"), [(False, 1), (True, 2)])
def test_node_taints_policy(honors, count):
    # Ignore: c has 0, so that b with 1 is closed, and a is after one pod. Honor: there is no c.
    builder = cluster("a", "b", "c", taints=(2,))
    web(builder, name="old", running={"n1": 1}, constraints=None)
    for number in range(2):
        web(builder, name=f"web{number}", constraints=spread(rule(honors_taints=honors)))
    assert len(builder.run("allocate").placed) == count


def test_a_tolerated_taint_is_none():
    able = spread(rule(honors_taints=True), tolerations=(Toleration("k", "Exists", "", ""),))
    ran = web(cluster("a", "b", taints=(1,)), tasks=2, constraints=able).run("allocate")
    assert nodes_of(ran) == {"n0": 1, "n1": 1}


@pytest.mark.parametrize(("honors", "count"), [(True, 3), (False, 1)])
def test_node_affinity_policy(honors, count):
    # Honor: a is the only domain. Ignore: b has 0, and a may have 1.
    builder = cluster("a", "b")
    only = spread(rule(honors_affinity=honors), node_selector=((ZONE, "a"),))
    for number in range(3):
        web(builder, name=f"web{number}", constraints=only)
    assert Counter(builder.run("allocate").placed.values()) == {"n0": count}


def test_a_pod_that_does_not_count_itself():
    # One that is not of `web` may be where the skew of web is at most 1 without it.
    builder = web(cluster("a", "b"), name="old", running={"n0": 1}, constraints=None)
    job = {"labels": {"app": "other"}, "constraints": spread(label_set=OTHER)}
    ran = builder.job("other", queue="q", tasks=3, on=("n0",), **job).run("allocate")
    assert nodes_of(ran, "other") == {"n0": 3}


def test_an_eviction_makes_a_domain_open():
    # The quota of new pays for a GPU; web may only be where the low job is.
    builder = (
        ClusterBuilder()
        .node("n0", gpu=1, labels={ZONE: "a"})
        .node("n1", gpu=2, labels={ZONE: "b"})
        .queue("q", deserved=3)
        .queue("r", deserved=0)
    )
    web(builder, name="old", running={"n1": 1}, constraints=None)
    builder.job("low", queue="r", running={"n0": 1}, is_preemptible=True)
    ran = web(builder, name="new", tasks=2).run()
    assert set(ran.evicted) == {"low-0"}
    assert sorted(ran.promised) == ["new-0", "new-1"]
    assert sorted(ran.promised.values()) == ["n0", "n1"]


class Rules:
    """Kube-scheduler's rule said once more, node by node, on a cluster drawn from a seed."""

    def __init__(self, seed):
        draw = random.Random(seed)
        self.at: Counter[str] = Counter()
        self.free, self.labels, self.tainted = {}, {}, set()
        builder = ClusterBuilder().queue("q")
        for name in (f"n{number}" for number in range(draw.randint(2, 6))):
            zone = {ZONE: draw.choice("abc")} if draw.random() < 0.85 else {}
            self.labels[name], self.free[name] = {HOST: name, **zone}, draw.randint(1, 4)
            bad = [KEEP_OFF] if draw.random() < 0.25 else []
            self.tainted |= {name} if bad else set()
            builder.node(name, gpu=self.free[name], labels=self.labels[name], taints=bad)
            self.at[name] = draw.randint(0, min(2, self.free[name]))
        runs = {name: count for name, count in self.at.items() if count}
        if runs:
            web(builder, name="old", tasks=sum(runs.values()), running=runs, constraints=None)
        self.free = {name: room - self.at[name] for name, room in self.free.items()}
        self.selector = ((ZONE, draw.choice("abc")),) if draw.random() < 0.3 else ()
        self.rules = [
            rule(
                key=key,
                skew=draw.randint(1, 2),
                min_domains=draw.choice([1, 1, 2, 4]),
                honors_affinity=draw.random() < 0.5,
                honors_taints=draw.random() < 0.5,
            )
            for key in draw.sample([ZONE, HOST], draw.randint(1, 2))
        ]
        self.count, self.is_gang = draw.randint(1, 7), draw.random() < 0.5
        asked = spread(*self.rules, node_selector=self.selector)
        jobs = [self.count] if self.is_gang else [1] * self.count
        for number, tasks in enumerate(jobs):
            web(builder, tasks, name=f"new{number}", constraints=asked)
        self.builder = builder

    def is_selected(self, name):
        return all(self.labels[name].get(key) == value for key, value in self.selector)

    def allows(self, name):
        keys = {it.pods.topology_key for it in self.rules}
        if name in self.tainted or self.free[name] <= 0 or not self.is_selected(name):
            return False
        return keys <= self.labels[name].keys() and all(
            self._is_even(it, name, keys) for it in self.rules
        )

    def _is_even(self, one, name, keys):
        counts: Counter[str] = Counter()
        for node, labels in self.labels.items():
            is_out = one.honors_affinity and not self.is_selected(node)
            is_out |= one.honors_taints and node in self.tainted
            if keys <= labels.keys() and not is_out:
                counts[labels[one.pods.topology_key]] += self.at[node]
        least = 0 if len(counts) < one.min_domains else min(counts.values())
        return counts[self.labels[name][one.pods.topology_key]] + 1 - least <= one.max_skew

    def fill(self, wanted):
        """Place pods where they may go, as many as there are; return how many were left."""
        while found := [name for name in self.labels if wanted[name] > 0 and self.allows(name)]:
            wanted[found[0]] -= 1
            self.at[found[0]] += 1
            self.free[found[0]] -= 1
        return sum(wanted.values())


@pytest.mark.parametrize("seed", range(20))
def test_pods_go_where_the_rule_said_plainly_lets_them(seed):
    world = Rules(seed)
    placed = [
        node for pod, node in world.builder.run("allocate").placed.items() if pod[:3] == "new"
    ]
    assert not world.fill(Counter(placed))  # in some order
    left = world.count - len(placed)
    if world.is_gang and left:
        room = sum(world.free.values())
        assert room - world.fill(Counter(world.free)) < left == world.count
    elif left:
        assert not any(map(world.allows, world.labels))
