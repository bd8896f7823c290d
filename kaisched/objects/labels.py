"""Labels, annotations and conditions that the scheduler reads, with a getter for each.

Keys are KAI-Scheduler's, unchanged. A getter returns None without the key, and raises an
ObjectError with the path of the key if the value is invalid.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, TypeVar

import msgspec

from kaisched.errors import ObjectError, join_path
from kaisched.objects.faults import did_you_mean
from kaisched.objects.wire import BAD_JSON, WORKLOAD_TYPES, ObjectMeta, TopologyConstraint
from kaisched.units import UnitError, parse_duration

# Labels.
QUEUE: Final = "kai.scheduler/queue"
DEFAULT_QUEUE: Final = "default-queue"
"""Queue of pods and groups without a label."""
NODE_POOL: Final = "kai.scheduler/node-pool"
PRIORITY_CLASS: Final = "priorityClassName"
PREEMPTIBILITY: Final = "kai.scheduler/preemptibility"
SUBGROUP: Final = "kai.scheduler/subgroup-name"
TASK_PRIORITY: Final = "kai.scheduler/task-priority"
PROJECT: Final = "project"
"""Older name of the queue label; read if QUEUE is absent."""

# Labels of the pods of workloads, written by their controllers.
REPLICATED_JOB: Final = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_INDEX: Final = "jobset.sigs.k8s.io/job-index"
GROUP_INDEX: Final = "leaderworkerset.sigs.k8s.io/group-index"
WORKER_INDEX: Final = "leaderworkerset.sigs.k8s.io/worker-index"
REPLICA_TYPE: Final = "training.kubeflow.org/replica-type"
REPLICA_INDEX: Final = "training.kubeflow.org/replica-index"
JOB_ROLE: Final = "training.kubeflow.org/job-role"
POD_GANG: Final = "grove.io/podgang"
POD_CLIQUE: Final = "grove.io/podclique"
RAY_GROUP: Final = "ray.io/group"
RAY_PRIORITY_CLASS: Final = "ray.io/priority-class-name"
SPARK_APP: Final = "spark-app-selector"
SPARK_ROLE: Final = "spark-role"
VOLCANO_TASK: Final = "volcano.sh/task-spec"

_RUNAI, _LOOKUP = "runai", "shared-gpu-configmap"

# Annotations.
GROUP_SIZE: Final = "leaderworkerset.sigs.k8s.io/size"
POD_GROUP: Final = "pod-group-name"
GPU_FRACTION: Final = "gpu-fraction"
GPU_MEMORY: Final = "gpu-memory"
GPU_FRACTION_DEVICES: Final = "gpu-fraction-num-devices"
GPU_FRACTION_CONTAINER: Final = "gpu-fraction-container-name"
GPU_GROUPS: Final = "kaisched.io/gpu-groups"
"""The groups of the cards that a bound pod shares, separated by commas."""
GPU_PORTION: Final = "kaisched.io/gpu-portion"
"""The part of each GPU that a bound pod has, if it asked for a part."""
GPU_LIMIT: Final = "kaisched.io/gpu-memory-mib"
"""The MiB of each GPU that a bound pod may use; not written where the size is unknown."""
RECEIVED_TYPE: Final = "received-resource-type"
"""How a bound pod has its GPU; KAI-Scheduler writes it too."""
GPU_UUIDS: Final = "kaisched.io/gpu-uuids"
"""The UUIDs of the GPUs of these groups, in the same order."""
GPU_GROUP: Final = "runai-gpu-group"
"""A label of KAI-Scheduler's pods: the group of a card. With several cards the key is
``runai-gpu-group/<group>`` for each."""
GPU_CONFIG_MAP: Final = f"{_RUNAI}/{_LOOKUP}"
"""On pods that KAI-Scheduler's webhook has changed: where their containers look up their GPU."""
KAI_SCHEDULER: Final = "kai-scheduler"
"""What pods of KAI-Scheduler name as their scheduler."""
RESERVATION: Final = "kai-resource-reservation"
"""Namespace, and label ``app``, of the pods that hold shared GPUs for KAI-Scheduler."""
PREEMPTION_DELAY: Final = "kai.scheduler/preemption-delay"
STALENESS_GRACE_PERIOD: Final = "kai.scheduler/staleness-grace-period"
TOPOLOGY: Final = "kai.scheduler/topology"
TOPOLOGY_REQUIRED: Final = "kai.scheduler/topology-required-placement"
TOPOLOGY_PREFERRED: Final = "kai.scheduler/topology-preferred-placement"
TOPOLOGY_PATIENCE: Final = "kaisched.io/topology-patience"
POD_SET_REQUIRED: Final = "kueue.x-k8s.io/podset-required-topology"
POD_SET_PREFERRED: Final = "kueue.x-k8s.io/podset-preferred-topology"
POD_SET_UNCONSTRAINED: Final = "kueue.x-k8s.io/podset-unconstrained-topology"
POD_SET_SLICE_LEVEL: Final = "kueue.x-k8s.io/podset-slice-required-topology"
POD_SET_SLICE_SIZE: Final = "kueue.x-k8s.io/podset-slice-size"
POD_SET_SLICES: Final = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
POD_SET_GROUP: Final = "kueue.x-k8s.io/podset-group-name"
SEGMENT_SIZE: Final = "kai.scheduler/segment-size"
SEGMENT_REQUIRED: Final = "kai.scheduler/segment-topology-required-placement"
SEGMENT_PREFERRED: Final = "kai.scheduler/segment-topology-preferred-placement"
BATCH_MIN_MEMBER: Final = "kai.scheduler/batch-min-member"
SKIP_GROUPING: Final = "kai.scheduler/skip-podgrouper"
FLAVOR_KEYS: Final = "kaisched.io/flavor-keys"
"""The keys that a flavor of Kueue adds to the node selector of a pod, with commas."""
NODE_POOLS: Final = "kaisched.io/node-pools"
"""Names of node pools with commas, the one to try first in front."""
NODE_TYPE: Final = "kaisched.io/node-type"
"""Types of nodes with commas, any of which will do: values of the nodes' label ``run.ai/type``."""
INDEPENDENT_PODS: Final = "kaisched.io/independent-pods"
"""``"true"``: each pod of the workload is a job of its own."""
QUEUE_PROJECT: Final = "kaisched.io/project"
"""A label of queues: the project of which this is the queue in its node pool."""
MADE_UP: Final = "kaisched.io/made-up"
"""A label of queues without an object: how a project takes part in a pool without a queue there."""
DEFAULT_POOL: Final = "default"
"""Name of the pool of nodes without the label."""
RUN_SECONDS: Final = "kaisched.io/run-seconds"
"""So long a pod runs, from its start, as its owner declares: what forecasts go by, and what pods of
a cluster without real kubelets do, which run for ever without it."""

