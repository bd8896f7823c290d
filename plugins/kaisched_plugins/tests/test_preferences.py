"""Preferences: scores by the rules of kube-scheduler, worked out by hand.

Nodes are equal but for what a test says, so that by binpack alone all pods would go to ``n0``.
"""

import random
from collections import Counter
from math import log

import numpy as np
import pytest

from kaisched import Constraints, PodTerm, Requirement, SpreadRule
from kaisched.core.constraints import Preferences, Taint, Toleration
from kaisched.framework.memory import Memory
from kaisched.framework.session.session import Session
from kaisched.testing import ClusterBuilder, check_plugin
from kaisched.testing.builder import NOW_S, policy_of
from kaisched_plugins.preferences import Preferences as Plugin

HOST, ZONE = "kubernetes.io/hostname", "zone"
FIRST, SECOND = 0, 1
"""Numbers of label sets: those of the first and of the second job of each test."""


def term(app, key=ZONE):
    return PodTerm(key, ("default",), False, (Requirement("app", "In", (app,)),))


def node_term(key, *values):
    return ((Requirement(key, "In", values),), ())


def prefers(*, near=(), nodes=(), spread=(), label_set=FIRST, **more):
    wishes = Preferences(tuple(nodes), tuple(near), tuple(spread))
    return Constraints(preferences=wishes, label_set=label_set, **more)


def rule(app="web", key=ZONE, skew=1, **more):
    return SpreadRule(term(app, key), skew, **more)


def cluster(*zones, gpu=8, taints=None):
    """Return a builder with one node a letter, in the zone of that letter."""
    builder = ClusterBuilder().queue("q")
    for number, zone in enumerate(zones):
        labels = {HOST: f"n{number}"} | ({} if zone == "-" else {ZONE: zone})
        builder.node(f"n{number}", gpu=gpu, labels=labels, taints=(taints or {}).get(number, ()))
    return builder


def job(builder, name="web", app="web", **more):
    return builder.job(name, queue="q", labels={"app": app}, **more)


def asked(builder, name="new-0", **arguments):
    """Return the scores of all nodes for a pod, in ninths, which is what kube-scheduler adds up."""
    snapshot, policy = builder.store().snapshot(), policy_of()
    plugin = Plugin(Plugin.Arguments.model_validate(arguments))
    session = Session(snapshot, None, policy, NOW_S, Memory(), policy.questions)
    policy.questions.open(session)
    session.state["preferences"] = plugin.session_open(session)
    shape = snapshot.tasks.shape_of_task[list(snapshot.tasks.name).index(f"default/{name}")]
    rows = np.arange(len(snapshot.nodes))
    found = plugin.node_score(session, int(shape), rows, np.zeros_like(rows))
    return None if found is None else pytest.approx((found * 9).tolist())


def nodes_of(ran, job="new"):
    return Counter(node for pod, node in ran.placed.items() if pod.startswith(job))


# -- spread ----------------------------------------------------------------------------------------


def test_the_fewer_pods_a_domain_has_the_higher_its_score():
    # a has 2, b 1, c none, and each counts log(3 + 2): (2 + 0 - count) / 2, of 2 ninths.
    builder = job(cluster("a", "a", "b", "c"), tasks=3, running={"n0": 2, "n2": 1})
    job(builder, "new", constraints=prefers(spread=[rule()]))
    assert asked(builder) == [0, 0, 1, 2]


def test_max_skew_makes_all_pods_count_a_little_less():
    # Counts of 2, 1 and 0 times log(5), and 2 for a skew of 3 on all.
    builder = job(cluster("a", "b", "c"), tasks=3, running={"n0": 2, "n1": 1})
    job(builder, "new", constraints=prefers(spread=[rule(skew=3)]))
    many, one, none = 2 * log(5) + 2, log(5) + 2, 2
    assert asked(builder) == [2 * (many + none - it) / many for it in (many, one, none)]


