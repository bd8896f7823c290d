"""The CustomResourceDefinitions of our own kinds, made from their structs.

A schema follows its struct field by field; the rules add what types do not say: descriptions,
bounds, rules in CEL. Each repeats a check of the kind as far as a schema can. The scheduler checks
everything again, since objects may be older than the schema. Checks that compare all subgroups with
each other are the scheduler's alone: a server refuses such costly rules. A schema accepts all that
the decoder accepts, except absurdly long texts, lists and maps: a server computes the cost of a
rule from these bounds.

Group, version, plural and scope are KAI-Scheduler's, so that its objects and tools need not change.
A schema has no defaults: a server would write them into stored objects, and a scheduler of an older
version refuses a key that it does not know.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from kaisched.objects.faults import INT32_MAX
from kaisched.objects.labels import LABEL_KEY, LABEL_VALUE, NON_PREEMPTIBLE, PREEMPTIBLE
from kaisched.objects.node import MAX_LEVELS, Topology, TopologyLevel, TopologySpec
from kaisched.objects.podgroup import DNS_LABEL, PodGroup, PodGroupSpec, SubGroupSpec
from kaisched.objects.queue import (
    MAX_WEIGHT,
    MIN_WEIGHT,
    OTHER_NAMES,
    OWN_NAMES,
    WEIGHT_NAMES,
    BorrowWithinCohort,
    MaxRunTime,
    NodeAffinityTerm,
    NodeLabelRequirement,
    Queue,
    QueueAdmissionScope,
    QueueFairSharing,
    QueueNodeAffinity,
    QueuePreemption,
    QueueResource,
    QueueSpec,
)
from kaisched.objects.shard import (
    BUDGETS,
    CLASS_NAME,
    GPU_RESOURCES,
    MAX_K,
    RESOURCE_NAME,
    ActionEntry,
    GpuSharing,
    PluginEntry,
    SchedulingShard,
    ShardSpec,
    known_actions,
)
from kaisched.objects.usage import (
    USAGE_STORES,
    VARIABLE,
    UsageConfig,
    UsageExtraParams,
    UsageParams,
)
from kaisched.objects.wire import KubernetesObject, TopologyConstraint
from kaisched.objects.workloads import (
    GROUP_VERSION,
    KIND,
    MOST_ROLES,
    MOST_SUBGROUPS,
    PLURAL,
    SPEC_PATH,
    WorkloadKind,
    WorkloadRole,
)
from kaisched.units import MAX_CHARS, MAX_QUOTA

# -- schemas of structs ----------------------------------------------------------------------------

Schema: TypeAlias = dict[str, Any]
Rules: TypeAlias = Mapping[type, Mapping[str, Schema]]
"""Additions to the schema of a field, by struct and field name; the empty name means the struct's
own schema."""

MAX_TEXT: Final = 1024
MAX_ENTRIES: Final = 64
MAX_ITEMS: Final = 64

_NUMBER: Final = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"
QUANTITY: Final = rf"^([+]?{_NUMBER}|-(0+(\.0*)?|\.0+))([eE][-+]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?$"
"""A text that the parser of amounts reads; below zero there is none."""
_UNITS: Final = ("y", "w", "d", "h", "m", "s", "ms", "(us|µs|\u03bcs)", "ns")
_STEPS: Final = "".join(f"({_NUMBER}{unit})?" for unit in _UNITS)


def gap(below: float, above: float) -> Schema:
    """Return the part of a schema that refuses the numbers between two; texts pass."""
    return {"anyOf": [{"maximum": below}, at_least(above)]}


def at_least(bound: float) -> Schema:
    """Return the part of a schema that sets the least number, written with a point or whole.

    Programs in Go write 1e-9 as 1e-09, and readers of YAML 1.1 take that as a text. "More than the
    number just below 1e-9" is the same bound, and its many digits have a point in every form.
    """
    if float(bound).is_integer():
        return {"minimum": int(bound)}
    return {"minimum": math.nextafter(bound, -math.inf), "exclusiveMinimum": True}


def duration_schema(*, may_be_negative: bool = False) -> Schema:
    """Return the schema of a duration: units in falling order, or a 0 without one."""
    sign = "[-+]?" if may_be_negative else "[+]?"
    return {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
        "minimum": 0,
        "maximum": 0,
        "minLength": 1,
        "maxLength": 80,
        "pattern": f"^(0|{sign}{_STEPS})$",
    }


def struct_schema(type_: type, rules: Rules) -> Schema:
    """Return the schema of a struct.

    Args:
        type_: a msgspec struct.
        rules: additions to the schemas of the struct and the structs inside it.

    Raises:
        TypeError: a field's type has no structural schema.

    """
    return _schema(msgspec.inspect.type_info(type_), rules)


def _schema(info: Any, rules: Rules) -> Schema:
    plain = _PLAIN.get(type(info))
    if plain is not None:
        return dict(plain)
    make = _MADE.get(type(info))
    if make is None:
        raise TypeError(f"no structural schema for {info}")
    return make(info, rules)


def _literal(info: Any, _: Rules) -> Schema:
    return {"type": "string", "enum": list(info.values)}


def _list(info: Any, rules: Rules) -> Schema:
    return {"type": "array", "maxItems": MAX_ITEMS, "items": _schema(info.item_type, rules)}


def _map(info: Any, rules: Rules) -> Schema:
    if isinstance(info.value_type, msgspec.inspect.AnyType):
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    entry = _schema(info.value_type, rules)
    return {"type": "object", "maxProperties": MAX_ENTRIES, "additionalProperties": entry}


def _union(info: Any, rules: Rules) -> Schema:
    """Return the schema of a union; None is dropped, since an absent field equals a null."""
    inspect = msgspec.inspect
    kinds = [it for it in info.types if not isinstance(it, inspect.NoneType)]
    if len(kinds) == 1:
        return _schema(kinds[0], rules)
    types = {type(it) for it in kinds}
    if types == {inspect.IntType, inspect.FloatType}:
        return {"type": "number"}
    if types == {inspect.IntType, inspect.StrType}:
        return duration_schema()
    if types == {inspect.IntType, inspect.FloatType, inspect.StrType}:
        # A structural schema has no type for this; bounds of numbers and texts still apply.
        return {"x-kubernetes-preserve-unknown-fields": True}
    raise TypeError(f"no structural schema for {info}")


def _object(info: Any, rules: Rules) -> Schema:
    added = rules.get(info.cls, {})
    properties = {}
    for field in info.fields:
        properties[field.encode_name] = _schema(field.type, rules) | added.get(field.name, {})
    required = [field.encode_name for field in info.fields if field.required]
    return {
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
        **added.get("", {}),
    }


_PLAIN: Final[Mapping[type, Schema]] = {
    msgspec.inspect.StrType: {"type": "string", "maxLength": MAX_TEXT},
    msgspec.inspect.BoolType: {"type": "boolean"},
    msgspec.inspect.IntType: {"type": "integer"},
    msgspec.inspect.FloatType: {"type": "number"},
}
_MADE: Final[Mapping[type, Callable[[Any, Rules], Schema]]] = {
    msgspec.inspect.StructType: _object,
    msgspec.inspect.UnionType: _union,
    msgspec.inspect.DictType: _map,
    msgspec.inspect.ListType: _list,
    msgspec.inspect.LiteralType: _literal,
}


def anchored(form: re.Pattern[str], *, may_be_empty: bool = False) -> str:
    """Return the pattern of texts that a check here matches as a whole."""
    return f"^({form.pattern}){'?' if may_be_empty else ''}$"


def cel(rule: str, message: str) -> dict[str, str]:
    """Return one rule of ``x-kubernetes-validations``."""
    return {"rule": rule, "message": message}


def rules(*each: dict[str, str]) -> Schema:
    """Return the part of a schema that holds rules."""
    return {"x-kubernetes-validations": list(each)}


def says(text: str, **more: object) -> Schema:
    """Return the part of a schema that describes a field, with more keys of the schema."""
    return {"description": text, **more}


# -- rules of each kind ----------------------------------------------------------------------------

AFFINITY_RULES: Final[Rules] = {
    QueueNodeAffinity: {
        "workloads": says("Types of workload that it is about; all if left out."),
        "terms": says("Of these at least one must hold.", minItems=1, maxItems=16),
    },
    NodeAffinityTerm: {
        "match_expressions": says("All of these must hold.", minItems=1, maxItems=16),
    },
    NodeLabelRequirement: {
        "": rules(
            cel(
                "self.operator in ['Exists', 'DoesNotExist'] ? (!has(self.values) ||"
                " size(self.values) == 0) : (has(self.values) && size(self.values) > 0)",
                "In, NotIn, Gt and Lt need values; Exists and DoesNotExist take none",
            ),
            cel(
                "!(self.operator in ['Gt', 'Lt']) || (has(self.values) && size(self.values) == 1"
                " && self.values[0].matches('^-?[0-9]{1,18}$'))",
                "Gt and Lt compare with one whole number",
            ),
        ),
        "key": says("The name of a label.", pattern=anchored(LABEL_KEY), maxLength=316),
        "operator": says("How the label is compared."),
        "values": says(
            "Of In and NotIn at least one, of Gt and Lt one whole number, of the others none.",
            items={"type": "string", "maxLength": 63},
        ),
    },
}


SHARING_RULES: Final[dict[str, Schema]] = {
    "": rules(
        cel(
            "(has(self.image) && self.image != '')"
            " != (has(self.deviceClass) && self.deviceClass != '')",
            "name the image of the agent, or a deviceClass",
        ),
        cel(
            "!has(self.backend) || (self.backend == 'claim')"
            " == (has(self.deviceClass) && self.deviceClass != '')",
            "reservation goes with image, claim with deviceClass",
        ),
        cel(
            "!has(self.deviceClass) || self.deviceClass == '' || !has(self.runtimeClass)"
            " || self.runtimeClass == ''",
            "runtimeClass goes with image",
        ),
        cel(
            "!has(self.deviceClass) || self.deviceClass == ''"
            " || !((has(self.configMaps) && self.configMaps)"
            " || (has(self.cdiNames) && self.cdiNames))",
            "configMaps and cdiNames go with image",
        ),
    ),
    "backend": says(
        "reservation: a pod for each shared GPU takes it from the device plugin; claim: a share"
        " is a claim on a part of a device. Left out: the one that is set up."
    ),
    "image": says("Image of the pod that takes a shared GPU.", maxLength=1024),
    "runtime_class": says("Runtime class of that pod.", maxLength=253),
    "config_maps": says("Writes the ConfigMaps that KAI-Scheduler's webhook names on pods."),
    "cdi_names": says("GPUs have names of CDI in these ConfigMaps."),
    "device_class": says(
        "Class of the devices of which claims have parts.",
        maxLength=253,
        pattern=anchored(CLASS_NAME, may_be_empty=True),
    ),
}


_MAX_EXPRESSION: Final = 4096
_ANY_INT32: Final[Schema] = {"format": "int32", "minimum": -INT32_MAX, "maximum": INT32_MAX}


def _count(least: int, text: str) -> Schema:
    return says(text, format="int32", minimum=least, maximum=INT32_MAX)


def _listed(*names: str) -> str:
    return f"[{', '.join(repr(name) for name in names)}]"


_ONE_MINIMUM: Final = cel(
    "!(has(self.minMember) && has(self.minSubGroup))", "minMember or minSubGroup, not both"
)


def _amount(text: str) -> Schema:
    return says(text, minimum=-1, maximum=MAX_QUOTA, **gap(-1, 0))


def _weight(text: str, pattern: str) -> Schema:
    """Return the part of the schema of a weight, which may be written as a text."""
    return says(text, minimum=0, maximum=int(MAX_WEIGHT), pattern=pattern, **gap(0, MIN_WEIGHT))


# -- definitions -----------------------------------------------------------------------------------

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
            _ONE_MINIMUM,
            cel(
                "!has(self.minSubGroup) || (has(self.subGroups) && size(self.subGroups) > 0)",
                "there are no subgroups to count: write minMember, or list subGroups",
            ),
        ),
        "min_member": _count(0, "Pods that must start together; 1 if left out."),
        "min_sub_group": _count(0, "Top-level subgroups that must start; all if left out."),
        "queue": says("A queue without children.", maxLength=253),
        "priority_class_name": says("Name of a PriorityClass.", maxLength=253),
        "preemptibility": says(
            "Empty: preemptible if the priority is below 100.",
            enum=["", PREEMPTIBLE, NON_PREEMPTIBLE],
        ),
        "sub_groups": {
            "maxItems": MOST_SUBGROUPS,
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
        "": rules(_ONE_MINIMUM),
        "name": says(
            "A DNS label.",
            minLength=1,
            maxLength=63,
            pattern=anchored(DNS_LABEL),
        ),
        "parent": says("The subgroup around it; empty at the top.", maxLength=63),
        "min_member": _count(0, "Pods of it that the job needs; only without subgroups in it."),
        "min_sub_group": _count(0, "Subgroups in it that the job needs; all if left out."),
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
_SPEC_PATH: Final[Schema] = {"pattern": anchored(SPEC_PATH, may_be_empty=True), "maxLength": 253}
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
            pattern=anchored(LABEL_VALUE),
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
        "disruption_budgets": says(
            "When PodDisruptionBudgets hold against jobs that evict: always, withinQuota,"
            " withinFairShare (if left out), or for a duration that the job waits.",
            minLength=1,
            maxLength=80,
            pattern=f"^({'|'.join(BUDGETS)}|0|[+]?{_STEPS})$",
        ),
        "admits_all_projects": says("Whether projects without a queue here may use idle room."),
        "pool_dwell": says("How long a job with a list of pools waits here first; 10s."),
        "pool_patience": says("How much longer it waits here until it may evict here; 0s."),
        "pool_order": says("idleFirst: no evictions before a job was refused in all its pools."),
        "workloads": says(
            "Kinds of workload whose pods are grouped, beside those that are known.", maxItems=64
        ),
        "queue_use_policy": says(
            "Whether pods, owners and groups have to name one queue, which admission checks."
        ),
        "owner_wait": says("How long a pod waits for an owner that cannot be read yet."),
        "resource_claims": says("Whether claims on devices are read and allocated."),
        "k_value": says("Strength of time-based fairness.", minimum=0, maximum=int(MAX_K)),
        "plugins": says("By name; a higher priority comes first.", maxProperties=128),
        "actions": says("By name; a higher priority comes first.", maxProperties=16, **_ACTIONS),
        "gpu_sharing": says("Lets pods share GPUs; without it, pods that ask for a share wait."),
        "least_gpu_share": says(
            "How much of a GPU a part of one counts at least in its queue.", minimum=0, maximum=1
        ),
        "gpu_resources": says(
            "Resource names that count whole GPUs.",
            minItems=1,
            items={
                "type": "string",
                "maxLength": 317,
                "pattern": anchored(RESOURCE_NAME),
            },
            **{"x-kubernetes-list-type": "set"},
        ),
    },
    PluginEntry: {
        "weight": says("Factor of its scores.", minimum=0),
        "priority": _ANY_INT32,
        "arguments": says("Replaces the default arguments as a whole."),
    },
    WorkloadKind: {
        "": rules(
            cel(
                "!has(self.roles) || self.roles.size() == 0 || ((!has(self.replicas)"
                " || self.replicas == '') && (!has(self.minimum) || self.minimum == ''))",
                "replicas and minimum are given for each role",
            ),
        ),
        "api_version": says("Group and version.", pattern=anchored(GROUP_VERSION)),
        "plural": says("The name in its address, like widgets.", pattern=anchored(PLURAL)),
        "kind": says("Like Widget.", pattern=anchored(KIND)),
        "pods": says("together: one job; each: a job each; through: as the owner below says."),
        "replicas": says("Where its spec says how many pods it has.", **_SPEC_PATH),
        "minimum": says("Where it says how many start together; all if left out.", **_SPEC_PATH),
        "role_label": says(
            "Label of the pods that says their role.",
            pattern=anchored(LABEL_KEY, may_be_empty=True),
            maxLength=316,
        ),
        "roles": says(
            "Parts that each have a minimum.",
            maxItems=MOST_ROLES,
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
        "index_label": says(
            "Label of the pods; those of each value are a job.",
            pattern=anchored(LABEL_KEY, may_be_empty=True),
            maxLength=316,
        ),
        "priority_class": says("For pods for which no class is named.", maxLength=253),
    },
    WorkloadRole: {
        "name": says(
            "The value of the label.", pattern=anchored(LABEL_VALUE), minLength=1, maxLength=63
        ),
        "replicas": says("Where the spec says how many pods it has.", **_SPEC_PATH),
        "minimum": says("Where it says how many of them are needed.", **_SPEC_PATH),
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
        "connection_string_env_var": {"pattern": anchored(VARIABLE, may_be_empty=True)},
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
            pattern=anchored(LABEL_KEY),
        ),
        "alias": says("Another name of the level.", maxLength=316),
    },
}


_AMOUNTS: Final[Schema] = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
    },
}
_CONDITIONS: Final[Schema] = {
    "type": "array",
    "items": {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {
            name: {"type": "string"}
            for name in ("type", "status", "reason", "message", "lastTransitionTime")
        },
    },
}
_OWN_PARENT: Final = cel(
    "!has(self.spec.parentQueue) || self.spec.parentQueue != self.metadata.name",
    "the queue is its own parent: name another queue, or leave it out",
)
_AGE: Final = ("Age", "date", ".metadata.creationTimestamp")


class Definition(NamedTuple):
    """Contents of a kind's definition besides the schema of its spec."""

    plural: str
    spec: type
    rules: Rules
    columns: tuple[tuple[str, str, str], ...]
    """Name, type and JSON path."""
    short_names: tuple[str, ...] = ()
    status: Mapping[str, Schema] = {}
    """Known fields of the status; unknown fields are kept too."""
    root: Mapping[str, Any] = {}
    """Rules that need the object's name."""


