"""Predicates: pod affinity, anti-affinity and host ports, through the cycle."""

import pytest

from kaisched import Constraints, PodTerm, Requirement, TaskState
from kaisched.cluster.nodes import NodeRow
from kaisched.core.devices import DeviceDemand
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.session.session import Session
from kaisched.testing import ClusterBuilder, check_plugin
from kaisched.testing.builder import NOW_S, Job, Task, add_job, policy_of
from kaisched_plugins.predicates import Predicates
from kaisched_plugins.predicates.neighbours import are_in_conflict

MIG = "nvidia.com/mig-1g.10gb"
HOST, ZONE = "kubernetes.io/hostname", "zone"
WEB, OTHER = 0, 1
"""Numbers of label sets: those of the first and of the second job of each test."""


def term(app="web", key=HOST, namespaces=("default",), *, all_namespaces=False, match_none=False):
    selector = (Requirement("app", "In", (app,)),)
    return PodTerm(key, namespaces, all_namespaces, selector, match_none)


def near(label_set, *terms):
    return Constraints(pod_affinity=terms, label_set=label_set)


def apart(label_set, *terms):
    return Constraints(pod_anti_affinity=terms, label_set=label_set)


def cluster(*zones, gpu=8):
    """Return a builder with one node a letter, in the zone of that letter."""
    builder = ClusterBuilder().queue("q")
    for number, zone in enumerate(zones):
        labels = {} if zone == "-" else {ZONE: zone}
        builder.node(f"n{number}", gpu=gpu, labels=labels)
    return builder


def web(builder, tasks=1, name="web", **job):
    return builder.job(name, queue="q", tasks=tasks, labels={"app": "web"}, **job)


def other(builder, tasks=1, name="other", **job):
    return builder.job(name, queue="q", tasks=tasks, labels={"app": "other"}, **job)


def nodes_of(ran, job):
    return sorted(node for pod, node in ran.placed.items() if pod.startswith(f"{job}-"))


# -- anti-affinity -------------------------------------------------------------------------------


def test_a_pod_keeps_away_from_the_nodes_of_those_it_dislikes():
    builder = web(cluster("a", "a"), running={"n0": 1})
    ran = other(builder, constraints=apart(OTHER, term())).run("allocate")
    assert nodes_of(ran, "other") == ["n1"]


def test_a_pod_that_is_disliked_keeps_away_too():
    builder = web(cluster("a", "a"), running={"n0": 1}, constraints=apart(WEB, term("other")))
    assert nodes_of(other(builder).run("allocate"), "other") == ["n1"]


def test_dislike_spans_the_domain_that_the_term_names():
    builder = web(cluster("a", "a", "b"), running={"n0": 1})
    ran = other(builder, constraints=apart(OTHER, term(key=ZONE))).run("allocate")
    assert nodes_of(ran, "other") == ["n2"]


def test_a_node_outside_every_domain_is_no_neighbour():
    builder = web(cluster("a", "-"), running={"n0": 1})
    ran = other(builder, constraints=apart(OTHER, term(key=ZONE))).run("allocate")
    assert nodes_of(ran, "other") == ["n1"]


@pytest.mark.parametrize(
    ("disliked", "nodes"),
    [
        pytest.param(term(namespaces=("elsewhere",)), ["n0"], id="of another namespace"),
        pytest.param(term(namespaces=(), all_namespaces=True), ["n1"], id="of any namespace"),
        pytest.param(term(match_none=True), ["n0"], id="of no selector"),
    ],
)
def test_whom_a_term_speaks_of(disliked, nodes):
    builder = web(cluster("a", "a"), running={"n0": 1})
    assert (
        nodes_of(other(builder, constraints=apart(OTHER, disliked)).run("allocate"), "other")
        == nodes
    )


