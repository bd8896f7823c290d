"""Node affinity of queues: where jobs of a type of workload may go, whatever is free elsewhere."""

import pytest

from tests.cycling import Cycling

NODE = """
apiVersion: v1
kind: Node
metadata: {name: %s, labels: {%s}}
status: {allocatable: {cpu: "64", memory: 512Gi, nvidia.com/gpu: "2", pods: "99"}}
---"""
QUEUE = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: %s}
spec: {parentQueue: "%s", resources: {gpu: {quota: %s}}, nodeAffinity: [%s]}
---"""
GROUP = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: %s, namespace: team, creationTimestamp: "2026-01-01T00:00:%02dZ", labels: {%s}}
spec: {queue: %s, minMember: %d, preemptibility: %s, priorityClassName: "%s"}
---"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: team, annotations: {pod-group-name: %s%s}}
spec:
  schedulerName: kaisched
  nodeSelector: {%s}
  containers: [{name: main, resources: {limits: {nvidia.com/gpu: "1"}}}]
---"""
TYPES = {"n-a100": "a100", "n-h100": "h100", "n-v100": "v100"}


def only(*types, workloads=""):
    words = f"workloads: [{workloads}], " if workloads else ""
    wanted = f"{{key: run.ai/type, operator: In, values: [{', '.join(types)}]}}"
    return f"{{{words}terms: [{{matchExpressions: [{wanted}]}}]}}"


class World(Cycling):
    """A node of two GPUs for each type, and project team-a of department science."""

    def __init__(self, project="", department="", **spec):
        super().__init__(1_800_000_000.0, **spec)
        self.jobs = 0
        for name, kind in TYPES.items():
            self.load(NODE % (name, f"run.ai/type: {kind}"))
        self.queue("science", "", department)
        self.queue("team-a", "science", project)
        self.queue("team-b", "science", "")

    def queue(self, name, parent, affinity, quota=2):
        self.load(QUEUE % (name, parent, quota, affinity))

    def job(
        self,
        name,
        pods=1,
        *,
        preemptible=True,
        cls="",
        labels="",
        types="",
        selector="",
        queue="team-a",
    ):
        self.jobs += 1
        word = "preemptible" if preemptible else "non-preemptible"
        self.load(GROUP % (name, self.jobs, labels, queue, pods, word, cls))
        asks = f', kaisched.io/node-type: "{types}"' if types else ""
        self.load(*(POD % (f"{name}-{at}", name, asks, selector) for at in range(pods)))

    def cycle(self):
        return super().cycle(60.0).result

    def nodes(self, name):
        """The nodes of a job's pods."""
        tasks = self.cluster.snapshot().tasks
        at = zip(tasks.name, tasks.node_of_task.tolist(), strict=True)
        names = self.cluster.snapshot().nodes.name
        return [names[node] for pod, node in at if pod.startswith(f"team/{name}-") and node >= 0]

    def why(self):
        return {it.pod_group.removeprefix("team/"): it for it in self.cycle().records}


def test_interactive_jobs_of_a_project_go_where_it_lets_them():
    """The example of Run:ai's page: team-a runs interactive work on v100 and a100 only (A3)."""
    world = World(only("v100", "a100", workloads="interactive"))
    world.job("desk", 5, cls="build-preemptible")
    world.job("desks", 2, cls="build-preemptible")
    world.job("batch", 2)
    world.cycle()
    assert world.nodes("desk") == []
    assert set(world.nodes("desks")) <= {"n-v100", "n-a100"}
    assert len(world.nodes("desks")) == 2
    assert len(world.nodes("batch")) == 2


def test_what_is_said_of_no_type_holds_for_all():
    world = World(only("h100"))
    for name, cls in (("train", "train"), ("serve", "inference")):
        world.job(name, cls=cls)
    world.cycle()
    assert [world.nodes("train"), world.nodes("serve")] == [["n-h100"], ["n-h100"]]


@pytest.mark.parametrize(
    ("how", "node"),
    [
        ({"cls": "train"}, "n-v100"),
        ({"cls": "build"}, "n-a100"),
        ({"cls": "build-preemptible"}, "n-a100"),
        ({"cls": "inference"}, "n-h100"),
        ({"labels": "kaisched.io/workload-type: inference"}, "n-h100"),
        ({"labels": "kaisched.io/workload-type: interactive"}, "n-a100"),
        ({"preemptible": True}, "n-v100"),
        ({"preemptible": False}, "n-a100"),
    ],
)
def test_the_type_is_that_of_the_class_then_of_the_label_then_of_preemptibility(how, node):
    rules = {"training": "v100", "interactive": "a100", "inference": "h100"}
    world = World(", ".join(only(kind, workloads=word) for word, kind in rules.items()))
    world.job("job", **how)
    world.cycle()
    assert world.nodes("job") == [node]


def test_entries_and_queues_above_narrow_each_other():
    world = World(
        f"{only('v100', 'a100')}, {only('a100', 'h100', workloads='training')}",
        only("v100", "a100", workloads="training"),
    )
    world.job("train", 2)
    world.job("more", 2)
    world.cycle()
    assert world.nodes("train") == ["n-a100", "n-a100"]
    assert world.nodes("more") == []


def test_a_parent_rules_all_below_it_and_nobody_beside_it():
    world = World("", only("a100"))
    world.queue("other", "", "")
    world.job("mine", 2)
    world.job("theirs", 3, queue="team-b")
    world.job("free", 4, queue="other")
    world.cycle()
    assert world.nodes("mine") == ["n-a100", "n-a100"]
    assert world.nodes("theirs") == []
    assert len(world.nodes("free")) == 4