def test_a_constraint_over_more_domains_counts_more():
    # Two zones and three hosts: n0 has 1 pod, in a; n1 none, in a; n2 one, in b.
    builder = job(cluster("a", "a", "b"), tasks=2, running={"n0": 1, "n2": 1})
    job(builder, "new", constraints=prefers(spread=[rule(), rule(key=HOST)]))
    zone, host = log(4), log(5)
    most, least = zone + host, zone
    assert asked(builder) == [2 * (most + least - it) / most for it in (most, least, most)]


def test_nodes_without_a_label_have_the_lowest_score_and_their_pods_do_not_count():
    builder = job(cluster("-", "a", "b"), tasks=3, running={"n0": 2, "n1": 1})
    job(builder, "new", constraints=prefers(spread=[rule(), rule(key=HOST)]))
    assert asked(builder) == [0, 0, 2]


def test_pods_that_were_asked_to_leave_do_not_count():
    builder = job(cluster("a", "b"), tasks=3, leaving={"n0": 2}, running={"n1": 1})
    job(builder, "new", constraints=prefers(spread=[rule()]))
    assert asked(builder) == [2, 0]


@pytest.mark.parametrize(("honors", "in_a"), [(True, 0), (False, 2)])
def test_node_affinity_policy(honors, in_a):
    # n3, of zone a, does not take the new pod: its two pods count only if affinity is ignored.
    builder = cluster("a", "b", "c", "a")
    job(builder, tasks=7, running={"n1": 4, "n2": 1, "n3": 2})
    spread = [rule(honors_affinity=honors)]
    allowed = tuple(node_term(HOST, f"n{at}") for at in (0, 1, 2))
    job(builder, "new", constraints=prefers(spread=spread, node_terms=allowed))
    least = min(in_a, 1)
    assert asked(builder) == [*(2 * (4 + least - count) / 4 for count in (in_a, 4, 1)), 0]


@pytest.mark.parametrize(("honors", "in_a"), [(True, 0), (False, 2)])
def test_node_taints_policy(honors, in_a):
    # n1, of zone a, is tainted, and has two pods.
    bad = {1: [Taint("k", "v", "NoSchedule")]}
    builder = job(cluster("a", "a", "b", taints=bad), tasks=3, running={"n1": 2, "n2": 1})
    job(builder, "new", constraints=prefers(spread=[rule(honors_taints=honors)]))
    counts = (in_a, 1)
    in_zones = [2 * (max(counts) + min(counts) - count) / max(counts) for count in counts]
    assert asked(builder) == [in_zones[0], 0, in_zones[1]]


def test_pods_of_a_gang_and_single_pods_are_spread_alike():
    gang = job(cluster("a", "b", "c"), "new", tasks=6, constraints=prefers(spread=[rule()]))
    assert nodes_of(gang.run("allocate")) == {"n0": 2, "n1": 2, "n2": 2}
    single = cluster("a", "b", "c")
    for number in range(6):
        job(single, f"new{number}", constraints=prefers(spread=[rule()]))
    assert nodes_of(single.run("allocate")) == {"n0": 2, "n1": 2, "n2": 2}


def test_who_finds_no_even_place_starts_all_the_same():
    builder = job(cluster("a", "b", gpu=3), tasks=2, app="x", running={"n1": 2})
    job(builder, "new", tasks=4, constraints=prefers(spread=[rule()], label_set=SECOND))
    assert nodes_of(builder.run("allocate")) == {"n0": 3, "n1": 1}


def test_victims_make_room_where_the_pods_are_spread():
    # All is full with pods of another queue; two pods of a gang go to a zone each.
    builder = cluster("a", "b", gpu=2).queue("rich", deserved=0).queue("own", deserved=2)
    for at in (0, 1, 2, 3):
        builder.job(f"x{at}", queue="rich", running={f"n{at % 2}": 1})
    wish = prefers(spread=[rule()], label_set=SECOND)
    builder.job("new", queue="own", tasks=2, min_tasks=2, labels={"app": "web"}, constraints=wish)
    ran = builder.run("allocate", "reclaim")
    assert sorted(ran.promised.values()) == ["n0", "n1"]


