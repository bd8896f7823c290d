"""What a scheduling case says of who holds what, who claims and who is expected to give way.

Predicates for deviations of the evicting actions. Each asks for the situation and for the outcome
that only the other rule gives, so that a case that goes wrong in another way stays a failure.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

PLACED = {"Running", "Pipelined", "Binding"}
GONE = {"Pending", "Releasing"}


@dataclass(frozen=True)
class Pod:
    """A task with the facts of its job, and what is expected of it."""

    job: str
    queue: str
    is_preemptible: bool
    gpus: float
    state: str
    node: str | None
    expected: str | None

    @property
    def is_moved(self) -> bool:
        """Tell whether it runs and is expected to get another place."""
        return self.state == "Running" and self.expected == "Pipelined"

    @property
    def is_evicted(self) -> bool:
        """Tell whether it runs and is expected to lose its place."""
        return self.state == "Running" and self.expected in GONE

    @property
    def is_kept(self) -> bool:
        """Tell whether it runs, might be evicted, and is expected to stay."""
        return self.state == "Running" and self.is_preemptible and self.expected == "Running"

    @property
    def is_served(self) -> bool:
        """Tell whether it waits and is expected to be placed."""
        return self.state == "Pending" and self.expected in PLACED


class Scene:
    """A scheduling case, with the sums of it."""

    def __init__(self, case: dict[str, Any]) -> None:
        """Read the case; one of another kind has no pods and no actions."""
        cluster = case["cluster"] if "actions" in case else {"jobs": [], "queues": [], "nodes": []}
        self.actions: list[str] = list(case.get("actions", ()))
        self.config = case.get("config", {})
        self.queues = {queue["name"]: queue for queue in cluster["queues"]}
        self.pods = list(_pods(cluster, case["expected"])) if cluster["jobs"] else []
        self.needed = {job["name"]: _needed(job["root"]) for job in cluster["jobs"]}
        """Pods that each job needs in order to run."""
        self.free = {node["name"]: float(node["gpus"]) for node in cluster["nodes"]}
        for pod in self.pods:
            if pod.node in self.free:
                self.free[pod.node] -= pod.gpus

    def quota(self, queue: str) -> float:
        """Return the GPUs that a queue deserves."""
        quota = float(self.queues[queue]["gpu"]["quota"])
        return float("inf") if quota < 0 else quota

    def held(self, queue: str) -> float:
        """Return the GPUs that a queue's pods hold."""
        return sum(pod.gpus for pod in self.pods if pod.queue == queue and pod.node)

    def running(self, job: str) -> int:
        """Return how many pods of a job run."""
        return sum(pod.job == job and pod.state == "Running" for pod in self.pods)

    def served(self) -> list[Pod]:
        """Return the waiting pods that are expected to be placed."""
        return [pod for pod in self.pods if pod.is_served]


def _needed(group: dict[str, Any]) -> int:
    own = sum(pod_set["min_available"] for pod_set in group["pod_sets"])
    return int(own) + sum(_needed(below) for below in group["groups"])


def _pods(cluster: dict[str, Any], expected: dict[str, Any]) -> Iterator[Pod]:
    for job in cluster["jobs"]:
        for task in job["tasks"]:
            told = expected["tasks"].get(task["id"]) or expected["jobs"].get(job["name"]) or {}
            yield Pod(
                job["name"],
                job["queue"],
                job["preemptible"],
                gpus_of(task["request"], cluster["min_node_gpu_memory_mib"]),
                task["state"],
                task["node"],
                told.get("status"),
            )


def gpus_of(request: dict[str, Any], card_mib: float) -> float:
    """Return how many GPUs a request is for; memory counts as a part of the smallest card."""
    part = float(request.get("gpu_fraction") or 0)
    if request.get("gpu_memory_mib"):
        part = float(request["gpu_memory_mib"]) / card_mib
    return float(request["gpus"] or 0) + part * float(request.get("gpu_devices") or 1)


