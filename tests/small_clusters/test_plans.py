"""Plans of the clusters beside this file; each test says what is right and why."""

from pathlib import Path

import pytest

from kaisched.cli.plan import print_plan
from kaisched.engine.planning import plan, planned_cluster, read_plan_input
from kaisched.framework.advice.advice import Kind
from kaisched.framework.advice.search import Adviser
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.report.result import ShardCycle
from kaisched.view.documents import cycle_document
from kaisched.view.live import view_of
from kaisched.view.nodes import Wanted, nodes_document
from kaisched.view.reading import ALL, Reading

CLASS = "gpu.example.com"
HERE = Path(__file__).parent


def planned(name, rounds=1):
    """Return the plan of one file of this folder."""
    return plan(read_plan_input([str(HERE / name)]), rounds)


def binds(result):
    return {bind.pod: bind.node for cycle in result.cycles for bind in cycle.binds}


def test_a_request_that_equals_the_quota_of_memory_fits():
    # 1000M of the pod and 1000 MB of the queue are one amount, whatever unit it is counted in.
    assert binds(planned("memory-quota.yaml")) == {"default/x": "n1"}


@pytest.mark.proportion
def test_many_small_requests_of_megabytes_fill_a_quota_exactly(tmp_path):
    text = (HERE / "memory-quota.yaml").read_text(encoding="utf-8")
    documents = text.split("\n---\n")
    pod = next(it for it in documents if "kind: Pod\n" in it)
    pods = [pod.replace("1000M", "100M").replace("name: x", f"name: x{at}") for at in range(11)]
    pods = [it.replace("nvidia.com/gpu: '1'", "nvidia.com/gpu: '0'") for it in pods]
    file = tmp_path / "ten-fit.yaml"
    file.write_text("\n---\n".join([it for it in documents if it is not pod] + pods))
    found = plan(read_plan_input([str(file)]), 1)
    assert len(binds(found)) == 10


def test_equal_shares_of_memory_are_equal_to_the_byte():
    # A quarter of 80 GB holds two pods of 10 GB, though it is no whole number of MiB.
    (cycle,) = planned("memory-shares.yaml").cycles
    assert [it.pod for it in cycle.evictions] == [f"default/a{at}" for at in (7, 6, 5, 4, 3, 2)]
    taken = sorted(it.pod for it in cycle.nominations)
    assert taken == [f"default/{pod}" for pod in ("b0", "b1", "c0", "c1", "d0", "d1")]


@pytest.mark.parametrize("kind", ["pytorchjob", "mpijob"])
def test_a_gang_whose_size_its_owner_says_does_not_start_in_part(kind):
    # The three pods ask for 12 GPUs, the node has 8; two of them would fit.
    found = planned(f"{kind}.yaml")
    assert binds(found) == {}
    (record,) = found.cycles[0].records
    assert (record.pod_group, record.reason) == ("default/pg-m-u1", "GangNoRoom")
    assert found.warnings == []


def test_an_owner_that_is_not_in_the_file_is_told(tmp_path):
    text = (HERE / "pytorchjob.yaml").read_text(encoding="utf-8")
    rest = [it for it in text.split("\n---\n") if "kind: PyTorchJob\nmeta" not in it]
    file = tmp_path / "no-owner.yaml"
    file.write_text("\n---\n".join([*rest, "{apiVersion: v1, kind: Service, metadata: {name: w}}"]))
    assert plan(read_plan_input([str(file)])).warnings == [
        "objects of kinds that are not read were left out: 1 Service",
        (
            "PyTorchJob default/m is not among the manifests under the UID that its pods name:"
            " what it says of them is not known, so each of the 3 starts by itself"
        ),
    ]


def test_a_workload_that_is_written_by_hand_makes_no_pods_and_that_is_told(tmp_path):
    template = "{spec: {schedulerName: kaisched, containers: [{name: c}]}}"
    job = "{{apiVersion: batch/v1, kind: Job, metadata: {{name: {}}}, spec: {{template: {}}}}}"
    ours, others = job.format("ours", template), job.format("others", "{spec: {containers: []}}")
    file = tmp_path / "jobs.yaml"
    file.write_text(f"{ours}\n---\n{others}\n")
    told = plan(read_plan_input([str(file)])).warnings
    assert [it for it in told if "Job" in it] == [
        (
            "of Job default/ours no pods are among the manifests, and none are made: nothing of it"
            " is decided"
        )
    ]
    file.write_text(ours.replace("name: ours", "name: ours, uid: u1"))  # from a cluster: it ended
    assert not any("Job" in it for it in plan(read_plan_input([str(file)])).warnings)


def test_no_piece_of_a_gang_is_moved():
    # What else could move may not: so the gang of two moves whole, for a job that needs a node.
    found = planned("gang-piece-moved.yaml")
    moved = {evict.pod for evict in found.cycles[0].evictions}
    assert moved in ({"default/m0", "default/m1"}, set())
    assert moved <= {nominate.pod for nominate in found.cycles[0].nominations}