# -- pod affinity ----------------------------------------------------------------------------------


def test_preferred_affinity_counts_each_pod_with_its_weight():
    # Near: zone a has two, b one, each counts 10. Away: each host but n3 has one, which counts 5.
    builder = job(cluster("a", "a", "b", "c"), tasks=3, running={"n0": 1, "n1": 1, "n2": 1})
    near = [(10, term("web")), (-5, term("web", HOST))]
    job(builder, "new", app="x", constraints=prefers(near=near, label_set=SECOND))
    assert asked(builder) == [2, 2, 2 * (10 - 5) / (20 - 5), 0]


def test_pods_that_are_leaving_count_until_they_are_gone():
    builder = job(cluster("a", "b"), leaving={"n0": 1})
    job(builder, "new", app="x", constraints=prefers(near=[(-1, term("web"))], label_set=SECOND))
    assert asked(builder) == [0, 2]


def test_a_gang_that_prefers_to_be_apart_is_one_a_node():
    wish = prefers(near=[(-1, term("web", HOST))])
    builder = job(cluster("a", "a", "a"), "new", tasks=3, constraints=wish)
    assert nodes_of(builder.run("allocate")) == {"n0": 1, "n1": 1, "n2": 1}


def test_a_gang_that_prefers_to_be_together_is_in_one_zone():
    # By binpack the fuller n2 would come second.
    builder = job(cluster("a", "b", "b", gpu=4), app="x", tasks=3, running={"n0": 2, "n2": 1})
    wish = prefers(near=[(1, term("web"))], label_set=SECOND)
    ran = job(builder, "new", tasks=4, constraints=wish).run("allocate")
    assert nodes_of(ran) in ({"n0": 2, "n2": 2}, {"n2": 3, "n1": 1})


def test_the_terms_of_pods_that_run_count_for_the_pods_they_select():
    # One on n1 prefers web to be away, one on n2 prefers it near: -3, 0 and 4.
    builder = cluster("a", "b", "c")
    away, near = (
        prefers(near=[(weight, term("web"))], label_set=at) for at, weight in enumerate((-3, 4))
    )
    job(builder, "away", app="x", running={"n1": 1}, constraints=away)
    job(builder, "near", app="y", running={"n2": 1}, constraints=near)
    job(builder, "new")
    job(builder, "other", app="z", cpu=2)
    assert asked(builder) == [2 * 3 / 7, 0, 2]
    assert asked(builder, "other-0") is None
    assert asked(builder, ignorePreferredTermsOfExistingPods=True) is None


@pytest.mark.parametrize(("weight", "found"), [(1, [2, 0]), (3, [2, 0]), (0, None)])
def test_a_pod_that_requires_to_be_near_draws_others(weight, found):
    builder = cluster("a", "b")
    near = Constraints(pod_affinity=(term("web"),), label_set=FIRST)
    job(builder, "old", app="x", running={"n0": 1}, constraints=near)
    job(builder, "new")
    assert asked(builder, hardPodAffinityWeight=weight) == found


def test_preferred_and_hard_terms_are_added_up():
    # Each of two on a draws with 5; one on b with 7 and, by its required term, with 2.
    builder = cluster("a", "b", "c")
    soft = prefers(near=[(5, term("web"))], label_set=FIRST)
    both = prefers(near=[(7, term("web"))], pod_affinity=(term("web"),), label_set=SECOND)
    job(builder, "soft", app="x", tasks=2, running={"n0": 2}, constraints=soft)
    job(builder, "both", app="y", running={"n1": 1}, constraints=both)
    job(builder, "new")
    assert asked(builder, hardPodAffinityWeight=2) == [2, 2 * 9 / 10, 0]


def test_where_no_pod_has_a_node_nothing_is_preferred():
    builder = job(cluster("a", "b"), "new", constraints=prefers(near=[(5, term("web"))]))
    assert asked(builder) is None


