"""Parts of the CRD schemas that struct types do not give: descriptions, bounds, rules in CEL.

Each rule repeats a check of ``quotas``, ``group_faults``, ``shard_faults`` or ``topology_faults``
as far as a schema can. The scheduler checks everything again, since objects may be older than the
schema. Checks that compare all subgroups with each other are the scheduler's alone: a server
refuses such costly rules.
"""

from __future__ import annotations

from typing import Final

from kaisched.objects.crd_affinity import AFFINITY_RULES
from kaisched.objects.crd_parts import LABEL_KEY, cel, rules, says
from kaisched.objects.crd_schema import QUANTITY, Rules, Schema, duration_schema, gap
from kaisched.objects.crd_sharing import SHARING_RULES
from kaisched.objects.faults import INT32_MAX
from kaisched.objects.kai_names import known_actions
from kaisched.objects.labels import NON_PREEMPTIBLE, PREEMPTIBLE
from kaisched.objects.podgroup import PodGroupSpec, SubGroupSpec, TopologyConstraint
from kaisched.objects.queue import (
    BorrowWithinCohort,
    MaxRunTime,
    QueueAdmissionScope,
    QueueFairSharing,
    QueuePreemption,
    QueueResource,
    QueueSpec,
)
from kaisched.objects.quotas import MAX_WEIGHT, MIN_WEIGHT, OTHER_NAMES, OWN_NAMES, WEIGHT_NAMES
from kaisched.objects.shard import (
    GPU_RESOURCES,
    ActionEntry,
    GpuSharing,
    PluginEntry,
    ShardSpec,
)
from kaisched.objects.shard_faults import MAX_K
from kaisched.objects.topology import TopologyLevel, TopologySpec
from kaisched.objects.topology_faults import MAX_LEVELS
from kaisched.objects.usage import USAGE_STORES, UsageConfig, UsageExtraParams, UsageParams
from kaisched.units import MAX_CHARS, MAX_QUOTA

_MAX_SUBGROUPS: Final = 10_000
_MAX_EXPRESSION: Final = 4096
_ANY_INT32: Final[Schema] = {"format": "int32", "minimum": -INT32_MAX, "maximum": INT32_MAX}


def _count(least: int, text: str) -> Schema:
    return says(text, format="int32", minimum=least, maximum=INT32_MAX)


def _listed(*names: str) -> str:
    return f"[{', '.join(repr(name) for name in names)}]"


def _both(first: str, second: str) -> dict[str, str]:
    return cel(f"!(has(self.{first}) && has(self.{second}))", f"{first} or {second}, not both")


def _amount(text: str) -> Schema:
    return says(text, minimum=-1, maximum=MAX_QUOTA, **gap(-1, 0))


def _weight(text: str, pattern: str) -> Schema:
    """Return the part of the schema of a weight, which may be written as a text."""
    return says(text, minimum=0, maximum=int(MAX_WEIGHT), pattern=pattern, **gap(0, MIN_WEIGHT))


_RESOURCE_NAMES: Final = rules(
    cel(
        f"self.all(name, name in {_listed(*OWN_NAMES, *OTHER_NAMES)}"
        " || name.startsWith('hugepages-') || name.contains('/'))",
        "resources are gpu, cpu, memory or an extended resource name such as example.com/licence",
    ),
    cel(
        f"!self.exists(name, name in {_listed(*GPU_RESOURCES)})",
        "GPUs of all vendors are counted together: write gpu",
    ),
)
_ACTIONS: Final = rules(
    cel(
        f"self.all(name, name in {_listed(*known_actions())})",
        f"actions are {', '.join(known_actions())}",
    )
)
_LEVEL_NEEDS: Final = (
    "has(self.topology) && self.topology != ''",
    (
        "(has(self.requiredTopologyLevel) && self.requiredTopologyLevel != '')"
        " || (has(self.preferredTopologyLevel) && self.preferredTopologyLevel != '')"
    ),
)