def told(name, cycle=0, rounds=1):
    """Return (reason, message, advice) of the jobs that wait after a cycle, by pod group."""
    records = Adviser(planned(name, rounds).cycles[cycle]).records()
    return {it.pod_group: (it.reason, it.message, it.advice) for it in records}


def helping(advice):
    return {it.kind for it in advice if it.helps}


def test_the_reason_and_the_advice_come_from_what_stopped_the_job():
    found = told("false-advice.yaml")
    reason, message, advice = found["a/pg-toobig-2"]
    # The node has 8 GPUs of 16 even when it is empty: free room changes nothing.
    assert (reason, helping(advice)) == ("ExceedsAnyNode", {Kind.NODES})
    assert "gpu short by at least 8;" in message
    reason, message, advice = found["a/pg-selector-3"]
    assert (reason, helping(advice)) == ("NoNodeAllowed", {Kind.SELECTOR})
    assert "evicted" not in message
    reason, message, advice = found["a/pg-full-4"]
    # It is the only queue: what it deserves makes no room.
    assert (reason, helping(advice)) == ("NoRoom", {Kind.NODES, Kind.END})
    assert "quota" not in message
    assert found["a/pg-typo-5"] == ("QueueDoesNotExist", "queue qq does not exist; known: q", ())


@pytest.mark.proportion
def test_a_gang_that_is_larger_than_its_fair_share_is_told_so():
    _, message, advice = told("gang5.yaml", cycle=-1, rounds=5)["default/g"]
    assert "the gang of 5 asks for gpu 5, more than its fair share of 4" in message
    assert helping(advice) == {Kind.QUOTA, Kind.NODES, Kind.END, Kind.MINIMUM}


def test_pods_of_several_kinds_are_fitted_next_to_each_other():
    (found,) = told("mpijob.yaml").values()
    assert found[1].startswith("2 of 3 pods fit now: 1 gpu short by at least 4")


def test_a_queue_that_was_left_out_says_why(tmp_path):
    text = (HERE / "false-advice.yaml").read_text(encoding="utf-8")
    text = text.replace("quota: 100,", "quota: -5,").replace(
        ", labels: {kai.scheduler/queue: qq}", ""
    )
    file = tmp_path / "left-out.yaml"
    file.write_text(text)
    found = plan(read_plan_input([str(file)])).cycles[0].records
    messages = {it.pod_group: it.message for it in found}
    assert messages["a/pg-full-4"].startswith("queue q is left out: ")
    assert "quota" in messages["a/pg-full-4"]
    assert messages["a/pg-typo-5"].startswith("queue default-queue does not exist: pods without")


@pytest.mark.fault("D70")
@pytest.mark.parametrize(
    ("threshold", "node", "is_evicted"),
    [
        ("", "n1", True),
        ("4m", "n0", False),
        ("3m", "n1", True),
        ("-1s", "n0", False),
    ],
)
def test_nobody_waits_for_a_pod_that_does_not_end(threshold, node, is_evicted, tmp_path):
    # By default for two minutes; then a's other pod, which is beyond its quota, gives way.
    file = tmp_path / "shard.yaml"
    args = f"{{stuck-in-releasing-threshold: {threshold}}}" if threshold else "{}"
    kind = "apiVersion: kai.scheduler/v1\nkind: SchedulingShard\nmetadata: {name: default}\n"
    file.write_text(f"{kind}spec: {{args: {args}}}\n")
    (cycle,) = plan(read_plan_input([str(HERE / "stuck-pod.yaml")], file)).cycles
    assert [(it.pod, it.node) for it in cycle.nominations] == [("default/w", node)]
    assert [it.pod for it in cycle.evictions] == ["default/more"] * is_evicted


@pytest.mark.proportion
def test_siblings_give_in_turn_what_their_department_has_too_much():
    # d1 deserves 4, and p1 and p2 were promised 4 each: of their 8 pods each loses two, and no
    # sentence says that a quota is undershot, since what goes can be divided.
    evictions = planned("dept-oversubscribed.yaml").cycles[0].evictions
    gone = sorted(evict.pod for evict in evictions)
    assert gone == ["default/r2", "default/r3", "default/s2", "default/s3"]
    assert not any("below its quota" in evict.reason for evict in evictions)


def test_an_empty_department_is_filled_as_its_siblings_would_be_left(tmp_path):
    text = (HERE / "dept-oversubscribed.yaml").read_text(encoding="utf-8")
    file = tmp_path / "empty.yaml"
    file.write_text(
        text.replace("  nodeName: n1\n", "").replace("phase: Running", "phase: Pending")
    )
    found = plan(read_plan_input([str(file)]), 1)
    assert sorted(binds(found)) == [f"default/{name}" for name in ("g", "r0", "r1", "s0", "s1")]