@pytest.mark.parametrize("types", ["v100", "v100, h100"])
def test_a_job_names_types_within_what_its_project_allows(types):
    """A4: ``kaisched.io/node-type`` is a subset of the project's setting, as ``--node-type``."""
    world = World(only("v100", "a100"))
    world.job("job", 2, types=types)
    world.job("other", 1, types="h100")
    world.cycle()
    assert world.nodes("job") == ["n-v100", "n-v100"]
    assert world.nodes("other") == []


def test_a_type_counts_without_a_rule_of_the_project_too():
    world = World()
    world.job("job", 2, types="h100")
    world.cycle()
    assert world.nodes("job") == ["n-h100", "n-h100"]


def test_no_node_for_both_sides_is_told_at_once_and_nothing_goes_for_it():
    """A4: the sentence names what the job asks for and which queue rules it out."""
    world = World(only("a100", workloads="training"))
    world.job("busy", 6, queue="team-b")
    world.cycle()
    assert len(world.nodes("busy")) == 6
    world.job("job", types="v100")
    result = world.cycle()
    assert result.evictions == ()
    told = next(it for it in result.records if it.pod_group == "team/job")
    assert told.reason == "NoNodeAllowed"
    assert told.message == (
        "no node of type v100 that queue team-a may use for training jobs: 0/3 nodes may take its"
        " pods: 2 node is not of the type asked for, 1 node affinity of the queue does not match;"
        " queue team-a allows training jobs nodes with run.ai/type in (a100)"
    )
    assert told.numbers["node_types"] == ["v100"]


def test_a_selector_of_the_pod_is_a_side_as_well():
    world = World(only("a100"))
    world.job("job", selector="run.ai/type: h100")
    message = world.why()["job"].message
    assert message.startswith("no node as it selects that queue team-a may use for training jobs")


def test_a_project_whose_nodes_are_full_says_which_these_are():
    world = World(only("a100"))
    world.job("first", 2)
    world.cycle()
    world.job("second")
    told = world.why()["second"]
    assert told.reason == "NoRoom"
    assert "queue team-a allows training jobs nodes with run.ai/type in (a100)" in told.message
    assert "2 node affinity of the queue does not match" in told.message


def test_a_changed_queue_moves_who_waits_and_leaves_what_runs():
    """A5, A6: required when it is placed, ignored while it runs."""
    world = World(only("a100"))
    world.job("runs", 2)
    world.cycle()
    world.job("waits", 2)
    world.cycle()
    assert world.nodes("waits") == []
    world.queue("team-a", "science", only("h100"), quota=4)
    result = world.cycle()
    assert result.evictions == ()
    assert world.nodes("runs") == ["n-a100", "n-a100"]
    assert world.nodes("waits") == ["n-h100", "n-h100"]


def test_a_queue_without_rules_again_lets_its_jobs_go_anywhere():
    world = World(only("nowhere"))
    world.job("job", 2)
    world.cycle()
    assert world.nodes("job") == []
    world.queue("team-a", "science", "")
    world.cycle()
    assert len(world.nodes("job")) == 2
    shapes = world.cluster.snapshot()
    used = set(shapes.tasks.shape_of_task.tolist())
    assert all(not shapes.shapes.constraints[it].queue_terms for it in used)


def test_a_job_that_becomes_interactive_gets_other_nodes():
    world = World(
        f"{only('nowhere', workloads='training')}, {only('h100', workloads='interactive')}"
    )
    world.job("job", 2)
    world.cycle()
    assert world.nodes("job") == []
    world.load(GROUP % ("job", 1, "", "team-a", 2, "preemptible", "build-preemptible"))
    world.cycle()
    assert world.nodes("job") == ["n-h100", "n-h100"]


def test_a_job_that_goes_to_another_queue_gets_its_nodes():
    world = World(only("nowhere"))
    world.queue("team-b", "science", only("v100"))
    world.job("job", 2)
    world.cycle()
    world.load(GROUP % ("job", 1, "", "team-b", 2, "preemptible", ""))
    world.cycle()
    assert world.nodes("job") == ["n-v100", "n-v100"]


def test_a_gang_is_placed_whole_within_the_rule_or_not_at_all():
    world = World(only("a100"))
    world.job("gang", 3)
    world.cycle()
    assert world.nodes("gang") == []


@pytest.mark.proportion
def test_reclaim_makes_room_on_the_nodes_of_the_rule():
    world = World(only("v100"))
    for at in range(6):
        world.job(f"own{at}", queue="team-b")
    world.cycle()
    world.job("claim", 2)
    evicted = {it.node for it in world.cycle().evictions}
    assert evicted == {"n-v100"}
    world.cycle()
    assert world.nodes("claim") == ["n-v100", "n-v100"]


@pytest.mark.proportion
@pytest.mark.parametrize("cls", ["build", "inference"])
def test_inside_the_quota_interactive_and_inference_go_before_training(cls):
    """A7: up to the project's quota they evict training of the project, and stay themselves."""
    world = World(only("a100"))
    world.job("train", 2, preemptible=True, cls="train")
    world.cycle()
    world.job("desk", 2, preemptible=False, cls=cls)
    assert {it.pod for it in world.cycle().evictions} == {"team/train-0", "team/train-1"}
    world.cycle()
    assert world.nodes("desk") == ["n-a100", "n-a100"]
    world.job("again", 2, cls="train")
    assert world.cycle().evictions == ()


def test_nothing_is_computed_where_no_queue_says_anything():
    world = World()
    world.job("job", 2)
    world.cycle()
    snapshot = world.cluster.snapshot()
    assert snapshot.queues.node_affinity is None
    assert all(not it.queue_terms for it in snapshot.shapes.constraints)
