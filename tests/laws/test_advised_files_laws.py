"""The law of advice on files: what is advised lets the job start, and a little less does not.

Each piece of advice is applied to the manifests, as a reader would do it: nodes with names of their
own are added, queues and pod groups are edited. Then the file is planned anew.
``python -m tests.laws.test_advised_files_laws 500`` prints the rates over so many files; a second
number is the first seed.
"""

import copy
import json
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import event, given, settings
from hypothesis import strategies as st

from kaisched.engine.planning import plan, read_plan_input
from kaisched.view.documents import plan_document
from tests import objects

HOST = "kubernetes.io/hostname"
GPU = "nvidia.com/gpu"
SCALE = {"gpu": 1, "cpu": 1000, "memory": 1e-6}
"""In a queue CPUs are written in thousandths, and memory in MB."""
TAINT = {"key": "dedicated", "value": "train", "effect": "NoSchedule"}
TOLERATION = {"key": "dedicated", "operator": "Exists"}
SHARD = {
    "apiVersion": "kai.scheduler/v1",
    "kind": "SchedulingShard",
    "metadata": {"name": "default"},
    "spec": {"gpuSharing": {"image": "example.com/agent"}},
}
TOPOLOGY = {
    "apiVersion": "kai.scheduler/v1alpha1",
    "kind": "Topology",
    "metadata": {"name": "racks"},
    "spec": {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": HOST}]},
}
CLASSES = [
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }
    for name, value in (("train", 50), ("high", 80), ("build", 100))
]


class Dice:
    """Makes a file; the same seed makes the same one."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.free, self.at = {}, {}

    def chance(self, one_in):
        return self.rng.randrange(one_in) == 0

    def file(self):
        pick = self.rng.choice
        made = [*CLASSES, TOPOLOGY]
        is_shared = self.chance(4)
        if is_shared:
            made.append(SHARD)
        kinds = [pick([1, 2, 4, 8]), pick([0, 1, 4, 8])]
        made += [self.node(at, pick(kinds)) for at in range(self.rng.randint(1, 5))]
        leaves = []
        for name in "abc"[: self.rng.randint(1, 3)]:
            above = "up" if self.chance(2) else ""
            made.append(self.queue(name, above))
            leaves.append(name)
        if any(it["kind"] == "Queue" and it["spec"]["parentQueue"] for it in made):
            made.append(self.queue("up", ""))
        for number in range(self.rng.randint(0, 6)):
            made += self.job(f"r{number}", pick(leaves), runs=True, is_shared=is_shared)
        for number in range(self.rng.randint(1, 4)):
            made += self.job(f"w{number}", pick(leaves), runs=False, is_shared=is_shared)
        return [
            {**it, "metadata": {**it["metadata"], "creationTimestamp": stamp(at)}}
            for at, it in enumerate(made)
        ]

    def node(self, number, gpus):
        name = f"n{number}"
        labels = {HOST: name, "rack": f"r{number % 2}", "zone": self.rng.choice("ab")}
        if gpus:
            labels |= {"nvidia.com/gpu.memory": "81920", "nvidia.com/gpu.count": str(gpus)}
        room = {"cpu": self.rng.choice(["8", "64"]), "memory": "512Gi", "pods": "110"}
        room |= {GPU: str(gpus)} if gpus else {}
        spec = {"taints": [TAINT]} if self.chance(6) else {}
        self.free[name] = [gpus, int(room["cpu"])]
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
            "status": {"allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]},
        }

    def queue(self, name, above):
        pick = self.rng.choice
        made = objects.queue(name, pick([0, 1, 2, 4, -1]), above, limit=pick([-1] * 8 + [1, 2, 4]))
        if self.chance(6):
            made["spec"]["resources"]["cpu"] = {"quota": -1, "limit": pick([2000, 4000, 9000])}
        return made

    def job(self, name, queue, *, runs, is_shared):
        pick = self.rng.choice
        count = pick([1, 1, 1, 2, 3, 4])
        gpus, cpus = pick([0, 1, 1, 2, 4, 8]), pick([1, 1, 2, 6])
        notes, limits = {}, {"cpu": str(cpus)} | ({GPU: str(gpus)} if gpus else {})
        if is_shared and not runs and self.chance(3):
            notes, limits = {"gpu-fraction": pick(["0.5", "0.3"])}, {"cpu": str(cpus)}
        spec = self.rules(name) if self.chance(2) else {}
        of_group = {"priorityClassName": pick(["train", "train", "high", "build"])}
        if not runs and self.chance(6):
            of_group["topologyConstraint"] = {
                "topology": "racks",
                "requiredTopologyLevel": pick(["rack", HOST]),
            }
        minimum = pick([1, count, count])
        made = [objects.group(name, queue, minimum, **of_group)]
        for at in range(count):
            one = objects.pod(
                f"{name}-{at}",
                queue,
                group=name,
                limits=limits,
                labels={"app": name},
                annotations=notes,
                **copy.deepcopy(spec),
            )
            if runs and not self.runs(one, gpus, cpus):
                continue
            made.append(one)
        return [] if len(made) == 1 else [with_namespace(it) for it in made]

    def rules(self, name):
        """What says where pods may be."""
        pick = self.rng.choice
        host = pick(sorted(self.free))
        near = {"labelSelector": {"matchLabels": {"app": pick(["r0", "r1", name])}}}
        near["topologyKey"] = pick([HOST, HOST, "rack"])
        kind = pick(["podAffinity", "podAntiAffinity", "podAntiAffinity"])
        spread = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
        spread |= {"topologyKey": pick([HOST, "rack"])}
        spread |= {"labelSelector": {"matchLabels": {"app": name}}}
        match = {"key": HOST, "operator": pick(["In", "NotIn"]), "values": [host]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [match]}]}
        need = "requiredDuringSchedulingIgnoredDuringExecution"
        return pick(
            [
                {"nodeSelector": {HOST: host}},
                {"nodeSelector": {"zone": pick("ab")}},
                {"affinity": {"nodeAffinity": {need: terms}}},
                {"affinity": {kind: {need: [near]}}},
                {"tolerations": [TOLERATION]},
                {"topologySpreadConstraints": [spread]},
                {"preemptionPolicy": "Never"},
            ]
        )

    def runs(self, one, gpus, cpus):
        names = [it for it, (free, cores) in self.free.items() if free >= gpus and cores >= cpus]
        if not names:
            return False
        name = self.rng.choice(names)
        self.free[name][0] -= gpus
        self.free[name][1] -= cpus
        one["spec"]["nodeName"] = name
        one["status"] = {"phase": "Running", "startTime": stamp(0)}
        return True


def stamp(at):
    return f"2026-01-05T09:{at // 60:02}:{at % 60:02}Z"


def with_namespace(it):
    meta = {**it["metadata"], "namespace": "t", "uid": f"uid-{it['kind']}-{it['metadata']['name']}"}
    return {**it, "metadata": meta}


def planned(made):
    """Return the cycle that a plan of the file prints."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "file.yaml"
        file.write_text("\n---\n".join(map(json.dumps, made)), encoding="utf-8")
        return plan(read_plan_input([str(file)]))