USER: Final = "kaisched.io/user"
"""Who submitted a workload: for people, nothing is decided by it."""
_OTHER_USERS: Final = ("user", "hub.jupyter.org/username")
"""The same as a label or an annotation, of KAI-Scheduler and Run:ai, and of JupyterHub."""
_YUNIKORN_USER: Final = "yunikorn.apache.org/user.info"
"""The same as JSON with a field ``user``."""
WORKLOAD_TYPE: Final = "kaisched.io/workload-type"
"""``training``, ``interactive`` or ``inference``, where the priority class does not say."""

# Annotations that a scheduler writes on pod groups; RFC 3339 times.
LAST_START: Final = "kai.scheduler/last-start-timestamp"
LAST_EVICTION: Final = "kai.scheduler/last-eviction-timestamp"
STALE_SINCE: Final = "kai.scheduler/stale-podgroup-timestamp"
GANG_STALE: Final = "kaisched.io/GangStale"
"""Type of a pod's condition that says since when its job runs below its minimum."""

PREEMPTIBLE: Final = "preemptible"
NON_PREEMPTIBLE: Final = "non-preemptible"

_T = TypeVar("_T")
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)
_MAX_COUNT: Final = (1 << 31) - 1
LABEL_KEY: Final = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?",
    re.ASCII,
)
LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?)?", re.ASCII)
_POOLS_FIX: Final = 'write names with commas, such as "h100, a100, default"'


def time_of(text: str) -> float:
    """Return an RFC 3339 time as seconds since 1970, UTC.

    Raises:
        UnitError: the text is no such time.

    """
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        return time.timestamp()
    except (ValueError, OverflowError):
        fix = 'write it like "2026-07-01T12:00:00Z"'
        raise UnitError(f"{text[:40]!r} is no RFC 3339 time", fix) from None