def test_pods_that_dislike_each_other_get_a_node_each_in_one_batch():
    ran = web(cluster("a", "a", "b"), tasks=3, constraints=apart(WEB, term())).run("allocate")
    assert nodes_of(ran, "web") == ["n0", "n1", "n2"]


def test_or_a_zone_each():
    builder = cluster("a", "a", "b", "c")
    ran = web(builder, tasks=3, constraints=apart(WEB, term(key=ZONE))).run("allocate")
    assert nodes_of(ran, "web") == ["n0", "n2", "n3"]


def test_the_node_chosen_in_a_zone_has_room():
    builder = other(cluster("b", "a", "a", gpu=2), tasks=2, name="filler", running={"n1": 2})
    ran = web(builder, tasks=2, constraints=apart(1, term(key=ZONE))).run("allocate")
    assert nodes_of(ran, "web") == ["n0", "n2"]


def test_a_gang_that_would_need_more_zones_than_there_are_waits():
    builder = cluster("a", "a", "b")
    ran = web(builder, tasks=3, constraints=apart(WEB, term(key=ZONE))).run("allocate")
    assert ran.placed == {}


def test_what_was_placed_in_this_cycle_counts():
    builder = web(cluster("a", "a"))
    ran = other(builder, constraints=apart(OTHER, term(key=ZONE))).run("allocate")
    assert nodes_of(ran, "web") == ["n0"]
    assert nodes_of(ran, "other") == []


@pytest.mark.parametrize("key", [HOST, ZONE])
def test_a_pod_keeps_away_from_one_that_is_leaving_until_it_is_gone(key):
    asks = apart(OTHER, term(key=key))
    builder = web(cluster("a", "b"), leaving={"n0": 1})
    assert nodes_of(other(builder, constraints=asks).run("allocate"), "other") == ["n1"]
    builder = web(cluster("a", "a"), leaving={"n0": 1}, constraints=apart(WEB, term("other", key)))
    on = ["n1"] if key == HOST else []
    assert nodes_of(other(builder).run("allocate"), "other") == on


def test_room_beside_one_that_is_leaving_is_promised():
    builder = web(cluster("a"), leaving={"n0": 1})
    ran = other(builder, constraints=apart(OTHER, term())).run("allocate")
    assert (nodes_of(ran, "other"), [it.node for it in ran.result.nominations]) == ([], ["n0"])


def test_a_pod_in_the_way_of_anti_affinity_is_waited_for_even_if_the_room_is_free():
    builder = ClusterBuilder().queue("q").node("n0", gpu=8, labels={HOST: "n0"})
    web(builder, running={"n0": 1}, priority=10)
    ran = other(builder, constraints=apart(OTHER, term()), priority=60).run("preempt")
    assert (nodes_of(ran, "other"), [it.node for it in ran.result.nominations]) == ([], ["n0"])
    assert len(ran.result.evictions) == 1


# -- affinity --------------------------------------------------------------------------------------


def test_a_pod_goes_where_those_it_seeks_are():
    builder = web(cluster("a", "b", "b"), running={"n1": 1})
    ran = other(builder, constraints=near(OTHER, term(key=ZONE)), on=()).run("allocate")
    assert set(nodes_of(ran, "other")) <= {"n1", "n2"}
    assert ran.placed


def test_nobody_there_to_be_near_to():
    builder = web(cluster("a"), name="unrelated")
    ran = other(builder, constraints=near(OTHER, term("nobody"))).run("allocate")
    assert nodes_of(ran, "other") == []


def test_a_node_outside_every_domain_is_near_to_nobody():
    builder = web(cluster("-", "a"), running={"n0": 1})
    ran = other(builder, constraints=near(OTHER, term(key=ZONE))).run("allocate")
    assert nodes_of(ran, "other") == []


def test_all_terms_must_hold():
    builder = web(cluster("a", "a", "b"), running={"n0": 1})
    terms = (term(key=ZONE), term(key=HOST))
    ran = other(builder, constraints=near(OTHER, *terms)).run("allocate")
    assert nodes_of(ran, "other") == ["n0"]