def placed(found, job):
    """Return how many pods of a job are bound or promised room."""
    mine = f"{job}-"
    cycle = found.cycles[0]
    return sum(it.pod.startswith(mine) for it in [*cycle.binds, *cycle.nominations])


def edited(made, job, kind, changes, number=0):
    """Return the manifests with changes of one kind; ``number`` keeps names of nodes apart."""
    made = copy.deepcopy(made)
    if kind == "nodes":
        return [*made, *more_nodes(made, changes, number)]
    if kind in ("quota", "limit"):
        queues = {it["metadata"]["name"]: it for it in made if it["kind"] == "Queue"}
        for it in changes:
            amounts = queues[it["on"]]["spec"]["resources"].setdefault(it["resource"], {})
            amounts[kind] = it["amount"] * SCALE[it["resource"]]
        return made
    if kind == "end":
        other = changes[0]["on"].partition("/")[2]
        return [it for it in made if not is_pod_of(it, other)]
    name = job.partition("/")[2]
    group = next(it["spec"] for it in made if it["metadata"]["name"] == name)
    if kind == "minimum":
        group["minMember"] = changes[0]["amount"]
    if kind == "preemptible":
        group["preemptibility"] = "preemptible"
    for spec in [it["spec"] for it in made if is_pod_of(it, name)]:
        if kind == "selector":
            spec.pop("nodeSelector", None)
            spec.get("affinity", {}).pop("nodeAffinity", None)
        if kind == "tolerations":
            spec.setdefault("tolerations", []).append({"operator": "Exists"})
    return made


