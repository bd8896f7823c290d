"""Redaction of objects by tables that say what each field names.

Names get aliases. In claims on devices and what is offered to them, texts in attributes and in the
expressions about them do so too, alike: equal texts stay equal. Texts of hardware makers' domains,
numbers, amounts and versions are kept. Settings of drivers are left out: no decision depends on
them. The walk is made twice: first to register the names, then to replace them by aliases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from json import dumps as to_text
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kaisched.cluster.claims.generated import NOTE as GENERATED_CLAIM
from kaisched.errors import ObjectError
from kaisched.objects import labels
from kaisched.objects.gpus import REQUEST
from kaisched.objects.pod import BIND_COMPLETED, NO_PROVISIONER, SELECTED_NODE
from kaisched.objects.requests import INFEASIBLE
from kaisched.objects.wire import WORKLOAD_TYPES, ObjectMeta
from kaisched.objects.workloads import layers_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaisched.engine.redaction import Aliases

Change: TypeAlias = "Callable[[ObjectWalk, Any], Any]"
Rule: TypeAlias = "str | list[Rule] | Mapping[str, Rule] | Change | None"
"""What becomes of a value. A text is the use of a name, which gets an alias. A list has the rule of
each item, a map those of its keys, with ``*`` for all others, which else are kept. A function
returns the new value, or None to leave it out, as the rule None does."""

_HOSTNAME: Final = "kubernetes.io/hostname"
_WILD: Final = ("", "0.0.0.0", "::")  # noqa: S104 - every address, not one to listen on
_GPU: Final = "gpu"
_PLAIN: Final = re.compile(r"[-+0-9.:TZeEnumshdwyukMGTPi]{1,40}", re.ASCII)
"""Numbers, amounts, durations and times: values of annotations that cannot be names."""
_PUBLIC: Final = re.compile(
    r"([a-z0-9-]+\.)*(kubernetes\.io|k8s\.io|nvidia\.com|amd\.com|intel\.com)(/[A-Za-z0-9._-]+)?"
)
_AMOUNT: Final = re.compile(r"([-+]?[0-9][-+0-9.eEnumkKMGTPi]{0,40})?")
_QUOTED: Final = re.compile(r"\"([^\"\\]*)\"|'([^'\\]*)'")


class ObjectWalk:
    """Walk over objects as plain values that replaces names and drops fields without effect."""

    def __init__(
        self,
        alias: Aliases,
        objects: Iterable[dict[str, Any]],
        queue_of_pod: Mapping[str, str],
        asked: Iterable[str] = (),
    ) -> None:
        """Collect the label keys that any object's selectors use: all other labels are dropped.

        ``queue_of_pod`` is the queue of each pod by ``namespace/name``. It is written on pods that
        get their queue otherwise: the older label composes the queue's name of two others.
        ``asked`` are keys that workloads ask for, which are no objects here.
        """
        self.alias, self._queue_of_pod = alias, queue_of_pod
        self._asked = {_HOSTNAME, "run.ai/type", *asked}
        for obj in objects:
            _find_keys(obj.get("spec"), self._asked)
            _find_keys(obj.get("allowedTopologies"), self._asked)

    def __call__(self, obj: dict[str, Any]) -> dict[str, Any]:
        """Return an object without names."""
        kind, old = obj["kind"], obj["metadata"]
        head = {"apiVersion": obj["apiVersion"], "kind": kind}
        head["metadata"] = self.meta(old, _USES.get(kind, "job"))
        queue = self._queue_from_elsewhere(kind, old)
        if queue and labels.QUEUE not in old.get("labels", {}):
            head["metadata"].setdefault("labels", {})[labels.QUEUE] = self.alias("queue", queue)
        if kind == "Pod":
            obj = {**obj, "spec": {**obj["spec"], "volumes": _volumes_of(obj)}}
        if kind == "DeviceClass":
            head["metadata"] = self._meta_of_class(obj)
        head |= self.by(_KINDS.get(kind, _WORKLOAD), obj)
        return head

    def by(self, rule: Rule, value: Any) -> Any:
        """Return what a rule makes of a value; None leaves it out."""
        if rule is None:
            return None
        if isinstance(rule, str):
            return self.alias(rule, value)
        if isinstance(rule, list):
            return [self.by(rule[0], it) for it in value]
        if isinstance(rule, Mapping):
            others = rule.get("*", _kept)
            made = ((key, self.by(rule.get(key, others), it)) for key, it in value.items())
            return {key: new for key, new in made if new is not None}
        return rule(self, value)

    def meta(self, meta: dict[str, Any], use: str) -> dict[str, Any]:
        """Return metadata without names."""
        new = self.by({**_METADATA, "name": use}, meta)
        old = meta.get("labels", {})
        told = self.by(_LABELS, old)
        for key, value in old.items():
            if key in self._asked and key not in told:
                told[self.alias("key", key)] = self.alias(_use_of_value(key), value)
        return {key: value for key, value in {**new, "labels": told}.items() if value}

    def gang(self, gang: dict[str, Any]) -> dict[str, Any]:
        """Return a workload's gang without names."""
        made: dict[str, Any] = self.by(_GANG, gang)
        return made

    def _meta_of_class(self, obj: dict[str, Any]) -> dict[str, Any]:
        """Return the metadata of a DeviceClass: of several for one resource the newest counts."""
        is_dated = "extendedResourceName" in obj.get("spec", {})
        rule = {"*": None, "name": _class_name, "uid": "uid"}
        dated = {"creationTimestamp": _kept} if is_dated else {}
        made: dict[str, Any] = self.by({**rule, **dated}, obj["metadata"])
        return made

    def _queue_from_elsewhere(self, kind: str, meta: dict[str, Any]) -> str:
        if kind == "Pod":
            return self._queue_of_pod.get(f"{meta.get('namespace', '')}/{meta['name']}", "")
        if kind == "PodGroup":
            old = meta.get("labels", {})
            return labels.queue_of(ObjectMeta(name="", labels=old)) or ""
        return ""