def moves_a_part_of_a_gang(case: dict[str, Any]) -> bool:
    """Tell whether one pod is to move of a job that needs all its pods, and another to stay."""
    scene = Scene(case)
    jobs = {pod.job for pod in scene.pods if pod.is_moved}
    return any(
        pod.is_kept and pod.job in jobs and scene.running(pod.job) <= scene.needed[pod.job]
        for pod in scene.pods
    )


def moves_the_larger(case: dict[str, Any]) -> bool:
    """Tell whether consolidation is to move a pod where a smaller one would have made room too."""
    scene = Scene(case)
    if "consolidation" not in scene.actions:
        return False
    free = scene.free
    return any(
        stays.gpus < moved.gpus
        and stays.node != moved.node
        and free[str(stays.node)] + stays.gpus >= claim.gpus > free[str(stays.node)]
        and free[str(moved.node)] >= stays.gpus
        for claim in scene.served()
        for moved in scene.pods
        for stays in scene.pods
        if moved.is_moved and stays.is_kept and stays.gpus > 0
    )


def leaves_less_than_the_quota(case: dict[str, Any]) -> bool:
    """Tell whether a queue is to go below its quota, although a smaller victim would have done."""
    scene = Scene(case)
    if "reclaim" not in scene.actions:
        return False
    return any(
        scene.held(gone.queue) >= scene.quota(gone.queue) > scene.held(gone.queue) - gone.gpus
        and scene.held(gone.queue) - stays.gpus >= scene.quota(gone.queue)
        and scene.free[str(stays.node)] + stays.gpus >= claim.gpus
        for claim in scene.served()
        for gone in scene.pods
        for stays in scene.pods
        if gone.is_evicted and stays.is_kept and gone.queue == stays.queue != claim.queue
    )


def grants_what_waits(case: dict[str, Any]) -> bool:
    """Tell whether a job is to wait as a whole, and GPUs are said to be granted to it."""
    told = case["expected"].get("jobs") or {} if "actions" in case else {}
    return any(job["status"] == "Pending" and job["gpus_accepted"] for job in told.values())


def evicts_the_larger(case: dict[str, Any]) -> bool:
    """Tell whether a job is to be evicted although a smaller one of its queue would have done."""
    scene = Scene(case)
    if not {"reclaim", "preempt"}.intersection(scene.actions):
        return False
    return any(
        0 < stays.gpus < gone.gpus and scene.free[str(stays.node)] + stays.gpus >= claim.gpus
        for claim in scene.served()
        for gone in scene.pods
        for stays in scene.pods
        if gone.is_evicted and stays.is_kept and gone.queue == stays.queue != claim.queue
    )


def spares_an_over_utilised_queue(case: dict[str, Any]) -> bool:
    """Tell whether a queue that surely is above its fair share of GPUs is to keep a victim's place.

    Without a weight, a queue's fair share is its quota at most. Its victim would have made room as
    well, but it is of a higher priority than the queue that gives.
    """
    scene = Scene(case)
    if "reclaim" not in scene.actions:
        return False
    return any(
        scene.queues[stays.queue]["gpu"]["over_quota_weight"] == 0
        and scene.held(stays.queue) - stays.gpus >= scene.quota(stays.queue)
        and scene.queues[stays.queue]["priority"] > scene.queues[gone.queue]["priority"]
        and scene.free[str(stays.node)] + stays.gpus >= claim.gpus
        for claim in scene.served()
        for gone in scene.pods
        for stays in scene.pods
        if gone.is_evicted and stays.is_kept and claim.queue not in (gone.queue, stays.queue)
        if stays.gpus > 0
    )


def moves_work_within_its_share(case: dict[str, Any]) -> bool:
    """Tell whether reclaim, and not consolidation, is to move a pod of a queue within its quota."""
    scene = Scene(case)
    if "reclaim" not in scene.actions or "consolidation" in scene.actions:
        return False
    return any(
        pod.is_moved and pod.gpus > 0 and scene.held(pod.queue) <= scene.quota(pod.queue)
        for claim in scene.served()
        for pod in scene.pods
        if pod.queue != claim.queue
    )