def is_pod_of(it, name):
    return it["kind"] == "Pod" and it["metadata"]["labels"].get("app") == name


def more_nodes(made, changes, number):
    first, *larger = changes
    like = next(it for it in made if (it["kind"], it["metadata"]["name"]) == ("Node", first["on"]))
    for at in range(first["amount"]):
        node = copy.deepcopy(like)
        node["metadata"]["name"] = node["metadata"]["labels"][HOST] = f"new{number}-{at}"
        for change in larger:
            resource = GPU if change["resource"] == "gpu" else change["resource"]
            node["status"]["allocatable"][resource] = str(change["amount"])
            if resource == GPU:  # a label of the GPU operator
                node["metadata"]["labels"]["nvidia.com/gpu.count"] = str(change["amount"])
        yield node


def applied(made, job, changes):
    """Return the manifests with changes of several kinds."""
    for number, kind in enumerate(dict.fromkeys(it["kind"] for it in changes)):
        made = edited(made, job, kind, [it for it in changes if it["kind"] == kind], number)
    return made


def less(made, changes):
    """Yield changes of which one is less by one, as far as that is not how it is already."""
    for at, it in enumerate(changes):
        before, rest = [*changes[:at]], [*changes[at + 1 :]]
        kind, amount = it["kind"], it["amount"]
        if kind == "nodes" and it["resource"] is None:
            larger = [one for one in rest if one["kind"] == "nodes"]
            others = [one for one in (*before, *rest) if one["kind"] != "nodes"]
            if amount > 1:
                yield [{**it, "amount": amount - 1}, *larger, *others]
            elif others:
                yield others
        elif kind in ("quota", "limit"):
            now = next(
                one["spec"]["resources"].get(it["resource"], {}).get(kind, 0)
                for one in made
                if one["kind"] == "Queue" and one["metadata"]["name"] == it["on"]
            )
            step = {"gpu": 1 if amount == int(amount) else 0.1, "cpu": 1, "memory": 10**9}
            fewer = round(amount - step[it["resource"]], 3)
            now /= SCALE[it["resource"]]
            if 0 <= now < fewer:
                yield [*before, {**it, "amount": fewer}, *rest]
            elif before or rest:
                yield [*before, *rest]


def judged(made):
    """Return how often advice was right, by kind and by what was said."""
    found, seen = Counter(), planned(made)
    pending = plan_document(seen.steps, seen.problems, seen.warnings)["cycles"][0]["pending"]
    for entry in pending:
        job = entry["podGroup"]
        before = placed(seen, job)
        found["jobs"] += 1
        found["with advice"] += any(it["helps"] for it in entry["advice"])
        for it in entry["advice"]:
            if it["kind"] == "time":
                continue
            changes = it["changes"]
            starts = placed(planned(applied(made, job, changes)), job) > before
            key = it["kind"], "enough" if it["helps"] else "not enough"
            found[*key, "right" if starts == it["helps"] else "wrong"] += 1
            for fewer in less(made, changes) if it["helps"] else ():
                starts = placed(planned(applied(made, job, fewer)), job) > before
                found[it["kind"], "least", "wrong" if starts else "right"] += 1
    return found


def wrong(found):
    return [key for key in found if isinstance(key, tuple) and key[2] == "wrong"]


@settings(max_examples=4)  # slow: some thirty plans each
@given(st.integers(0, 1 << 32))
def test_advice_from_a_file_helps_when_it_is_applied_to_the_file_and_less_does_not(seed):
    found = judged(Dice(seed).file())
    for key in found:
        if isinstance(key, tuple):
            event(": ".join(key))
    assert wrong(found) == []


def main(count, begin=0):
    """Print the rates."""
    found = Counter()
    for seed in range(begin, begin + count):
        one = judged(Dice(seed).file())
        for key in wrong(one):
            print("seed", seed, *key, flush=True)
        found += one
    print(f"{count} files, {found['jobs']} waiting jobs, {found['with advice']} with advice")
    sums = Counter()
    for key in sorted(key for key in found if isinstance(key, tuple)):
        print(f"  {key[0]:12} {key[1]:12} {key[2]:6} {found[key]:6}")
        sums[key[1:]] += found[key]
    for said in ("enough", "not enough", "least"):
        right, false = sums[said, "right"], sums[said, "wrong"]
        print(f"{said}: {right} right, {false} wrong, {100 * right / max(right + false, 1):.2f} %")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