DEFINITIONS: Final[Mapping[type[KubernetesObject], Definition]] = {
    Queue: Definition(
        "queues",
        QueueSpec,
        QUEUE_RULES,
        (
            ("Priority", "integer", ".spec.priority"),
            ("Parent", "string", ".spec.parentQueue"),
            ("GPU quota", "number", ".spec.resources.gpu.quota"),
            ("Fair share", "string", ".status.fairShare.nvidia\\.com/gpu"),
            ("Allocated", "string", ".status.allocated.nvidia\\.com/gpu"),
            ("Requested", "string", ".status.requested.nvidia\\.com/gpu"),
            ("Saturation", "string", ".status.saturation"),
            ("Pending", "integer", ".status.pendingJobs"),
            ("Stop", "string", ".spec.stopPolicy"),
            ("State", "string", '.status.conditions[?(@.type=="Ready")].reason'),
            ("Children", "string", ".status.childQueues"),
            ("DisplayName", "string", ".spec.displayName"),
            _AGE,
        ),
        status={
            "childQueues": {"type": "array", "items": {"type": "string"}},
            "childrenQuota": {"type": "object", "additionalProperties": {"type": "number"}},
            "allocated": _AMOUNTS,
            "allocatedNonPreemptible": _AMOUNTS,
            "requested": _AMOUNTS,
            "fairShare": _AMOUNTS,
            "saturation": {"type": "string"},
            "pendingJobs": {"type": "integer"},
            "conditions": _CONDITIONS,
        },
        root=rules(_OWN_PARENT),
    ),
    PodGroup: Definition(
        "podgroups",
        PodGroupSpec,
        GROUP_RULES,
        (
            ("Queue", "string", ".spec.queue"),
            ("Minimum", "integer", ".spec.minMember"),
            ("Priority class", "string", ".spec.priorityClassName"),
            ("Why pending", "string", ".status.schedulingConditions[-1:].reason"),
            _AGE,
        ),
        ("pg",),
        {
            "conditions": _CONDITIONS,
            "schedulingConditions": _CONDITIONS,
            "resourcesStatus": {
                "type": "object",
                "properties": dict.fromkeys(
                    ("requested", "allocated", "allocatedNonPreemptible"), _AMOUNTS
                ),
            },
        },
    ),
    SchedulingShard: Definition(
        "schedulingshards",
        ShardSpec,
        SHARD_RULES,
        (("Node pool", "string", ".spec.partitionLabelValue"), _AGE),
        status={"conditions": _CONDITIONS},
    ),
    Topology: Definition(
        "topologies",
        TopologySpec,
        TOPOLOGY_RULES,
        (("Levels", "string", ".spec.levels[*].nodeLabel"), _AGE),
        status={"conditions": _CONDITIONS},
    ),
}