# -- nodes -----------------------------------------------------------------------------------------


def test_preferred_node_affinity_adds_up_the_weights_of_what_holds():
    nodes = [(10, node_term(ZONE, "a", "b")), (30, node_term(HOST, "n1"))]
    builder = job(cluster("a", "b", "c"), "new", constraints=prefers(nodes=nodes, label_set=-1))
    assert asked(builder) == [2 * 10 / 40, 2, 0]
    assert nodes_of(builder.run("allocate")) == {"n1": 1}


def test_taints_to_be_avoided_count_unless_they_are_tolerated():
    avoid = [Taint(key, "", "PreferNoSchedule") for key in ("k", "l")]
    builder = cluster("a", "a", "a", taints={0: avoid, 1: avoid[:1]})
    job(builder, "new", tasks=9)
    tolerant = Constraints(tolerations=(Toleration("k", "Exists", "", "NoSchedule"),))
    job(builder, "not", constraints=tolerant)
    tolerant = Constraints(tolerations=(Toleration("l", "Exists", "", ""),))
    job(builder, "one", constraints=tolerant)
    assert asked(builder) == [0, 3 / 2, 3]
    assert asked(builder, "not-0") == [0, 3 / 2, 3]
    assert asked(builder, "one-0") == [0, 0, 3]
    assert nodes_of(builder.run("allocate")) == {"n2": 8, "n1": 1}


def test_a_pod_does_not_wait_for_what_it_prefers():
    # n1 is preferred, and will have room once a pod is gone; n0 has room now.
    builder = job(cluster("a", "b", gpu=1), app="x", leaving={"n1": 1})
    wish = prefers(nodes=[(100, node_term(HOST, "n1"))], label_set=-1)
    assert nodes_of(job(builder, "new", constraints=wish).run("allocate")) == {"n0": 1}


def test_the_preferences_are_added_up_by_the_weights_of_kube_scheduler():
    # Taints 3 for n1; nodes 2 for n0; spread 2 for n1.
    builder = cluster("a", "b", taints={0: [Taint("k", "", "PreferNoSchedule")]})
    job(builder, running={"n0": 1})
    wish = prefers(nodes=[(1, node_term(HOST, "n0"))], spread=[rule()])
    job(builder, "new", constraints=wish)
    assert asked(builder) == [2, 5]


# -- all of it -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "found"), [({}, {"n0": 1, "n1": 1}), ({"weight": 1}, {"n0": 2}), (None, {"n0": 2})]
)
def test_a_shard_may_weigh_it_less_or_leave_it_out(entry, found):
    entry = {"enabled": False} if entry is None else entry
    builder = job(cluster("a", "b"), "new", tasks=2, constraints=prefers(spread=[rule()]))
    assert nodes_of(builder.run("allocate", shard={"plugins": {"preferences": entry}})) == found


def test_the_plugin_keeps_its_promises():
    check_plugin(Plugin)
    check_plugin(Plugin, {"hardPodAffinityWeight": 0, "ignorePreferredTermsOfExistingPods": True})


def test_one_by_one_and_together_they_go_to_the_same_nodes():
    """A batch is placed as single pods are: each sees those before it."""
    chance = random.Random(38)
    for _ in range(40):
        zones = [chance.choice("abc-") for _ in range(5)]
        running = Counter(f"n{chance.randrange(5)}" for _ in range(chance.randrange(6)))
        wishes = {
            "near": [(chance.choice([-3, -1, 2]), term("web", chance.choice([HOST, ZONE])))],
            "spread": [rule(key=chance.choice([HOST, ZONE]), skew=chance.choice([1, 3]))],
        }
        for name in chance.sample(sorted(wishes), chance.randrange(2)):
            del wishes[name]
        found = []
        for together in (True, False):
            builder = job(cluster(*zones, gpu=4), tasks=running.total() or 1, running=running)
            for number in range(1 if together else 5):
                job(
                    builder,
                    f"new{number}",
                    tasks=5 if together else 1,
                    constraints=prefers(**wishes),
                )
            found.append(nodes_of(builder.run("allocate")))
        assert found[0] == found[1], (zones, running, wishes)