@pytest.mark.proportion
def test_a_job_for_which_evictions_in_its_first_flavor_are_in_vain_starts_in_the_next_at_once():
    shard = HERE.parents[1] / "config/shards/kueue.yaml"
    found = plan(read_plan_input([str(HERE / "flavor-in-vain.yaml"), str(shard)]), 5)
    assert binds(found) == {"d/x-0": "new", "d/x-1": "new"}
    assert [len(cycle.binds) for cycle in found.cycles] == [2, 0]


def test_a_plan_and_its_node_map_say_who_has_cards_instances_and_devices(capsys):
    # n0 has 1 + 2 x 3/7 + 7 x 1/7 GPUs, and the half goes to the whole one; n2 has three devices.
    (cycle,) = planned("mixed-gpus.yaml").cycles
    document = cycle_document(cycle)
    assert document["binds"] == [
        {"pod": "default/claims", "node": "n2", "devices": [f"{CLASS}/n2/g0", f"{CLASS}/n2/g1"]},
        {"pod": "default/half", "node": "n0", "cards": [0]},
        {"pod": "default/mig", "node": "n0"},
    ]
    print_plan([ShardCycle("default", "default", cycle, {})])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[4:7]]
    assert rows[0] == ["default/claims", "n2", f"{CLASS}/n2/g0,", f"{CLASS}/n2/g1"]
    assert rows[1:] == [["default/half", "n0", "0"], ["default/mig", "n0"]]
    of = nodes_document(Reading(view_of(cycle)), Wanted(), ALL)["nodes"]
    assert [it["gpus"] for it in of] == [
        {"total": 2.85, "free": 1.922},
        {"total": 2, "free": 2},
        {"total": 3, "free": 1},
    ]
    assert [(it["queue"], it["gpus"], it["devices"]) for it in of[2]["holders"]] == [
        ("q", 2, [f"{CLASS}/n2/g0", f"{CLASS}/n2/g1"])
    ]
    small, large = of[0]["instances"]
    assert (small["part"], small["total"], small["free"], small["holders"]) == (0.142, 7, 7, [])
    assert (large["part"], large["total"], large["free"]) == (0.428, 2, 1)
    assert [(it["queue"], it["instances"]) for it in large["holders"]] == [("q", 1)]


def bound_and_evicted(name, rounds=2):
    result = planned(name, rounds)
    gone = {it.pod for cycle in result.cycles for it in cycle.evictions}
    return set(binds(result)), gone


def test_idle_room_is_kept_for_a_claim_that_a_quota_covers():
    # With the idle GPU, three pods have to go for the gang of four; had a got it, four.
    bound, gone = bound_and_evicted("idle-gpu-before-the-claim.yaml", 4)
    assert bound == {f"default/b{at}" for at in range(4)}
    assert gone == {f"default/r{at}" for at in range(3)}


def test_interactive_work_takes_the_place_of_training_in_its_queue():
    bound, gone = bound_and_evicted("interactive-preempts-training.yaml")
    assert bound == {"x/b0-0"}
    assert gone == {"x/t3-0"}


@pytest.mark.parametrize(
    ("name", "pod"), [("interactive-goes-first", "x/b0-0"), ("interactive-job", "x/ijob-0")]
)
def test_interactive_work_goes_before_older_training(name, pod):
    assert bound_and_evicted(f"{name}.yaml") == ({pod}, set())


def test_a_start_in_the_future_protects_for_the_minimum_runtime_and_no_longer():
    # A node's clock says 2099: x counts as started now, and may be reclaimed in ten minutes.
    what = read_plan_input([str(HERE / "start-in-the-future.yaml")])
    cluster, _ = planned_cluster(what)
    begin_s = cluster.clock.now_s()

    def evicted(later_s):
        cluster.advance_to(begin_s + later_s)
        result, _ = run_cycle(cluster.snapshot(), None, what.policy, begin_s + later_s, Memory())
        return [it.pod for it in result.evictions]

    assert [evicted(later_s) for later_s in (0, 599, 600)] == [[], [], ["default/x"]]


def test_of_ray_workers_no_group_starts_before_the_others_have_room(tmp_path):
    """Group w2 has no room, so nothing starts; what is in its way moves, and then all starts."""
    name = "ray-worker-group-without-room.yaml"
    text = (HERE / name).read_text(encoding="utf-8")
    for piece in ("preemptible", "non-preemptible"):
        file = tmp_path / f"{piece}.yaml"
        label = f"labels:\n    kai.scheduler/preemptibility: {piece}"
        file.write_text(text.replace("uid: uid-default-x\n  labels:", f"uid: uid-x\n  {label}"))
        found = binds(plan(read_plan_input([str(file)]), 3))
        ray = {pod for pod in found if "/rc-" in pod}
        if piece == "preemptible":
            assert found["default/x"] == "n1"
            assert {"default/rc-head", "default/rc-w1-0", "default/rc-w2-0"} <= ray
        else:
            assert ray == set()