_LISTS_OF_KEYS: Final = ("matchLabelKeys", "mismatchLabelKeys")


def _find_keys(spec: Any, found: set[str]) -> None:
    """Note every label key that selectors, affinities and topology levels use."""
    if isinstance(spec, list):
        for part in spec:
            _find_keys(part, found)
    elif isinstance(spec, dict):
        for key, part in spec.items():
            if key in {"nodeSelector", "nodeLabels", "matchLabels"} and isinstance(part, dict):
                found.update(part)
            elif key in {"key", "topologyKey", "nodeLabel"} and isinstance(part, str):
                found.add(part)
            elif key in _LISTS_OF_KEYS and isinstance(part, list):
                found.update(it for it in part if isinstance(it, str))
            else:
                _find_keys(part, found)


def _volumes_of(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the volumes of a pod without names; a claim created for the pod has its final one."""
    volumes = pod["spec"].get("volumes", [])
    name = pod["metadata"]["name"]
    named = [it["persistentVolumeClaim"] for it in volumes if "persistentVolumeClaim" in it]
    names = [it.get("claimName", "") for it in named]
    names += [f"{name}-{it.get('name', '')}" for it in volumes if "ephemeral" in it]
    claims = [{"persistentVolumeClaim": {"claimName": it}} for it in names]
    disks: list[dict[str, Any]] = [{kind: {}} for it in volumes for kind in it.keys() & _INLINE]
    return [*claims, *disks]


_INLINE: Final = frozenset({"awsElasticBlockStore", "gcePersistentDisk", "iscsi", "rbd"})


# -- changes of single values ---------------------------------------------------------------------


def _kept(_: ObjectWalk, value: Any) -> Any:
    return value


def _only(*values: str) -> Change:
    """Keep some values, and leave out any other."""
    return lambda _, value: value if value in values else None


def _always(text: str) -> Change:
    return lambda *_: text


def _listed(rule: Rule, comma: str) -> Change:
    """Replace the names in a text that is a list."""
    return lambda walk, text: comma.join(walk.by(rule, it.strip()) for it in text.split(","))


def _keys(rule: Rule, values: Rule = _kept) -> Change:
    """Replace the keys of a map, and its values by a rule of their own."""
    return lambda walk, old: {
        walk.by(rule, key): walk.by(values, value) for key, value in old.items()
    }


def _number(_: ObjectWalk, text: str) -> str | None:
    return text if _PLAIN.fullmatch(text) else None


def _index(_: ObjectWalk, text: str) -> str | None:
    return text if text.isdecimal() else None


def _layers(walk: ObjectWalk, text: str) -> str:
    """Replace the levels of slices in layers; invalid ones stay invalid."""
    try:
        layers = layers_of(text)
    except ObjectError:
        return "invalid"
    return to_text([{"topology": walk.alias("key", level), "size": size} for level, size in layers])


def _pool(walk: ObjectWalk, name: str) -> str:
    """Replace a node pool; the one of nodes without a label has no alias."""
    return name if name in {"", labels.DEFAULT_POOL} else walk.alias("pool", name)


def _part(walk: ObjectWalk, name: str) -> str:
    """Replace the name of a subgroup, which consists of label values."""
    parts = name.split("/")
    return "/".join(it if it.isdecimal() else walk.alias("subgroup", it) for it in parts)


def _address(walk: ObjectWalk, address: str) -> str:
    return address if address in _WILD else walk.alias("value", address)


def _use_of_value(key: str) -> str:
    """Return what the values of a label or field name."""
    return "node" if key in {_HOSTNAME, "metadata.name"} else "value"


def _pairs(walk: ObjectWalk, pairs: dict[str, str]) -> dict[str, str]:
    """Replace keys and values of labels."""
    return {walk.alias("key", key): walk.alias(_use_of_value(key), it) for key, it in pairs.items()}


def _expression(walk: ObjectWalk, it: dict[str, Any]) -> dict[str, Any]:
    """Replace the key and the values of an expression about labels, or about a node's name."""
    key = it.get("key", "")
    is_field = key == "metadata.name"
    values = [walk.alias(_use_of_value(key), value) for value in it.get("values", [])]
    return {**it, "key": key if is_field else walk.alias("key", key), "values": values}


def _constraint(walk: ObjectWalk, value: Any) -> Any:
    """Replace the names in any part of an affinity, which its keys tell."""
    if isinstance(value, list):
        return [_constraint(walk, it) for it in value]
    if not isinstance(value, dict):
        return value
    if "operator" in value and "key" in value:
        return _expression(walk, value)
    rules: dict[str, Rule] = {
        "matchLabels": _pairs,
        "topologyKey": "key",
        **{key: ["key"] for key in _LISTS_OF_KEYS},
    }
    return walk.by({**rules, "namespaces": ["namespace"], "*": _constraint}, value)


def _provisioner(_: ObjectWalk, name: str) -> str:
    return NO_PROVISIONER if name in ("", NO_PROVISIONER) else "provisioner"


def _text(walk: ObjectWalk, text: str) -> str:
    """Replace a text about devices, unless it is public."""
    if _PUBLIC.fullmatch(text) or _AMOUNT.fullmatch(text):
        return text
    return walk.alias("value", text)


def _qualified(walk: ObjectWalk, name: str) -> str:
    """Replace the domain of an attribute or capacity: its identifier is no name of anybody."""
    domain, slash, rest = name.rpartition("/")
    return f"{_text(walk, domain)}{slash}{rest}" if slash else name


def _request_name(walk: ObjectWalk, text: str) -> str:
    """Replace the name of a request, or of an alternative of one; ours is no name."""
    if text == REQUEST:
        return text
    return "/".join(walk.alias("value", it) for it in text.split("/"))


def _class_name(walk: ObjectWalk, name: str) -> str:
    return class_alias(walk.alias, name)


def class_alias(alias: Aliases, name: str) -> str:
    """Return the alias of a class, which tells as before whether it is one of GPUs."""
    new = alias("class", name)
    return f"{_GPU}-{new}" if _GPU in name.lower() and _GPU not in new else new


def _selectors(walk: ObjectWalk, selectors: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Replace the texts in expressions of CEL; other selectors are left out."""

    def quoted(it: re.Match[str]) -> str:
        return f'"{_text(walk, it[1] if it[1] is not None else it[2])}"'

    texts = [it["cel"].get("expression", "") for it in selectors if it.get("cel")]
    return [{"cel": {"expression": _QUOTED.sub(quoted, text)}} for text in texts]


def _slices(walk: ObjectWalk, slices: list[list[Any]]) -> list[list[Any]]:
    return [[walk.alias("key", level), size] for level, size in slices]


# -- tables ---------------------------------------------------------------------------------------


def _these(*keys: str, **rules: Rule) -> dict[str, Rule]:
    """Return a rule that keeps some keys, has rules for others, and leaves out the rest."""
    return {"*": None, **dict.fromkeys(keys, _kept), **rules}


_USES: Final = {
    "Pod": "pod",
    "Node": "node",
    "Queue": "queue",
    "PriorityClass": "class",
    "PersistentVolume": "volume",
    "StorageClass": "storage",
    "Topology": "value",
    **dict.fromkeys(
        (
            "PersistentVolumeClaim",
            "ResourceSlice",
            "DeviceTaintRule",
            "ResourceClaim",
            "ResourceClaimTemplate",
            "DeviceClass",
        ),
        "claim",
    ),
}
"""By kind, what the names of objects are; names of workloads are those of jobs."""
_ANNOTATIONS: Final[dict[str, Rule]] = {
    "*": None,
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
    labels.GPU_FRACTION: _number,
    labels.GPU_MEMORY: _number,
    labels.GPU_FRACTION_DEVICES: _number,
    labels.PREEMPTION_DELAY: _number,
    labels.STALENESS_GRACE_PERIOD: _number,
    labels.TOPOLOGY_PATIENCE: _number,
    labels.SEGMENT_SIZE: _number,
    labels.POD_SET_SLICE_SIZE: _number,
    labels.BATCH_MIN_MEMBER: _number,
    labels.GROUP_SIZE: _number,
    labels.LAST_START: _number,
    labels.LAST_EVICTION: _number,
    labels.STALE_SINCE: _number,
    GENERATED_CLAIM: _only("true"),
    labels.SKIP_GROUPING: _always(""),
    labels.POD_SET_UNCONSTRAINED: _only("true", "false"),
    labels.POD_SET_SLICES: _layers,
    labels.NODE_POOLS: _listed(_pool, ", "),
    labels.NODE_TYPE: _listed("value", ", "),
    labels.INDEPENDENT_PODS: lambda _, text: str(text == "true").lower(),
}
_LABELS: Final[dict[str, Rule]] = {
    "*": None,
    labels.QUEUE: "queue",
    labels.NODE_POOL: "pool",
    labels.QUEUE_PROJECT: "queue",
    labels.PRIORITY_CLASS: "class",
    labels.SUBGROUP: "subgroup",
    labels.TASK_PRIORITY: "value",
    labels.REPLICATED_JOB: "subgroup",
    labels.REPLICA_TYPE: "subgroup",
    labels.JOB_ROLE: "subgroup",
    labels.RAY_GROUP: "subgroup",
    labels.VOLCANO_TASK: "subgroup",
    labels.POD_GANG: "job",
    labels.POD_CLIQUE: "subgroup",
    labels.SPARK_APP: "job",
    labels.SPARK_ROLE: _only("driver", "executor"),
    labels.RAY_PRIORITY_CLASS: "class",
    labels.PREEMPTIBILITY: _only(labels.PREEMPTIBLE, labels.NON_PREEMPTIBLE),
    labels.WORKLOAD_TYPE: _only(*WORKLOAD_TYPES),
    labels.FLAVOR_KEYS: _listed("key", ","),
    labels.SKIP_GROUPING: _always(""),
    labels.JOB_INDEX: _index,
    labels.GROUP_INDEX: _index,
    labels.WORKER_INDEX: _index,
    labels.REPLICA_INDEX: _index,
}
"""Those with a meaning of their own; beside them, those that selectors ask for are replaced."""
_METADATA: Final = _these(
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    namespace="namespace",
    uid="uid",
    annotations=_ANNOTATIONS,
    ownerReferences=[_these("apiVersion", "kind", "controller", name="job", uid="uid")],
)
_WISH: Final[Rule] = {"topology": "value", "*": "key"}
"""Rule of a topology constraint."""
_GANG: Final[Rule] = {
    "topologyConstraint": _WISH,
    "priorityClass": "class",
    "nodeLabel": "key",
    "unsupported": _always("not offered"),
    "subGroups": [{"name": _part, "parent": _part, "topologyConstraint": _WISH}],
    "later": [_part],
    "leaderFirst": [_part],
    "segments": _keys(_part, {"topology": _WISH}),
    "podSets": _keys(_part, _these(required="key", preferred="key", group="value", slices=_slices)),
}
_TAINT: Final[Rule] = {"key": "key", "value": "value"}
_CONDITIONS: Final[Rule] = [
    _these(
        "type",
        "status",
        "lastTransitionTime",
        reason=lambda _, it: it if it == INFEASIBLE else None,
    )
]
_STATUSES: Final[Rule] = [_these("allocatedResources", "resources", name="container")]
_CONTAINERS: Final[Rule] = [{"name": "container", "ports": [{"hostIP": _address}]}]
_DEVICE_TAINT: Final[Rule] = {"key": _text, "value": _text}
_COUNTERS: Final = _keys(_text)
_PLACED: Final[dict[str, Rule]] = {"nodeName": "node", "nodeSelector": _constraint}
_DEVICE: Final[Rule] = {
    **_PLACED,
    "name": "value",
    "attributes": _keys(_qualified, {"string": _text}),
    "capacity": _keys(_qualified),
    "consumesCounters": [_these(counterSet=_text, counters=_COUNTERS)],
    "taints": [_DEVICE_TAINT],
    "bindingConditions": [_text],
    "bindingFailureConditions": [_text],
}
_EXACT: Final[Rule] = {
    "name": _request_name,
    "deviceClassName": _class_name,
    "selectors": _selectors,
    "tolerations": [_DEVICE_TAINT],
    "capacity": _these(requests=_keys(_qualified)),
}
_ASKED: Final = _these(
    devices=_these(
        requests=[_these(name=_request_name, exactly=_EXACT, firstAvailable=[_EXACT])],
        constraints=[
            _these(
                matchAttribute=_qualified, distinctAttribute=_qualified, requests=[_request_name]
            )
        ],
    )
)
_GIVEN: Final = _these(
    devices=_these(
        results=[
            _these(
                "adminAccess",
                "shareID",
                request=_request_name,
                driver=_text,
                pool="node",
                device="value",
                consumedCapacity=_keys(_qualified),
            )
        ]
    ),
    nodeSelector=_constraint,
)
_WORKLOAD: Final = _these(
    spec=_these("parallelism", "completions", "completionMode", "suspend", "replicas")
)
"""Of a workload only its numbers of pods matter."""
_KINDS: Final[dict[str, Rule]] = {
    "Pod": _these(
        spec={
            "schedulerName": "scheduler",
            "nodeName": "node",
            "priorityClassName": "class",
            "schedulingGroup": _these(podGroupName="job"),
            "nodeSelector": _pairs,
            "affinity": _constraint,
            "topologySpreadConstraints": _constraint,
            "tolerations": [_TAINT],
            "containers": _CONTAINERS,
            "initContainers": _CONTAINERS,
            "schedulingGates": [_these(name="gate")],
            "resourceClaims": [{"*": "claim"}],
            "volumes": [{"persistentVolumeClaim": {"claimName": "claim"}}],
        },
        status={
            "reason": None,
            "nominatedNodeName": "node",
            "resourceClaimStatuses": [{"*": "claim"}],
            "containerStatuses": _STATUSES,
            "initContainerStatuses": _STATUSES,
            "conditions": _CONDITIONS,
        },
    ),
    "Node": _these(spec={"taints": [_TAINT]}, status={"conditions": _CONDITIONS}),
    "Queue": _these(
        spec={
            "displayName": None,
            "parentQueue": "queue",
            "nodePools": [_pool],
            "nodeAffinity": _constraint,
            "flavors": [{"name": "flavor", "nodeLabels": _pairs}],
        }
    ),
    "PodGroup": _these(
        spec={
            "queue": "queue",
            "priorityClassName": "class",
            "topologyConstraint": _WISH,
            "subGroups": [{"name": "subgroup", "parent": "subgroup", "topologyConstraint": _WISH}],
        }
    ),
    "PriorityClass": _these("value", "globalDefault", "preemptionPolicy"),
    "PodDisruptionBudget": _these(
        spec={"selector": _constraint}, status={"disruptedPods": _keys("pod")}
    ),
    "PersistentVolumeClaim": _these(
        "status",
        spec={
            "volumeName": "volume",
            "storageClassName": "storage",
            "selector": _constraint,
            "volumeAttributesClassName": "storage",
        },
    ),
    "PersistentVolume": _these(
        "status",
        spec=_these(
            "accessModes",
            "capacity",
            "volumeMode",
            nodeAffinity=_constraint,
            storageClassName="storage",
            volumeAttributesClassName="storage",
            claimRef=_these(namespace="namespace", name="claim", uid="uid"),
        ),
    ),
    "StorageClass": _these(
        "volumeBindingMode",
        provisioner=_provisioner,
        allowedTopologies=[_these(matchLabelExpressions=[_expression])],
    ),
    "Topology": _these(spec=_these(levels=[{"*": "key"}])),
    "ResourceSlice": _these(
        spec={
            **_PLACED,
            "driver": _text,
            # Most pools are called as their nodes; pools are tried in the order of their names.
            "pool": {"name": "node"},
            "devices": [_DEVICE],
            "sharedCounters": [{"name": _text, "counters": _COUNTERS}],
        }
    ),
    "DeviceClass": _these(spec=_these("extendedResourceName", selectors=_selectors)),
    "DeviceTaintRule": _these(
        spec={
            "deviceSelector": _these(driver=_text, pool="node", device="value"),
            "taint": _DEVICE_TAINT,
        }
    ),
    "ResourceClaim": _these(
        spec=_ASKED,
        status=_these(reservedFor=[{"name": "pod", "uid": "uid"}], allocation=_GIVEN),
    ),
    "ResourceClaimTemplate": _these(spec=_these(spec=_ASKED)),
}
"""By kind, what is kept of its objects beside their metadata, and which fields hold names."""