def domain(zones, node, key):
    return f"n{node}" if key == HOST else zones[node].replace("-", "")


def is_about(wanted, app):
    return wanted.selector[0].values == (app,)


def near_said_plainly(zones, pods, own, app):
    """Return what the terms on pods weigh at each node, from 0 to 2.

    ``zones`` of the nodes; ``pods`` as (node, app, what it prefers, whether it is leaving).
    """
    near = [0] * len(zones)
    for node in range(len(zones)):
        for at, other, theirs, _ in pods:
            terms = [it for it in own.pods if is_about(it[1], other)]
            terms += [it for it in theirs.pods if is_about(it[1], app)]
            for weight, wanted in terms:
                key = wanted.topology_key
                if "" != domain(zones, node, key) == domain(zones, at, key):
                    near[node] += weight
    low, high = min(near), max(near)
    return [2 * (it - low) / (high - low) if high > low else 0.0 for it in near]


def evenness_said_plainly(zones, pods, own):
    """Return how few pods are in the domains of each node, from 0 to 2."""
    keys = [one.pods.topology_key for one in own.spread]
    of = [it for it in range(len(zones)) if all(domain(zones, it, key) for key in keys)]
    counts = dict.fromkeys(of, 0)
    for node in of:
        for one, key in zip(own.spread, keys, strict=True):
            here = domain(zones, node, key)
            there = sum(
                is_about(one.pods, other) and domain(zones, at, key) == here
                for at, other, _, leaves in pods
                if at in of and not leaves
            )
            domains = {domain(zones, it, key) for it in of}
            counts[node] += there * log(len(domains) + 2) + one.max_skew - 1
    low, high = min(counts.values(), default=0), max(counts.values(), default=0)
    found = [0.0] * len(zones)
    for node in of if own.spread else ():
        found[node] = 2 * ((high + low - counts[node]) / high if high else 1)
    return found


def wishes(chance):
    near = {
        term(chance.choice("xyz"), chance.choice([HOST, ZONE])): chance.choice([-50, -3, 1, 7])
        for _ in range(chance.randint(0, 3))
    }
    even = {
        rule(chance.choice("xyz"), chance.choice([HOST, ZONE]), chance.choice([1, 4]))
        for _ in range(chance.randint(0, 2))
    }
    pods = tuple((weight, it) for it, weight in near.items())
    return Preferences(pods=pods, spread=tuple(sorted(even, key=repr)))


def test_scores_are_those_of_the_rule_said_plainly():
    chance = random.Random(39)
    for _ in range(60):
        zones = [chance.choice("aabc-") for _ in range(chance.randint(2, 6))]
        pods = [
            (
                chance.randrange(len(zones)),
                chance.choice("xyz"),
                wishes(chance) if chance.random() < 0.4 else Preferences(),
                chance.random() < 0.2,
            )
            for _ in range(chance.randint(1, 9))
        ]
        mine, own, builder = chance.choice("xyz"), wishes(chance), cluster(*zones)
        # Numbers of label sets are given in the order of the jobs.
        numbers = list(dict.fromkeys([*(app for _, app, _, _ in pods), mine]))
        for number, (node, app, theirs, leaves) in enumerate(pods):
            places = {"leaving" if leaves else "running": {f"n{node}": 1}}
            asks = Constraints(preferences=theirs, label_set=numbers.index(app))
            job(builder, f"old{number}", app, constraints=asks, **places)
        asks = Constraints(preferences=own, label_set=numbers.index(mine))
        job(builder, "new", mine, constraints=asks)
        parts = near_said_plainly(zones, pods, own, mine), evenness_said_plainly(zones, pods, own)
        found, expected = asked(builder), [sum(each) for each in zip(*parts, strict=True)]
        if found is None:
            assert len(set(expected)) == 1
        else:
            assert found == expected, (zones, pods, own)