def format_time(seconds: float) -> str:
    """Return seconds since 1970 as an RFC 3339 time in UTC, to the microsecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def queue_of(meta: ObjectMeta) -> str | None:
    """Return the queue, by its label, or else by the older label with the node pool appended."""
    queue = meta.labels.get(QUEUE)
    if queue is not None:
        return queue
    project = meta.labels.get(PROJECT)
    pool = meta.labels.get(NODE_POOL)
    return f"{project}-{pool}" if project and pool else project


_MOST_USER: Final = 253


def user_of(metas: Iterable[ObjectMeta]) -> str:
    """Return who submitted a workload, as the first of its objects says that does; or nothing."""
    return next(filter(None, map(_user, metas)), "")


def _user(meta: ObjectMeta) -> str:
    notes, marks = meta.annotations, meta.labels
    found = notes.get(USER, "")
    for key in _OTHER_USERS:
        found = found or notes.get(key, "") or marks.get(key, "")
    if not found and _YUNIKORN_USER in notes:
        with suppress(*BAD_JSON):
            found = msgspec.json.decode(notes[_YUNIKORN_USER], type=_UserInfo).user
    is_name = len(found) <= _MOST_USER and found.isprintable()
    return found if is_name else ""


class _UserInfo(msgspec.Struct):
    user: str = ""


def node_pool_of(meta: ObjectMeta) -> str:
    """Return the node pool; empty for the pool of objects without the label."""
    return meta.labels.get(NODE_POOL, "")


def pool_named(name: str) -> str:
    """Return the label value of a pool, by the name that people write."""
    return "" if name == DEFAULT_POOL else name


def pool_name(value: str) -> str:
    """Return the name of a pool, by its label value."""
    return value or DEFAULT_POOL


def node_pools_of(meta: ObjectMeta) -> tuple[str, ...] | None:
    """Return the node pools that a workload lists, as label values, in its order."""
    return _annotation(meta, NODE_POOLS, _pools)


def node_types_of(meta: ObjectMeta) -> tuple[str, ...] | None:
    """Return the types of nodes that a workload asks for, each once and in order."""
    return _annotation(meta, NODE_TYPE, _types)


def has_independent_pods(meta: ObjectMeta) -> bool:
    """Tell whether the pods of a workload are scheduled one by one, each for itself."""
    return meta.annotations.get(INDEPENDENT_PODS) == "true"


def preemptibility_of(meta: ObjectMeta) -> str | None:
    """Return ``preemptible`` or ``non-preemptible``."""
    return _label(meta, PREEMPTIBILITY, _preemptibility)


def workload_type_of(meta: ObjectMeta) -> str | None:
    """Return what kind of work a job is: ``training``, ``interactive`` or ``inference``."""
    return _label(meta, WORKLOAD_TYPE, _workload_type)


def subgroup_of(meta: ObjectMeta) -> str | None:
    """Return the subgroup of a pod within its group."""
    return meta.labels.get(SUBGROUP)


def task_priority_of(meta: ObjectMeta) -> int | None:
    """Return the pod's priority within its job; higher is placed first."""
    return _label(meta, TASK_PRIORITY, _whole)


def gpu_groups_of(meta: ObjectMeta) -> tuple[str, ...]:
    """Return the groups of cards that a pod names; whoever may write the pod may write any."""
    noted = meta.annotations.get(GPU_GROUPS)
    if noted is not None:
        return tuple(dict.fromkeys(filter(None, noted.split(","))))
    found = [key.partition("/")[2] for key in meta.labels if key.startswith(f"{GPU_GROUP}/")]
    plain = meta.labels.get(GPU_GROUP)
    return tuple(sorted({*found, *([plain] if plain else [])}))


def gpus_of(meta: ObjectMeta) -> tuple[str, ...]:
    """Return the UUIDs of the GPUs that a pod shares, as far as its object says."""
    return tuple(filter(None, meta.annotations.get(GPU_UUIDS, "").split(",")))


def is_reservation(meta: ObjectMeta) -> bool:
    """Tell whether a pod holds a GPU for pods that share it."""
    return meta.namespace == RESERVATION and meta.labels.get("app") == RESERVATION


def pod_group_of(meta: ObjectMeta) -> str | None:
    """Return the name of the group that the pod names, in the pod's own namespace."""
    return meta.annotations.get(POD_GROUP)


def topology_constraint_of(meta: ObjectMeta) -> TopologyConstraint | None:
    """Return the topology constraint of a workload."""
    notes = meta.annotations
    required, preferred = notes.get(TOPOLOGY_REQUIRED, ""), notes.get(TOPOLOGY_PREFERRED, "")
    if not (notes.get(TOPOLOGY) or required or preferred):
        return None
    return TopologyConstraint(
        topology=notes.get(TOPOLOGY, ""),
        required_topology_level=required,
        preferred_topology_level=preferred,
    )


def flavor_keys_of(meta: ObjectMeta) -> tuple[str, ...]:
    """Return the keys of a pod's node selector that a flavor has added."""
    text = meta.annotations.get(FLAVOR_KEYS, "")
    return tuple(text.split(",")) if text else ()


def batch_min_member_of(meta: ObjectMeta) -> int | None:
    """Return how many pods of a Job must start together."""
    return _annotation(meta, BATCH_MIN_MEMBER, _positive)


def size_of(meta: ObjectMeta, key: str) -> int | None:
    """Return how many pods start together, by an annotation of the pod's workload."""
    return _annotation(meta, key, _positive)


def index_of(meta: ObjectMeta, key: str) -> int | None:
    """Return the number of a group of pods, from 0, by a label."""
    return _label(meta, key, _index)