QUEUE_RULES: Final[Rules] = {
    QueueSpec: {
        "display_name": says("A name for people."),
        "parent_queue": says("The queue above; empty for a top-level queue.", maxLength=253),
        "resources": says(
            "By gpu (in GPUs), cpu (in millicores), memory (in megabytes of 10^6 bytes) or an"
            " extended resource name (in pieces).",
            maxProperties=16,
            **_RESOURCE_NAMES,
        ),
        "priority": says("Higher goes first.", **_ANY_INT32),
        "preempt_min_runtime": says("How long a started job is safe from preemption."),
        "reclaim_min_runtime": says("How long a started job is safe from reclaim."),
        "fair_sharing": says("How much it counts among its siblings where the policy lends."),
        "preemption": says("From whom its work may take where the policy lends."),
        "admission_scope": says("The order of the queues below where the policy lends."),
        "node_pools": says(
            "Node pools for jobs that list none, the first to be tried in front; default: nodes"
            " without the label.",
            maxItems=64,
            items={"type": "string", "minLength": 1, "maxLength": 63},
        ),
        "node_affinity": says(
            "Where jobs of this queue and of all below may be placed, by type of workload; every"
            " entry that fits a job must hold. What runs already stays.",
            maxItems=16,
        ),
        "max_run_time": says(
            "How long jobs of this queue and of all below may run at a stretch, by type of"
            " workload; the shortest time that fits a job counts.",
            maxItems=16,
        ),
        "stop_policy": says(
            "For this queue and all below: Hold starts nothing new, HoldAndDrain also evicts what"
            " runs."
        ),
    },
    MaxRunTime: {
        "workloads": says("Types of workload that it is about; all if left out."),
        "time": says("A duration, longer than 0."),
        "non_preemptible": says("Whether it also holds for jobs that are not preemptible."),
    },
    **AFFINITY_RULES,
    QueueResource: {
        "quota": _amount("What the queue deserves; -1 is unlimited."),
        "limit": _amount("What it may never exceed; -1 is unlimited."),
        "over_quota_weight": _weight(
            "Its weight for surplus: a number of at least 0, or None, Low, Medium or High.",
            f"^({'|'.join(WEIGHT_NAMES)})$",
        ),
        "borrowing_limit": _amount("The most beyond its quota where the policy lends; -1 any."),
        "lending_limit": _amount("The most of its quota that others may have; -1 is all of it."),
    },
    QueueFairSharing: {
        "weight": {
            **_weight(
                "A number of at least 0 or its text, or None, Low, Medium or High.",
                f"^({'|'.join(WEIGHT_NAMES)})$|{QUANTITY}",
            ),
            "maxLength": MAX_CHARS,
        },
        "enabled": says(
            "At a top-level queue, for its tree: False takes by quota and priority, not by share."
        ),
    },
    QueuePreemption: {
        "within_cluster_queue": says("From work of the same queue."),
        "reclaim_within_cohort": says("From work of other queues of its tree."),
        "borrow_within_cohort": says("Likewise while it borrows, in a tree without fair sharing."),
    },
    BorrowWithinCohort: {
        "policy": says("LowerPriority: from work of lower priority."),
        "max_priority_threshold": says("The highest priority that may go.", **_ANY_INT32),
    },
    QueueAdmissionScope: {
        "admission_mode": says(
            "UsageBasedAdmissionFairSharing: the queues below share its quota, and the one that has"
            " used least lately for its weight goes first."
        ),
    },
}
GROUP_RULES: Final[Rules] = {
    PodGroupSpec: {
        "": rules(
            _both("minMember", "minSubGroup"),
            cel(
                "!has(self.minSubGroup) || (has(self.subGroups) && size(self.subGroups) > 0)",
                "there are no subgroups to count: write minMember, or list subGroups",
            ),
        ),
        "min_member": _count(1, "Pods that must start together; 1 if left out."),
        "min_sub_group": _count(1, "Top-level subgroups that must start; all if left out."),
        "queue": says("A queue without children.", maxLength=253),
        "priority_class_name": says("Name of a PriorityClass.", maxLength=253),
        "preemptibility": says(
            "Empty: preemptible if the priority is below 100.",
            enum=["", PREEMPTIBLE, NON_PREEMPTIBLE],
        ),
        "sub_groups": {
            "maxItems": _MAX_SUBGROUPS,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        "mark_unschedulable": says("Write the condition PodScheduled on pods that wait."),
        "scheduling_backoff": says(
            "-1 or 1, for KAI-Scheduler; without effect here: what waits is tried again.",
            format="int32",
            enum=[-1, 1],
        ),
        "preemption_delay": says("Wait before it may cause evictions."),
        "staleness_grace_period": says(
            "How long it may run below its minimum; negative for ever.",
            **duration_schema(may_be_negative=True),
        ),
    },
    SubGroupSpec: {
        "": rules(_both("minMember", "minSubGroup")),
        "name": says(
            "A DNS label.",
            minLength=1,
            maxLength=63,
            pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        ),
        "parent": says("The subgroup around it; empty at the top.", maxLength=63),
        "min_member": _count(0, "Pods of it that the job needs; only without subgroups in it."),
        "min_sub_group": _count(1, "Subgroups in it that the job needs; all if left out."),
    },
    TopologyConstraint: {
        "": rules(
            cel(f"({_LEVEL_NEEDS[0]}) == ({_LEVEL_NEEDS[1]})", "name a topology and a level of it")
        ),
        "topology": {"maxLength": 253},
        "required_topology_level": {"maxLength": 316},
        "preferred_topology_level": {"maxLength": 316},
    },
}
SHARD_RULES: Final[Rules] = {
    ShardSpec: {
        "": rules(
            cel(
                "!has(self.gpuSharing) || !has(self.gpuSharing.deviceClass)"
                " || self.gpuSharing.deviceClass == ''"
                " || (has(self.resourceClaims) && self.resourceClaims)",
                "gpuSharing.deviceClass needs resourceClaims: true",
            )
        ),
        "partition_label_value": says(
            "Value of the node-pool label; empty for all that has no such label.",
            maxLength=63,
            pattern="^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$",
        ),
        "queue_depth_per_action": says(
            "The most jobs of a queue that an action tries.",
            maxProperties=16,
            additionalProperties={
                "type": "integer",
                "format": "int32",
                "minimum": 1,
                "maximum": INT32_MAX,
            },
            **_ACTIONS,
        ),
        "evictions_per_hour": says(
            "The most pods that are evicted in any hour; 0 for none ever.",
            minimum=0,
            maximum=INT32_MAX,
        ),
        "max_evictions_per_cycle": says(
            "After so many evictions a cycle begins no further one; the next goes on at once.",
            minimum=1,
            maximum=INT32_MAX,
        ),
        "admits_all_projects": says("Whether projects without a queue here may use idle room."),
        "pool_dwell": says("How long a job with a list of pools waits here first; 10s."),
        "pool_patience": says("How much longer it waits here until it may evict here; 0s."),
        "pool_order": says("idleFirst: no evictions before a job was refused in all its pools."),
        "owner_wait": says("How long a pod waits for an owner that cannot be read yet."),
        "resource_claims": says("Whether claims on devices are read and allocated."),
        "k_value": says("Strength of time-based fairness.", minimum=0, maximum=int(MAX_K)),
        "plugins": says("By name; a higher priority comes first.", maxProperties=128),
        "actions": says("By name; a higher priority comes first.", maxProperties=16, **_ACTIONS),
        "gpu_sharing": says("Lets pods share GPUs; without it, pods that ask for a share wait."),
        "gpu_resources": says(
            "Resource names that count whole GPUs.",
            minItems=1,
            items={
                "type": "string",
                "maxLength": 317,
                "pattern": r"^[a-z0-9][-a-z0-9.]*/[A-Za-z0-9][-A-Za-z0-9_.]*$",
            },
            **{"x-kubernetes-list-type": "set"},
        ),
    },
    PluginEntry: {
        "weight": says("Factor of its scores.", minimum=0),
        "priority": _ANY_INT32,
        "arguments": says("Replaces the default arguments as a whole."),
    },
    ActionEntry: {"priority": _ANY_INT32},
    GpuSharing: SHARING_RULES,
    UsageConfig: {
        "": rules(
            cel(
                "!(has(self.connectionString) && self.connectionString != ''"
                " && has(self.connectionStringEnvVar) && self.connectionStringEnvVar != '')",
                "connectionString or connectionStringEnvVar, not both",
            ),
            cel(
                "!(has(self.extraParams) && has(self.usageParams)"
                " && has(self.usageParams.extraParams))",
                "extraParams or usageParams.extraParams, not both",
            ),
        ),
        "client_type": {"enum": ["", *USAGE_STORES]},
        "connection_string": {"maxLength": _MAX_EXPRESSION},
        "connection_string_env_var": {"pattern": "^([A-Za-z_][A-Za-z0-9_]*)?$"},
    },
    UsageExtraParams: {
        "": rules(
            cel(
                "!(has(self.caFile) && self.caFile != ''"
                " && has(self.insecureSkipVerify) && self.insecureSkipVerify)",
                "caFile or insecureSkipVerify, not both",
            )
        ),
        **{
            name: {"minLength": 1, "maxLength": _MAX_EXPRESSION}
            for name in UsageExtraParams.__struct_fields__
            if name.endswith("_metric")
        },
    },
    UsageParams: {
        "": rules(
            cel(
                "!has(self.windowType) || self.windowType != 'tumbling'"
                " || has(self.tumblingWindowStartTime)",
                "a tumbling window needs tumblingWindowStartTime",
            ),
            cel(
                "!has(self.windowType) || self.windowType != 'cron'"
                " || (has(self.cronString) && self.cronString != '')",
                "a cron window needs cronString",
            ),
        ),
    },
}
TOPOLOGY_RULES: Final[Rules] = {
    TopologySpec: {
        "levels": says(
            "The outermost first.",
            minItems=1,
            maxItems=MAX_LEVELS,
            **rules(
                cel(
                    "self.all(one, self.exists_one(other, other.nodeLabel == one.nodeLabel))",
                    "give each level its own label",
                ),
                cel(
                    "self.filter(one, one.nodeLabel == 'kubernetes.io/hostname').size() == 0"
                    " || self[self.size() - 1].nodeLabel == 'kubernetes.io/hostname'",
                    "a host holds no other level: make it the last",
                ),
                cel(
                    "self.all(one, !has(one.alias) || one.alias == '' || !self.exists(other,"
                    " other.nodeLabel == one.alias))"
                    " && self.all(one, !has(one.alias) || one.alias == ''"
                    " || self.exists_one(other, has(other.alias) && other.alias == one.alias))",
                    "give each level an alias of its own, which is no node label here",
                ),
                cel(
                    "self.map(level, level.nodeLabel) == oldSelf.map(level, level.nodeLabel)",
                    "levels cannot be changed: make another Topology",
                ),
            ),
        ),
    },
    TopologyLevel: {
        "node_label": says(
            "Nodes with the same value of this label are together.",
            minLength=1,
            maxLength=316,
            pattern=LABEL_KEY,
        ),
        "alias": says("Another name of the level.", maxLength=316),
    },
}
