"""How many pods of a workload must start together, as the specs of the known kinds say it.

Only the few numbers are read. What makes no sense counts as 1: a group that is too small starts,
while one that is too large would wait for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

MOST: Final = 100_000
"""A workload that says it needs more pods than this is taken for a mistake."""


def minimum_of(kind: str, spec: object) -> int:
    """Return how many pods of a workload must start together; 1 for kinds that do not say."""
    read = _READ.get(kind)
    if read is None or not isinstance(spec, Mapping):
        return 1
    found = read(spec)
    return found if 1 <= found <= MOST else 1


def _count(value: object, absent: int = 1) -> int:
    """Return a number of pods, ``absent`` where there is none that makes sense."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST
    return int(value) if is_count and isinstance(value, int) else absent


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Mapping[str, Any]]:
    return [_map(it) for it in value] if isinstance(value, list) else []


def _stated(spec: Mapping[str, Any]) -> int:
    """Return the minimum that a Kubeflow job states itself, 0 for none."""
    policy = _map(_map(spec.get("runPolicy")).get("schedulingPolicy"))
    return _count(policy.get("minAvailable"), 0)


def _replicas(key: str) -> Callable[[Mapping[str, Any]], int]:
    """Read a Kubeflow job: the sum of its replicas, or of the least an elastic one runs with."""

    def read(spec: Mapping[str, Any]) -> int:
        counts = {
            role: _count(_map(it).get("replicas")) for role, it in _map(spec.get(key)).items()
        }
        elastic = _map(spec.get("elasticPolicy")).get("minReplicas")
        if elastic is not None:
            counts["Worker"] = _count(elastic, counts.get("Worker", 1))
        return _stated(spec) or sum(counts.values())

    return read


def _mpi(spec: Mapping[str, Any]) -> int:
    counts = {
        role: _count(_map(it).get("replicas"))
        for role, it in _map(spec.get("mpiReplicaSpecs")).items()
    }
    if spec.get("launcherCreationPolicy") == "WaitForWorkersReady":
        counts.pop("Launcher", None)  # it comes when the workers run
    return _stated(spec) or sum(counts.values())


def _job_set(spec: Mapping[str, Any]) -> int:
    if _map(spec.get("startupPolicy")).get("startupPolicyOrder") == "InOrder":
        return 1
    total = 0
    for replicated in _list(spec.get("replicatedJobs")):
        job = _map(_map(replicated.get("template")).get("spec"))
        total += _count(replicated.get("replicas")) * _count(job.get("parallelism"))
    return total


def _ray(spec: Mapping[str, Any]) -> int:
    """Count the head and the least that each group of workers runs with."""
    workers = _list(spec.get("workerGroupSpecs"))
    return 1 + sum(
        _count(it.get("minReplicas"), 0) * _count(it.get("numOfHosts")) for it in workers
    )


_READ: Final[Mapping[str, Callable[[Mapping[str, Any]], int]]] = {
    "PyTorchJob": _replicas("pytorchReplicaSpecs"),
    "TFJob": _replicas("tfReplicaSpecs"),
    "XGBoostJob": _replicas("xgbReplicaSpecs"),
    "JAXJob": _replicas("jaxReplicaSpecs"),
    "MPIJob": _mpi,
    "JobSet": _job_set,
    "RayCluster": _ray,
}
SIZED: Final = frozenset(_READ)
"""Kinds whose spec says how many pods must start together."""