def custom_resource_definitions() -> dict[str, dict[str, Any]]:
    """Return the definitions by name, such as ``queues.scheduling.run.ai``, as plain values."""
    made = (_definition(type_, said) for type_, said in DEFINITIONS.items())
    return {definition["metadata"]["name"]: definition for definition in made}


def _definition(type_: type[KubernetesObject], said: Definition) -> dict[str, Any]:
    group, _, version = type_.API_VERSION.partition("/")
    names: dict[str, Any] = {
        "kind": type_.KIND,
        "listKind": f"{type_.KIND}List",
        "plural": said.plural,
        "singular": type_.KIND.lower(),
    }
    if said.short_names:
        names["shortNames"] = list(said.short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{said.plural}.{group}"},
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced" if type_.IS_NAMESPACED else "Cluster",
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": [
                        {"name": name, "type": kind, "jsonPath": path}
                        for name, kind, path in said.columns
                    ],
                    "schema": {"openAPIV3Schema": _root(type_, said)},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


def _root(type_: type[KubernetesObject], said: Definition) -> Schema:
    return {
        "type": "object",
        "description": (type_.__doc__ or "").strip(),
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": struct_schema(said.spec, said.rules),
            "status": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "properties": dict(said.status),
            },
        },
        **said.root,
    }
