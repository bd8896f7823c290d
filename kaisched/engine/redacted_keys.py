"""Labels and annotations whose values redaction keeps or replaces."""

from __future__ import annotations

from typing import Final

from kaisched.objects import labels
from kaisched.objects.pod import BIND_COMPLETED, SELECTED_NODE

NUMBERS: Final = (
    labels.GPU_FRACTION,
    labels.GPU_MEMORY,
    labels.GPU_FRACTION_DEVICES,
    labels.PREEMPTION_DELAY,
    labels.STALENESS_GRACE_PERIOD,
    labels.TOPOLOGY_PATIENCE,
    labels.SEGMENT_SIZE,
    labels.POD_SET_SLICE_SIZE,
    labels.BATCH_MIN_MEMBER,
    labels.GROUP_SIZE,
    labels.LAST_START,
    labels.LAST_EVICTION,
    labels.STALE_SINCE,
)
"""Annotations with a number, an amount or a time."""
NAMES: Final = {
    labels.POD_GROUP: "job",
    labels.GPU_FRACTION_CONTAINER: "container",
    labels.GPU_CONFIG_MAP: "value",
    labels.FLAVOR_KEYS: "value",
    labels.TOPOLOGY: "value",
    labels.TOPOLOGY_REQUIRED: "key",
    labels.TOPOLOGY_PREFERRED: "key",
    labels.POD_SET_REQUIRED: "key",
    labels.POD_SET_PREFERRED: "key",
    labels.POD_SET_SLICE_LEVEL: "key",
    labels.POD_SET_GROUP: "value",
    labels.SEGMENT_REQUIRED: "key",
    labels.SEGMENT_PREFERRED: "key",
    SELECTED_NODE: "node",
    BIND_COMPLETED: "value",
}
"""Annotation to what its value names."""
LABELS: Final = {
    labels.QUEUE: "queue",
    labels.NODE_POOL: "pool",
    labels.QUEUE_PROJECT: "queue",
    labels.PRIORITY_CLASS: "class",
    labels.SUBGROUP: "subgroup",
    labels.TASK_PRIORITY: "value",
    labels.REPLICATED_JOB: "subgroup",
    labels.REPLICA_TYPE: "subgroup",
    labels.RAY_GROUP: "subgroup",
    labels.POD_GANG: "job",
    labels.POD_CLIQUE: "subgroup",
    labels.SPARK_APP: "job",
    labels.RAY_PRIORITY_CLASS: "class",
}
"""Label to what its value names."""