def test_the_first_of_a_group_that_seeks_itself_may_start():
    ran = web(cluster("a"), constraints=near(WEB, term(key=ZONE))).run("allocate")
    assert nodes_of(ran, "web") == ["n0"]


def test_and_the_whole_gang_starts_in_the_one_zone_that_holds_it():
    builder = cluster("a", "b", "b", gpu=2)
    ran = web(builder, tasks=4, constraints=near(WEB, term(key=ZONE))).run("allocate")
    assert nodes_of(ran, "web") == ["n1", "n1", "n2", "n2"]


def test_a_gang_that_no_zone_can_hold_waits():
    builder = cluster("a", "b", gpu=2)
    ran = web(builder, tasks=3, constraints=near(WEB, term(key=ZONE))).run("allocate")
    assert ran.placed == {}


def test_who_comes_later_joins_the_group():
    builder = web(cluster("b", "a", "a"), running={"n2": 1}, constraints=near(WEB, term(key=ZONE)))
    ran = web(builder, name="more", tasks=2, constraints=near(WEB, term(key=ZONE))).run("allocate")
    assert set(nodes_of(ran, "more")) <= {"n1", "n2"}
    assert len(ran.placed) == 2


def test_the_second_job_of_the_cycle_follows_the_first():
    builder = web(cluster("a", "b", gpu=2), tasks=2, on=("n1",))
    ran = other(builder, constraints=near(OTHER, term(key=ZONE))).run("allocate")
    assert nodes_of(ran, "web") == ["n1", "n1"]
    assert nodes_of(ran, "other") == []  # its zone is full
    builder = web(cluster("a", "b", gpu=3), tasks=2, on=("n1",))
    ran = other(builder, constraints=near(OTHER, term(key=ZONE))).run("allocate")
    assert nodes_of(ran, "other") == ["n1"]


# -- host ports ------------------------------------------------------------------------------------


def port(number=80, protocol="TCP", address=""):
    return Constraints(host_ports=((protocol, address, number),))


def test_pods_of_one_port_get_a_node_each():
    ran = web(cluster("a", "a"), tasks=2, constraints=port()).run("allocate")
    assert nodes_of(ran, "web") == ["n0", "n1"]


def test_there_are_no_more_of_them_than_nodes():
    ran = web(cluster("a"), tasks=2, min_tasks=1, constraints=port()).run("allocate")
    assert nodes_of(ran, "web") == ["n0"]


@pytest.mark.parametrize("state", ["running", "binding", "leaving"])
def test_a_port_is_taken_until_its_pod_is_gone(state):
    builder = web(cluster("a", "a"), constraints=port(), **{state: {"n0": 1}})
    assert nodes_of(other(builder, constraints=port()).run("allocate"), "other") == ["n1"]


def test_a_taken_port_is_named_as_the_reason():
    builder = web(cluster("a"), constraints=port(), running={"n0": 1})
    ran = other(builder, constraints=port()).run("allocate")
    (record,) = ran.result.records
    assert "HostPort" in {miss.reason for miss in record.node_misses}


@pytest.mark.parametrize(
    ("one", "another", "conflict"),
    [
        (("TCP", "", 80), ("TCP", "", 80), True),
        (("TCP", "", 80), ("TCP", "10.0.0.1", 80), True),
        (("TCP", "0.0.0.0", 80), ("TCP", "10.0.0.1", 80), True),
        (("", "", 80), ("TCP", "", 80), True),
        (("TCP", "10.0.0.2", 80), ("TCP", "10.0.0.1", 80), False),
        (("UDP", "", 80), ("TCP", "", 80), False),
        (("TCP", "", 81), ("TCP", "", 80), False),
    ],
)
def test_which_ports_are_in_conflict(one, another, conflict):
    assert are_in_conflict([one], [another]) is conflict
    assert are_in_conflict([another], [one]) is conflict


