"""The live view of a cycle: what is taken, what is told from it, and who sees it."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from kaisched.core.constraints import Constraints
from kaisched.core.devices import DeviceDemand
from kaisched.errors import ConfigError
from kaisched.framework.advice.standing import StandingAdvice
from kaisched.framework.report.turns import Turns
from kaisched.testing.builder import HOSTNAME, ClusterBuilder
from kaisched.view import api, history, jobs, nodes, queues
from kaisched.view.paths import Part
from kaisched.view.publisher import MOST_WAITING, Inquiries, Publisher
from kaisched.view.reading import ALL, Reading, Sight
from tests.unit.cluster.claims.worlds import World

ONLY_A = Sight(sees_all=False, of_queue=lambda name: name == "a")
ONLY_B = Sight(sees_all=False, of_queue=lambda name: name == "b")


def cluster():
    """Two queues: `b` takes back what `a` holds beyond its quota, and both have jobs waiting."""
    return (
        ClusterBuilder()
        .node("n0", gpu=4)
        .node("n1", gpu=4)
        .queue("root")
        .queue("a", parent="root", deserved=4)
        .queue("b", parent="root", deserved=4)
        .job("old", queue="a", tasks=1, gpu=1, running={"n0": 1})
        .job("wide", queue="b", tasks=8, gpu=1)
        .job("late", queue="a", tasks=1, gpu=8)
        .job("none", queue="nowhere", tasks=1, gpu=1)
    )


@pytest.fixture(scope="module")
def ran():
    return cluster().run()


def published(ran, publisher=None, cycle=1):
    publisher = publisher or Publisher("default")
    publisher.take(ran.result, cycle=cycle, time_s=1e9 + cycle, duration_s=0.1)
    return publisher


@pytest.fixture
def reading(ran):
    return Reading(published(ran).view)


def told(ran, names):
    """What the loop would tell."""
    inquiries = Inquiries(StandingAdvice())
    inquiries.ring = lambda: inquiries.answer(ran.result)
    return inquiries.ask(names, 1.0, with_turn=True)


def test_every_document_has_the_fields_that_are_described(ran, reading):
    names = jobs.waiting_names(reading, jobs.Wanted(), ALL)
    rows = reading.row_of_job.values()
    for kind, document in (
        (api.Overview, queues.overview_document(reading)),
        (api.Queues, queues.queues_document(reading)),
        (api.Jobs, jobs.jobs_document(reading, jobs.Wanted(), ALL, told(ran, names))),
        (api.Jobs, jobs.jobs_document(reading, jobs.Wanted(), ONLY_A, {})),
        (api.Nodes, nodes.nodes_document(reading, nodes.Wanted(), ONLY_A)),
        (api.Evictions, jobs.evictions_document(reading, "", Part(), ALL)),
        (api.Capacity, nodes.capacity_document(reading, "")),
        (api.EvictionDecisions, jobs.decisions_document(reading, "", Part(), ALL)),
        (api.Cycles, queues.cycles_document(reading)),
        (api.Fairness, queues.fairness_document(reading, "", Part())),
        (api.Frames, queues.frames_document(reading, [reading.view])),
        *((api.Why, jobs.job_document(reading, row, ALL, told(ran, names))) for row in rows),
    ):
        msgspec.convert(msgspec.json.decode(msgspec.json.encode(document)), kind)


def test_a_job_waits_for_what_the_result_says(ran, reading):
    records = {record.pod_group: record for record in ran.result.records}
    document = jobs.jobs_document(reading, jobs.Wanted(), ALL, told(ran, records))
    waits = {job["podGroup"]: job for job in document["jobs"] if job["reason"]}
    assert waits.keys() == records.keys()
    for name, record in records.items():
        assert waits[name]["reason"] == record.reason
        assert waits[name]["queue"] == record.queue
        assert waits[name]["message"].startswith(record.message)


def test_places_are_those_of_the_order_of_allocate(ran, reading):
    turns = Turns(ran.result)
    for row in ran.result.records.rows.tolist():
        turn = turns.turn(row)
        assert reading.place(row) == (None if turn is None else (turn.position, turn.of))


def test_queues_are_those_of_the_result_with_their_waiting_jobs(ran, reading):
    found = {it["name"]: it for it in queues.queues_document(reading)["queues"]}
    assert list(found) == [share.name for share in ran.result.shares]
    assert sum(found["root"]["pending"].values()) == 2
    assert found["a"]["pending"] == {"ExceedsAnyNode": 1}
    assert found["a"]["limit"]["gpu"] is None
    assert (found["a"]["allocated"]["gpu"], found["a"]["running"]) == (1, 1)


def test_one_queue_comes_with_those_above_and_below_it(reading):
    def names(of):
        return [it["name"] for it in queues.queues_document(reading, of)["queues"]]

    assert names("b") == ["root", "b"]
    assert names("root") == ["root", "a", "b"]
    with pytest.raises(ConfigError, match="there is no queue c"):
        names("c")


def test_nodes_say_who_holds_their_gpus(reading):
    found = {it["name"]: it for it in nodes.nodes_document(reading, nodes.Wanted(), ALL)["nodes"]}
    assert found["n0"]["holders"] == [
        {
            "podGroup": "default/old",
            "workload": None,
            "queue": "a",
            "pods": 1,
            "gpus": 1,
            "devices": [],
            "ending": False,
        }
    ]
    assert (found["n0"]["gpus"], found["n1"]["holders"]) == ({"total": 4, "free": 3}, [])
    only = nodes.Wanted(queue=queues.row_of_queue(reading, "a"))
    assert [it["name"] for it in nodes.nodes_document(reading, only, ALL)["nodes"]] == ["n0"]


def test_nodes_say_who_shares_a_gpu():
    half = Constraints(devices=DeviceDemand(500_000))
    third = Constraints(devices=DeviceDemand(300_000))
    holds = Constraints(devices=DeviceDemand(is_reservation=True))
    ran = (
        ClusterBuilder()
        .node("n0", gpu=2)
        .queue("a", deserved=2)
        .job("old", queue="a", tasks=1, gpu=0, constraints=half, running={"n0": 1})
        .job("reservation", queue="a", gpu=0, constraints=holds, running={"n0": 1})
        .job("new", queue="a", tasks=1, gpu=0, constraints=third)
        .run()
    )
    (node,) = nodes.nodes_document(Reading(published(ran).view), nodes.Wanted(), ALL)["nodes"]
    msgspec.convert(node, api.Node)
    assert {it["podGroup"] for it in node["holders"]} == {"default/old", "default/new"}
    card = next(it for it in node["cards"] if it["holders"])
    assert (card["slot"], card["free"]) == (0, 0.2)
    assert [(it["podGroup"], it["part"]) for it in card["holders"]] == [
        ("default/old", 0.5),
        ("default/new", 0.3),
    ]


def test_who_may_get_one_queue_sees_its_jobs_and_the_totals_of_others(reading):
    document = jobs.jobs_document(reading, jobs.Wanted(), ONLY_A, {})
    assert {job["queue"] for job in document["jobs"]} == {"a"}
    assert (document["total"], document["hidden"]) == (2, 2)
    assert sum(document["reasons"].values()) == 3
    nobody = Sight(sees_all=False)
    holder = nodes.nodes_document(reading, nodes.Wanted(), nobody)["nodes"][0]["holders"][0]
    assert (holder["podGroup"], holder["queue"], holder["gpus"]) == (None, "a", 1)


def test_jobs_that_the_reader_may_not_see_are_one_holder_of_their_queue():
    ran = (
        ClusterBuilder()
        .node("n0", gpu=8)
        .queue("a")
        .queue("b")
        .job("one", queue="a", tasks=1, gpu=1)
        .job("two", queue="a", tasks=2, gpu=1)
        .job("three", queue="b", tasks=1, gpu=2)
        .job("four", queue="b", tasks=1, gpu=1)
        .run()
    )
    reading = Reading(published(ran).view)
    (node,) = nodes.nodes_document(reading, nodes.Wanted(), ONLY_A)["nodes"]
    found = [(it["podGroup"], it["queue"], it["pods"], it["gpus"]) for it in node["holders"]]
    assert sorted(found, key=str) == [
        ("default/one", "a", 1, 1),
        ("default/two", "a", 2, 2),
        (None, "b", 2, 3),
    ]


def test_a_place_in_the_order_names_no_job_that_the_reader_does_not_see(ran):
    ran = (
        ClusterBuilder()
        .node("n0", gpu=1)
        .queue("a")
        .queue("b")
        .job("first", queue="a", tasks=1, gpu=2)
        .job("second", queue="b", tasks=1, gpu=2)
        .run()
    )
    reading = Reading(published(ran).view)
    row = jobs.row_of_job(reading, "default/second")
    sight = Sight(sees_all=False, of_queue=lambda name: name == "b")
    for seen, name in ((ALL, "default/first"), (sight, None)):
        document = jobs.job_document(reading, row, seen, told(ran, ["default/second"]))
        assert document["pending"]["turn"]["ahead"]["podGroup"] == name
        assert ("default/first" in str(document)) == (name is not None)


@pytest.mark.parametrize("wanted", [jobs.Wanted(name="wide"), jobs.Wanted(namespace="default")])
def test_no_number_tells_whether_a_job_has_a_name_that_the_reader_does_not_see(reading, wanted):
    nobody = Sight(sees_all=False)
    document = jobs.jobs_document(reading, wanted, nobody, {})
    assert (document["total"], document["hidden"], document["reasons"]) == (0, 0, {})
    own = jobs.jobs_document(reading, wanted._replace(name="l"), ONLY_A, {})
    assert [(it["podGroup"], own["hidden"]) for it in own["jobs"]] == [
        ("default/late", 0),
        ("default/old", 0),
    ]


def test_no_sentence_of_an_eviction_names_a_job_that_the_reader_does_not_see():
    made = ClusterBuilder().node("n0", gpu=2).queue("a", deserved=0).queue("b", deserved=2)
    made.job("old", queue="a", tasks=2, gpu=1, running={"n0": 2})
    reading = Reading(published(made.job("secret", queue="b", tasks=2, gpu=1).run()).view)
    row = jobs.row_of_job(reading, "default/old")
    for seen, is_named in ((ALL, True), (ONLY_A, False)):
        for document in (
            jobs.evictions_document(reading, "", Part(), seen),
            jobs.decisions_document(reading, "", Part(), seen),
            jobs.job_document(reading, row, seen, {}),
        ):
            assert (document.get("evictions") or document["decisions"])[0]["reason"]
            assert ("secret" in str(document)) == is_named


def test_a_job_hears_who_is_ahead_in_its_queue_and_why():
    """`high` by its priority; `low` was there before `later`, which asks for two GPUs."""
    made = ClusterBuilder().node("n0", gpu=2).queue("a", deserved=2)
    made.job("old", queue="a", tasks=2, gpu=1, priority=90, running={"n0": 2})
    for name, priority, gpu in (("low", 10, 1), ("later", 10, 2), ("high", 90, 1)):
        made.job(name, queue="a", tasks=1, gpu=gpu, priority=priority)
    reading = Reading(published(made.run()).view)
    document = jobs.job_document(reading, jobs.row_of_job(reading, "later"), ALL, {})
    assert [
        (it["position"], it["podGroup"], it["gpus"], it["because"]) for it in document["ahead"]
    ] == [
        (1, "default/high", 1, "default/later has the lower priority, 10 against 90"),
        (2, "default/low", 1, "default/later was created later"),
    ]
    first = jobs.job_document(reading, jobs.row_of_job(reading, "high"), ALL, {})
    assert first["ahead"] == []


def racks():
    """Rack r1 has a whole free node and one with a pod; in r2, two GPUs are free without CPUs."""
    made = ClusterBuilder().topology("t", rack="rack", host=HOSTNAME).queue("a", deserved=20)
    for name, rack, more in (
        ("n0", "r1", {}),
        ("n1", "r1", {}),
        ("n2", "r2", {"cpu": 3}),
        ("n3", "r2", {"is_unschedulable": True}),
    ):
        made.node(name, **{"gpu": 4, "cpu": 64, "labels": {"rack": rack}, **more})
    made.job("one", queue="a", tasks=1, gpu=1, cpu=2, running={"n1": 1})
    made.job("two", queue="a", tasks=2, gpu=1, cpu=1, running={"n2": 2})
    return Reading(published(made.run()).view)


def test_the_room_of_many_nodes_is_told_in_totals():
    """n2 has 2 of 4 GPUs and 1 of 3 CPUs left, and no pod asks for less than 1 CPU a GPU."""
    document = nodes.capacity_document(racks(), "")
    assert document["all"] == {
        "name": "all",
        "nodes": 4,
        "total": 16,
        "free": 9,
        "wholeFree": 1,
        "stranded": 1,
    }
    assert {it["name"]: it["nodes"] for it in document["states"]} == {
        "free": 1,
        "partly": 2,
        "unschedulable": 1,
    }
    assert document["level"] == "rack", "hosts are a level too, but of one node each"
    assert {it["name"]: it["free"] for it in document["domains"]} == {"r1": 7, "r2": 2}
    assert document["largestGang"] == 7
    assert document["departments"] == {"a": 3}
    with pytest.raises(ConfigError, match="no such level"):
        nodes.capacity_document(racks(), "hall")


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (nodes.Wanted(state="free"), ["n0"]),
        (nodes.Wanted(state="partly"), ["n1", "n2"]),
        (nodes.Wanted(domain="r2"), ["n2", "n3"]),
        (nodes.Wanted(state="unschedulable", domain="r1"), []),
    ],
)
def test_totals_lead_to_the_names_of_nodes(wanted, names):
    document = nodes.nodes_document(racks(), wanted, ALL)
    assert [it["name"] for it in document["nodes"]] == names


def test_the_overview_has_the_queues_furthest_from_their_shares(reading):
    found = queues.overview_document(reading)["furthest"]
    every = queues.queues_document(reading)["queues"]
    gaps = [abs(it["allocated"]["gpu"] - it["fairShare"]["gpu"]) for it in found]
    assert gaps == sorted(gaps, reverse=True)
    assert all(it in [{**of, "project": it["project"]} for of in every] for it in found)
    assert {it["name"] for it in found} == {"a", "b"}


def test_what_is_evicted_for_one_job_is_one_decision_with_the_work_that_is_lost():
    """Two pods of one GPU each, of a job that has run for half an hour: one GPU-hour."""
    made = ClusterBuilder().node("n0", gpu=2).queue("a", deserved=0).queue("b", deserved=2)
    made.job("old", queue="a", tasks=2, gpu=1, running={"n0": 2})
    made._jobs = [replace(it, started_s=1e9 + 1 - 1800) for it in made._jobs]
    reading = Reading(published(made.job("new", queue="b", tasks=2, gpu=1).run()).view)
    (found,) = jobs.decisions_document(reading, "", Part(), ALL)["decisions"]
    assert (found["pods"], found["jobs"], found["queues"]) == (2, 1, ["a"])
    assert (found["beneficiary"], found["lostGpuHours"]) == ("default/new", 1.0)
    assert [it["pod"] for it in found["victims"]] == ["default/old-0", "default/old-1"]
    of_others = jobs.decisions_document(reading, "b", Part(), ONLY_B)
    assert (of_others["decisions"], of_others["hidden"]) == ([], 2)


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (jobs.Wanted(reason="ExceedsAnyNode"), ["late"]),
        (jobs.Wanted(state="running"), ["old"]),
        (jobs.Wanted(state="pending", sort="-name"), ["wide", "none", "late"]),
        (jobs.Wanted(name="l", sort="name"), ["late", "old"]),
        (jobs.Wanted(namespace="other"), []),
        (jobs.Wanted(sort="-gpus", part=Part(1, 2)), ["late", "old"]),
    ],
)
def test_jobs_are_filtered_sorted_and_given_in_parts(reading, wanted, names):
    document = jobs.jobs_document(reading, wanted, ALL, {})
    assert [job["podGroup"].partition("/")[2] for job in document["jobs"]] == names


def test_a_part_says_where_the_next_one_begins(reading):
    first = jobs.jobs_document(reading, jobs.Wanted(part=Part(0, 3)), ALL, {})
    assert (first["total"], first["next"], len(first["jobs"])) == (4, 3, 3)
    last = jobs.jobs_document(reading, jobs.Wanted(part=Part(3, 3)), ALL, {})
    assert (last["next"], len(last["jobs"])) == (None, 1)


def test_a_job_is_found_by_the_name_of_its_pod(reading):
    name = reading.snapshot.tasks.name[int(reading.tasks_of(reading.row_of_job["default/late"])[0])]
    assert jobs.row_of_job(reading, name) == reading.row_of_job["default/late"]
    with pytest.raises(ConfigError, match="there is no job or pod x/y"):
        jobs.row_of_job(reading, "x/y")


def test_a_view_does_not_change_with_what_comes_after_it(ran):
    publisher = published(ran)
    view = publisher.view
    before = (
        queues.queues_document(Reading(view)),
        jobs.jobs_document(Reading(view), jobs.Wanted(), ALL, {}),
    )
    for array in (*view.moves[:-2], view.waiting.rows, view.waiting.codes):
        assert isinstance(array, np.ndarray)
    published(cluster().node("n9", gpu=8).run(), publisher, 2)
    assert publisher.view is not view
    assert before == (
        queues.queues_document(Reading(view)),
        jobs.jobs_document(Reading(view), jobs.Wanted(), ALL, {}),
    )


def test_a_view_keeps_no_session_alive(ran):
    """Its readers could otherwise come upon what only the loop may touch."""
    view = published(ran).view
    session = ran.result.records.session
    held = [view, view.shares, view.waiting, view.moves, view.history]
    assert not [it for it in held if any(value is session for value in _parts(it))]


def _parts(of):
    names = getattr(type(of), "__slots__", ()) or getattr(of, "_fields", ())
    return [getattr(of, name) for name in names]


def test_the_revision_grows_only_when_something_else_was_found(ran):
    publisher = published(ran)
    first = publisher.view
    published(ran, publisher, 2)
    assert (publisher.view.revision, publisher.view.cycle) == (first.revision, 2)
    assert publisher.view.since_s == first.since_s
    published(cluster().run(), publisher, 3)
    assert publisher.view.revision == first.revision + 1


def test_the_history_has_binds_and_each_new_reason_once(ran):
    publisher = published(ran)
    published(ran, publisher, 2)
    entries = jobs.timeline(publisher.view, "default/late", ALL)
    assert [(it["cycle"], it["what"], it["reason"]) for it in entries] == [
        (1, "waits", "ExceedsAnyNode")
    ]
    assert [it.cycle for it in publisher.view.history.cycles] == [1, 2]


def test_the_history_is_bounded(ran):
    log = history.DecisionLog(most=2)
    waiting = published(ran).view.waiting
    for cycle in range(5):
        times = history.CycleTimes(cycle, float(cycle), 0.1, {}, {}, 0, 0, 0, 0)
        kept = log.add(
            ran.snapshot, waiting._replace(codes=waiting.codes + cycle), ran.result, times
        )
    assert sum(it.number for it in kept.decisions) <= 2 + 2
    assert kept.decisions[-1].cycle == 4


def test_readers_take_a_twentieth_of_the_loops_time(ran):
    now_s = [0.0]

    def clock():
        now_s[0] += 1.0  # each look at the clock: an answer takes a second
        return now_s[0]

    inquiries = Inquiries(now_s=clock)
    inquiries.ring = lambda: inquiries.answer(ran.result)
    assert inquiries.ask(["default/late"], 0.01)
    assert inquiries.ask(["default/late"], 0.01) == {}
    now_s[0] += 19.0
    assert inquiries.ask(["default/late"], 0.01)


def test_who_asks_a_few_times_is_answered_at_once(ran):
    now_s = [0.0]

    def clock():
        now_s[0] += 0.01
        return now_s[0]

    inquiries = Inquiries(now_s=clock)
    inquiries.ring = lambda: inquiries.answer(ran.result)
    assert all(inquiries.ask(["default/late"], 0.01) for _ in range(5))
    answered = sum(bool(inquiries.ask(["default/late"], 0.0)) for _ in range(500))
    assert answered < 200  # and who goes on asking is not


def test_too_many_inquiries_are_answered_with_nothing_at_once(ran):
    inquiries = Inquiries()
    inquiries._waiting.extend([None] * MOST_WAITING)
    assert inquiries.ask(["default/late"], 1e9) == {}


def test_a_job_that_waits_on_is_no_news_when_rows_have_moved(ran):
    """A node that comes or goes, or a compaction, starts a generation with other rows."""
    log, waiting = history.DecisionLog(), published(ran).view.waiting
    times = history.CycleTimes(1, 1.0, 0.1, {}, {}, 0, 0, 0, 0)
    log.add(ran.snapshot, waiting, ran.result, times)
    log._generation -= 1
    kept = log.add(ran.snapshot, waiting, ran.result, times)
    assert [dict(it.waits) for it in kept.decisions[1:]] == [{} for _ in kept.decisions[1:]]
    log._generation -= 1
    other = waiting._replace(codes=waiting.codes + 1)
    kept = log.add(ran.snapshot, other, ran.result, times)
    assert len(kept.decisions[-1].waits) == len(waiting.rows)


def test_gpus_by_claim_are_gpus_of_their_node_once_for_each_claim():
    world = World(a=10)
    world.node("n0", "h100", "h100", "h100")
    world.template("two", 2)
    world.claim("shared")
    world.pod("p", "a", "two")
    for name in ("q", "r"):
        world.pod(name, "a", claim="shared")
    world.cycle()
    publisher = Publisher("default")
    publisher.take(world.cycle(), cycle=1, time_s=1e9, duration_s=0.1)
    reading = Reading(publisher.view)
    (node,) = nodes.nodes_document(reading, nodes.Wanted(), ALL)["nodes"]
    assert node["gpus"] == {"total": 3, "free": 0}
    assert sorted(it["gpus"] for it in node["holders"]) == [0, 1, 2]
    assert queues.overview_document(reading)["gpus"] == {"total": 3, "held": 3}
