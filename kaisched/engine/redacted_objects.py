"""Redaction of objects: one function for each kind, on plain values as in a recording.

The walk is made twice: first to register the names, then to replace them by aliases.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kaisched.engine.redacted_annotations import pool, without_names
from kaisched.engine.redacted_devices import OF_DEVICES, DeviceWalk
from kaisched.engine.redacted_keys import LABELS
from kaisched.engine.redacted_shapes import levels, workload
from kaisched.objects import labels
from kaisched.objects.pod import NO_PROVISIONER
from kaisched.objects.wire import WORKLOAD_TYPES, ObjectMeta

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kaisched.engine.aliases import Aliases

_INDEXES: Final = (
    labels.JOB_INDEX,
    labels.GROUP_INDEX,
    labels.WORKER_INDEX,
    labels.REPLICA_INDEX,
)
_PREEMPTIBILITY: Final = (labels.PREEMPTIBLE, labels.NON_PREEMPTIBLE)
_HOSTNAME: Final = "kubernetes.io/hostname"
_USES: Final = {
    "Pod": "pod",
    "Node": "node",
    "Queue": "queue",
    "PriorityClass": "class",
    "PersistentVolumeClaim": "claim",
    "PersistentVolume": "volume",
    "StorageClass": "storage",
    "Topology": "value",
    **dict.fromkeys(OF_DEVICES, "claim"),
}
_WILD: Final = ("", "0.0.0.0", "::")  # noqa: S104 - every address, not one to listen on


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
        self._alias, self._queue_of_pod = alias, queue_of_pod
        self._asked = {_HOSTNAME, "run.ai/type", *asked}
        for obj in objects:
            _find_keys(obj.get("spec"), self._asked)
            _find_keys(obj.get("allowedTopologies"), self._asked)
        self._devices = devices = DeviceWalk(alias, self._constraint)
        self._of_kind: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "Pod": self._pod,
            "Node": self._node,
            "Queue": self._queue,
            "PodGroup": self._pod_group,
            "PriorityClass": self._class,
            "PodDisruptionBudget": self._disruption_budget,
            "PersistentVolumeClaim": self._claim,
            "PersistentVolume": self._volume,
            "StorageClass": self._storage_class,
            "Topology": partial(levels, alias),
            **devices.of_kind,
        }

    def __call__(self, obj: dict[str, Any]) -> dict[str, Any]:
        """Return an object without names."""
        kind = obj["kind"]
        head = {"apiVersion": obj["apiVersion"], "kind": kind}
        head["metadata"] = self.meta(obj["metadata"], _USES.get(kind, "job"))
        queue = self._queue_from_elsewhere(kind, obj["metadata"])
        if queue and labels.QUEUE not in obj["metadata"].get("labels", {}):
            head["metadata"].setdefault("labels", {})[labels.QUEUE] = self._alias("queue", queue)
        return head | self._of_kind.get(kind, workload)(obj)

    def meta(self, meta: dict[str, Any], use: str) -> dict[str, Any]:
        """Return metadata without names."""
        alias = self._alias
        new: dict[str, Any] = {"name": alias(use, meta["name"])}
        for key in ("namespace", "uid"):
            if key in meta:
                new[key] = alias(key, meta[key])
        for key in ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
            if key in meta:
                new[key] = meta[key]
        new["labels"] = self._labels(meta)
        new["annotations"] = without_names(alias, meta.get("annotations", {}))
        new["ownerReferences"] = [
            {
                **{key: it[key] for key in ("apiVersion", "kind", "controller") if key in it},
                "name": alias("job", it.get("name", "")),
                "uid": alias("uid", it.get("uid", "")),
            }
            for it in meta.get("ownerReferences", [])
        ]
        return {key: value for key, value in new.items() if value}

    def gang(self, gang: dict[str, Any]) -> dict[str, Any]:
        """Return a workload's gang without names."""
        new = {**gang, **self._topology(gang)}
        if "priorityClass" in gang:
            new["priorityClass"] = self._alias("class", gang["priorityClass"])
        if "nodeLabel" in gang:
            new["nodeLabel"] = self._alias("key", gang["nodeLabel"])
        if "unsupported" in gang:
            new["unsupported"] = "not offered"
        new["subGroups"] = [
            {
                **it,
                "name": self._part(it["name"]),
                "parent": self._part(it.get("parent", "")),
                **self._topology(it),
            }
            for it in gang.get("subGroups", [])
        ]
        new["segments"] = {
            self._part(name): {**it, **self._topology(it, "topology")}
            for name, it in gang.get("segments", {}).items()
        }
        new["podSets"] = {
            self._part(name): self._pod_set(wish) for name, wish in gang.get("podSets", {}).items()
        }
        return new

    def _pod_set(self, wish: dict[str, Any]) -> dict[str, Any]:
        """Return where a pod set is to be together, with aliases of levels and group."""
        uses = {"required": "key", "preferred": "key", "group": "value"}
        new = {key: self._alias(use, wish[key]) for key, use in uses.items() if key in wish}
        slices = wish.get("slices", [])
        return {**new, "slices": [[self._alias("key", level), size] for level, size in slices]}

    def _part(self, name: str) -> str:
        """Return the alias of a subgroup's name, which consists of label values."""
        parts = name.split("/")
        return "/".join(it if it.isdecimal() else self._alias("subgroup", it) for it in parts)

    def _queue_from_elsewhere(self, kind: str, meta: dict[str, Any]) -> str:
        if kind == "Pod":
            return self._queue_of_pod.get(f"{meta.get('namespace', '')}/{meta['name']}", "")
        if kind == "PodGroup":
            old = meta.get("labels", {})
            return labels.queue_of(ObjectMeta(name="", labels=old)) or ""
        return ""

    def _labels(self, meta: dict[str, Any]) -> dict[str, str]:
        alias, old = self._alias, meta.get("labels", {})
        new = {key: alias(use, old[key]) for key, use in LABELS.items() if key in old}
        if old.get(labels.PREEMPTIBILITY) in _PREEMPTIBILITY:
            new[labels.PREEMPTIBILITY] = old[labels.PREEMPTIBILITY]
        if old.get(labels.WORKLOAD_TYPE) in WORKLOAD_TYPES:
            new[labels.WORKLOAD_TYPE] = old[labels.WORKLOAD_TYPE]
        if labels.FLAVOR_KEYS in old:
            keys = old[labels.FLAVOR_KEYS].split(",")
            new[labels.FLAVOR_KEYS] = ",".join(self._alias("key", key) for key in keys)
        if labels.SKIP_GROUPING in old:
            new[labels.SKIP_GROUPING] = ""
        new |= {key: old[key] for key in _INDEXES if old.get(key, "").isdecimal()}
        for key, value in old.items():
            if key in self._asked and key not in new:
                use = "node" if key == _HOSTNAME else "value"
                new[alias("key", key)] = alias(use, value)
        return new

    # -- kinds -----------------------------------------------------------------------------------

    def _queue(self, obj: dict[str, Any]) -> dict[str, Any]:
        spec = {key: value for key, value in obj["spec"].items() if key != "displayName"}
        if "parentQueue" in spec:
            spec["parentQueue"] = self._alias("queue", spec["parentQueue"])
        if "nodePools" in spec:
            spec["nodePools"] = [pool(self._alias, name) for name in spec["nodePools"]]
        if "nodeAffinity" in spec:
            spec["nodeAffinity"] = self._constraint(spec["nodeAffinity"])
        if "flavors" in spec:
            spec["flavors"] = [
                {
                    **flavor,
                    "name": self._alias("flavor", flavor["name"]),
                    "nodeLabels": self._pairs(flavor.get("nodeLabels", {})),
                }
                for flavor in spec["flavors"]
            ]
        return {"spec": spec}

    def _class(self, obj: dict[str, Any]) -> dict[str, Any]:
        return {
            key: obj[key] for key in ("value", "globalDefault", "preemptionPolicy") if key in obj
        }

    def _pod_group(self, obj: dict[str, Any]) -> dict[str, Any]:
        alias, spec = self._alias, dict(obj["spec"])
        for key, use in (("queue", "queue"), ("priorityClassName", "class")):
            if key in spec:
                spec[key] = alias(use, spec[key])
        spec |= self._topology(spec)
        spec["subGroups"] = [
            {
                **group,
                "name": alias("subgroup", group["name"]),
                "parent": alias("subgroup", group.get("parent", "")),
                **self._topology(group),
            }
            for group in spec.get("subGroups", [])
        ]
        return {"spec": spec}

    def _topology(self, spec: dict[str, Any], at: str = "topologyConstraint") -> dict[str, Any]:
        wish = spec.get(at)
        if not wish:
            return {}
        use = {"topology": "value"}
        return {at: {key: self._alias(use.get(key, "key"), name) for key, name in wish.items()}}

    def _disruption_budget(self, obj: dict[str, Any]) -> dict[str, Any]:
        spec, status = dict(obj.get("spec", {})), dict(obj.get("status", {}))
        if "selector" in spec:
            spec["selector"] = self._constraint(spec["selector"])
        if "disruptedPods" in status:
            status["disruptedPods"] = {
                self._alias("pod", pod): at for pod, at in status["disruptedPods"].items()
            }
        return {"spec": spec, "status": status}

    def _node(self, obj: dict[str, Any]) -> dict[str, Any]:
        spec, status = dict(obj.get("spec", {})), dict(obj.get("status", {}))
        spec["taints"] = [self._taint(taint) for taint in spec.get("taints", [])]
        status["conditions"] = _conditions(status)
        return {"spec": spec, "status": status}

    def _taint(self, taint: dict[str, Any]) -> dict[str, Any]:
        return {
            **taint,
            "key": self._alias("key", taint.get("key", "")),
            "value": self._alias("value", taint.get("value", "")),
        }

    def _pod(self, obj: dict[str, Any]) -> dict[str, Any]:
        alias, spec = self._alias, dict(obj["spec"])
        status = {key: it for key, it in obj.get("status", {}).items() if key != "reason"}
        for place, key, use in (
            (spec, "schedulerName", "scheduler"),
            (spec, "nodeName", "node"),
            (spec, "priorityClassName", "class"),
            (status, "nominatedNodeName", "node"),
        ):
            if key in place:
                place[key] = alias(use, place[key])
        if "schedulingGroup" in spec:
            group = spec["schedulingGroup"].get("podGroupName", "")
            spec["schedulingGroup"] = {"podGroupName": alias("job", group)}
        spec["nodeSelector"] = self._pairs(spec.get("nodeSelector", {}))
        spec["affinity"] = self._constraint(spec.get("affinity", {}))
        spec["tolerations"] = [self._taint(it) for it in spec.get("tolerations", [])]
        for key in ("containers", "initContainers"):
            spec[key] = [self._container(it) for it in spec.get(key, [])]
        gates = spec.get("schedulingGates", [])
        spec["schedulingGates"] = [{"name": alias("gate", it.get("name", ""))} for it in gates]
        spec["resourceClaims"] = self._devices.references(spec.get("resourceClaims", []))
        status["resourceClaimStatuses"] = self._devices.references(
            obj.get("status", {}).get("resourceClaimStatuses", [])
        )
        spec["volumes"] = self._pod_volumes(obj["metadata"]["name"], spec.get("volumes", []))
        status["conditions"] = _conditions(status)
        return {"spec": {key: value for key, value in spec.items() if value}, "status": status}

    def _pod_volumes(self, pod: str, volumes: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the claims of a pod; a claim created for the pod gets its final name."""
        alias = self._alias
        names = [
            it["persistentVolumeClaim"].get("claimName", "")
            for it in volumes
            if "persistentVolumeClaim" in it
        ]
        return [{"persistentVolumeClaim": {"claimName": alias("claim", it)}} for it in names] + [
            {"persistentVolumeClaim": {"claimName": alias("claim", f"{pod}-{it.get('name', '')}")}}
            for it in volumes
            if "ephemeral" in it
        ]

    def _claim(self, obj: dict[str, Any]) -> dict[str, Any]:
        spec = dict(obj.get("spec", {}))
        for key, use in (("volumeName", "volume"), ("storageClassName", "storage")):
            if key in spec:
                spec[key] = self._alias(use, spec[key])
        return {"spec": spec, "status": obj.get("status", {})}

    def _volume(self, obj: dict[str, Any]) -> dict[str, Any]:
        return {"spec": self._constraint(obj.get("spec", {}))}

    def _storage_class(self, obj: dict[str, Any]) -> dict[str, Any]:
        alias, terms = self._alias, obj.get("allowedTopologies", [])
        allowed = [
            {
                "matchLabelExpressions": [
                    {
                        "key": alias("key", it.get("key", "")),
                        "values": [
                            alias("node" if it.get("key") == _HOSTNAME else "value", value)
                            for value in it.get("values", [])
                        ],
                    }
                    for it in term.get("matchLabelExpressions", [])
                ]
            }
            for term in terms
        ]
        has_none = obj.get("provisioner", "") in ("", NO_PROVISIONER)
        return {
            "provisioner": NO_PROVISIONER if has_none else "provisioner",
            "volumeBindingMode": obj.get("volumeBindingMode", "Immediate"),
            "allowedTopologies": allowed,
        }

    def _container(self, container: dict[str, Any]) -> dict[str, Any]:
        new = {**container, "name": self._alias("container", container.get("name", ""))}
        new["ports"] = [
            {**port, "hostIP": self._address(port.get("hostIP", ""))}
            for port in container.get("ports", [])
        ]
        return new

    def _address(self, address: str) -> str:
        return address if address in _WILD else self._alias("value", address)

    def _pairs(self, pairs: dict[str, str]) -> dict[str, str]:
        alias = self._alias
        return {
            alias("key", key): alias("node" if key == _HOSTNAME else "value", value)
            for key, value in pairs.items()
        }

    def _constraint(self, value: Any) -> Any:
        """Return any part of an affinity; its keys tell which parts hold names."""
        if isinstance(value, list):
            return [self._constraint(it) for it in value]
        if not isinstance(value, dict):
            return value
        alias = self._alias
        if "operator" in value and "key" in value:
            use = "node" if value["key"] in {_HOSTNAME, "metadata.name"} else "value"
            is_field = value["key"] == "metadata.name"
            return {
                "key": value["key"] if is_field else alias("key", value["key"]),
                "operator": value["operator"],
                "values": [alias(use, it) for it in value.get("values", [])],
            }
        new: dict[str, Any] = {}
        for key, part in value.items():
            if key == "matchLabels":
                new[key] = self._pairs(part)
            elif key == "topologyKey":
                new[key] = alias("key", part)
            elif key == "namespaces":
                new[key] = [alias("namespace", it) for it in part]
            else:
                new[key] = self._constraint(part)
        return new


def _conditions(status: dict[str, Any]) -> list[dict[str, Any]]:
    kept = ("type", "status", "lastTransitionTime")
    return [{key: it[key] for key in kept if key in it} for it in status.get("conditions", [])]


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
            else:
                _find_keys(part, found)