def preemption_delay_of(meta: ObjectMeta) -> float | None:
    """Return the seconds a job waits before it may cause evictions."""
    return _annotation(meta, PREEMPTION_DELAY, parse_duration)


def topology_patience_of(meta: ObjectMeta) -> float | None:
    """Return the seconds for which the preferred level of a job counts as required."""
    return _annotation(meta, TOPOLOGY_PATIENCE, parse_duration)


def staleness_grace_of(meta: ObjectMeta) -> float | None:
    """Return the seconds a job may run below its minimum; negative for ever."""
    return _annotation(
        meta, STALENESS_GRACE_PERIOD, lambda text: parse_duration(text, allow_negative=True)
    )


def last_start_of(meta: ObjectMeta) -> float | None:
    """Return when the job last started, in seconds since 1970."""
    return _annotation(meta, LAST_START, time_of)


def last_eviction_of(meta: ObjectMeta) -> float | None:
    """Return when the job was last evicted, in seconds since 1970."""
    return _annotation(meta, LAST_EVICTION, time_of)


def stale_since_of(meta: ObjectMeta) -> float | None:
    """Return since when the job runs below its minimum, in seconds since 1970."""
    return _annotation(meta, STALE_SINCE, time_of)


def is_grouping_skipped(meta: ObjectMeta) -> bool:
    """Tell whether the workload asks to be left out of automatic grouping."""
    return SKIP_GROUPING in meta.annotations or SKIP_GROUPING in meta.labels


def _label(meta: ObjectMeta, key: str, parse: Callable[[str], _T]) -> _T | None:
    return _parsed("labels", meta.labels, key, parse)


def _annotation(meta: ObjectMeta, key: str, parse: Callable[[str], _T]) -> _T | None:
    return _parsed("annotations", meta.annotations, key, parse)


def _parsed(place: str, pairs: dict[str, str], key: str, parse: Callable[[str], _T]) -> _T | None:
    text = pairs.get(key)
    if text is None:
        return None
    try:
        return parse(text)
    except UnitError as error:
        path = join_path("metadata", place, key)
        raise ObjectError(str(error), path=path, fix=error.fix) from None


def _whole(text: str) -> int:
    if not _WHOLE.fullmatch(text) or abs(int(text)) > _MAX_COUNT:
        raise UnitError(f"{text[:40]!r} is no whole number", 'write a whole number, such as "10"')
    return int(text)


def _workload_type(text: str) -> str:
    if text not in WORKLOAD_TYPES:
        raise UnitError(f"{text[:40]!r} is no type of workload", did_you_mean(text, WORKLOAD_TYPES))
    return text


def _positive(text: str) -> int:
    if (number := _whole(text)) < 1:
        raise UnitError(f"{text[:40]!r} is less than 1", 'write a whole number, such as "10"')
    return number


def _index(text: str) -> int:
    if (number := _whole(text)) < 0:
        raise UnitError(f"{text[:40]!r} is less than 0", 'write a whole number, such as "0"')
    return number


@lru_cache(1000)
def _pools(text: str) -> tuple[str, ...]:
    names = [name.strip() for name in text.split(",")]
    if wrong := next((name for name in names if not LABEL_VALUE.fullmatch(name)), None):
        raise UnitError(f"{wrong[:40]!r} is no name of a node pool", _POOLS_FIX)
    if "" in names:
        raise UnitError(f"{text[:40]!r} names an empty node pool", _POOLS_FIX)
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UnitError(f"{twice[:40]!r} is listed twice", "keep one of the two")
    return tuple(pool_named(name) for name in names)


def _types(text: str) -> tuple[str, ...]:
    names = {name.strip() for name in text.split(",")}
    for name in sorted(names):
        if not name or not LABEL_VALUE.fullmatch(name):
            fix = "write values of the nodes' label run.ai/type, such as v100,a100"
            raise UnitError(f"{name[:40]!r} is no type of nodes", fix)
    return tuple(sorted(names))


def _preemptibility(text: str) -> str:
    if text not in (PREEMPTIBLE, NON_PREEMPTIBLE):
        fix = f"write {PREEMPTIBLE} or {NON_PREEMPTIBLE}"
        raise UnitError(f"{text[:40]!r} is no preemptibility", fix)
    return text


IN_POOL: Final = "kaisched.io/InNodePool"
"""Type of the condition."""
_MOVES: Final = re.compile(r"[0-9]{1,10}", re.ASCII)


def pool_condition_text(pool: str, moves: int) -> str:
    """Return the message of the condition."""
    return f"{pool_name(pool)} {moves}"


def pool_condition_of(text: str) -> tuple[str, int] | None:
    """Return pool and number of moves by the message; None if it has not both."""
    name, _, moves = text.partition(" ")
    if not name or not _MOVES.fullmatch(moves):
        return None
    return pool_named(name), int(moves)