def test_without_pod_terms_and_ports_moves_and_room_say_nothing():
    ran = web(cluster("a"), tasks=2).run("allocate")
    assert nodes_of(ran, "web") == ["n0", "n0"]


def test_it_keeps_the_contract_of_plugins():
    check_plugin(Predicates)


# -- records are worked out late -----------------------------------------------------------------


def hopeless():
    """Gangs larger than the cluster: nothing is asked about them until their records are read."""
    builder = web(cluster("a", "a"), running={"n0": 1}, constraints=port())
    other(builder, tasks=99, constraints=apart(OTHER, term(key=ZONE)))
    other(builder, 99, "caller", constraints=near(OTHER, term("nobody")))
    return web(builder, 99, "server", constraints=port())


def newcomer(number):
    """A job with labels, terms and ports that nobody had before."""
    asked = Constraints(
        pod_anti_affinity=(term("web", key=ZONE),),
        host_ports=(("TCP", "", 80 + number),),
        label_set=2 + number,
    )
    pod = Task(f"new-{number}-0", {"gpu": 1000}, asked, labels={"app": f"new-{number}"})
    return Job(f"new-{number}", "q", [pod])


def test_records_of_an_older_cycle_may_be_read_after_new_pods_came():
    expected = list(hopeless().run("allocate").result.records)
    store = hopeless().store()
    policy = policy_of(actions=["allocate"])
    result, memory = run_cycle(store.snapshot(), None, policy, NOW_S, Memory())
    for number in range(3):
        add_job(store, newcomer(number))
    later, _ = run_cycle(store.snapshot(), None, policy, NOW_S, memory)
    assert list(later.records)
    assert list(result.records) == expected


# -- MIG instances taken by annotation -------------------------------------------------------------


@pytest.mark.parametrize(("state", "takes"), [(TaskState.RUNNING, []), (TaskState.GONE, ["n0"])])
def test_no_mig_instance_is_given_where_a_pod_took_some_by_annotation(state, takes):
    store = cluster("a").store()
    store.put_node(NodeRow("n0", {"cpu": 64_000, "pods": 110, MIG: 2}))
    taken = Constraints(devices=DeviceDemand(legacy_slices=1))
    add_job(store, Job("old", "q", [Task("old", {"cpu": 1}, taken, state=state, node="n0")]))
    add_job(store, Job("new", "q", [Task("new", {MIG: 1})]))
    add_job(store, Job("plain", "q", [Task("plain", {"cpu": 1})]))
    snapshot = store.snapshot()
    result, _ = run_cycle(snapshot, None, policy_of(), NOW_S, Memory())
    assert [bind.node for bind in result.binds if bind.pod == "default/new"] == takes
    assert "default/plain" in {bind.pod for bind in result.binds}
    refused = {record.pod_group: record.node_misses for record in result.records}
    said = [each.reason for each in refused.get("default/new", ())]
    assert said == ([] if takes else ["MigByAnnotation"])


# -- silence -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("constraints", "is_silent"),
    [
        (Constraints(), True),
        (Constraints(node_selector=(("zone", "a"),)), True),
        (Constraints(host_ports=(("TCP", "", 80),)), False),
        (near(WEB, term()), False),
        (apart(WEB, term("other")), False),
        (Constraints(pod_affinity=(term(match_none=True),)), False),
    ],
)
def test_it_hears_of_moves_only_if_pods_may_mind_each_other(constraints, is_silent):
    builder = web(cluster("a", "a"))
    store = builder.store()
    add_job(store, Job("other", "q", (Task("other-0", {"gpu": 1000}, constraints),)))
    policy = policy_of()
    snapshot = store.snapshot()
    session = Session(snapshot, None, policy, NOW_S, Memory(), policy.questions)
    session.ask.open(session)
    assert session.placement.listens is not is_silent
