"""What becomes of new and changed objects of each kind, beyond what all objects share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kaisched_apiserver import definitions
from kaisched_apiserver.amounts import amount_text
from kaisched_apiserver.claim_checks import CLAIMS, check_claim
from kaisched_apiserver.pods import complete_pod, complete_pod_update, settle_gates
from kaisched_apiserver.resources import Resource
from kaisched_apiserver.schemas import faults_of, fill_in, prune
from kaisched_apiserver.statuses import bad_request, forbidden, invalid
from kaisched_apiserver.storage import Storage

_NOT_READY: Final = "node.kubernetes.io/not-ready"
_NODE_INFO: Final = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)


@dataclass(frozen=True, slots=True)
class Write:
    """What a write of one object needs to know."""

    resource: Resource
    storage: Storage
    now: str
    validation: str = ""
    """``Strict``, ``Warn`` or ``Ignore`` for fields that a schema does not name."""


def complete(write: Write, obj: dict[str, Any]) -> list[str]:
    """Make a new object whole, in place; return warnings.

    Raises:
        ApiError: the object is wrong or not allowed.

    """
    resource = write.resource
    if resource.is_custom:
        if resource.has_status:
            obj.pop("status", None)
        return _fit_schema(write, obj)
    if resource.has_status and resource.key != ("", "nodes"):
        obj.pop("status", None)
    finish = _NEW.get(resource.key)
    if finish is not None:
        finish(write, obj)
    return []


def renew(write: Write, old: dict[str, Any], new: dict[str, Any], subresource: str) -> list[str]:
    """Take from an update what it may change, in place; return warnings.

    Raises:
        ApiError: the object is wrong, or changed where it may not be.

    """
    resource = write.resource
    if subresource == "status":
        _take_status_only(resource, old, new)
    elif resource.has_status:
        _take(old, new, "status")
    if resource.is_custom:
        return _fit_schema(write, new)
    if resource.key == ("", "pods") and not subresource:
        complete_pod_update(resource, old, new)
        settle_gates(new)
    elif resource.key == definitions.KEY and not subresource:
        definitions.complete_definition(resource, new, write.now)
    elif resource.key == ("", "nodes"):
        _check_node(new)
    elif resource.key == CLAIMS:
        check_claim(resource, old, new, subresource, write.now)
    return []


def _take(old: dict[str, Any], new: dict[str, Any], part: str) -> None:
    if part in old:
        new[part] = old[part]
    else:
        new.pop(part, None)


def _take_status_only(resource: Resource, old: dict[str, Any], new: dict[str, Any]) -> None:
    """Undo all but the status; built-in kinds take labels and annotations with it."""
    for part in (old.keys() | new.keys()) - {"status", "metadata"}:
        _take(old, new, part)
    if resource.is_custom:
        new["metadata"] = dict(old["metadata"])


def _fit_schema(write: Write, obj: dict[str, Any]) -> list[str]:
    resource = write.resource
    gone = prune(obj, resource.schema)
    if gone and write.validation == "Strict":
        unknown = ", ".join(f'unknown field "{path}"' for path in gone)
        raise bad_request(f"strict decoding error: {unknown}")
    fill_in(obj, resource.schema)
    faults = list(faults_of(obj, resource.schema))
    if faults:
        raise invalid(resource, obj["metadata"]["name"], faults)
    return [] if write.validation == "Ignore" else [f'unknown field "{path}"' for path in gone]


def _new_pod(write: Write, pod: dict[str, Any]) -> None:
    classes = write.storage.collection(("scheduling.k8s.io", "priorityclasses")).records
    complete_pod(write.resource, pod, classes, write.now)


def _new_node(write: Write, node: dict[str, Any]) -> None:
    del write
    spec = node.get("spec")
    if not isinstance(spec, dict):
        spec = node["spec"] = {}
    taints = spec.get("taints") or []
    if not any(it.get("key") == _NOT_READY for it in taints):
        spec["taints"] = [*taints, {"key": _NOT_READY, "effect": "NoSchedule"}]
    status = node.get("status")
    if not isinstance(status, dict):
        status = node["status"] = {}
    if status.get("capacity"):
        status.setdefault("allocatable", dict(status["capacity"]))
    status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
    status["nodeInfo"] = dict.fromkeys(_NODE_INFO, "") | (status.get("nodeInfo") or {})
    _check_node(node)


def _check_node(node: dict[str, Any]) -> None:
    status = node.get("status") or {}
    for part in ("capacity", "allocatable"):
        amounts = status.get(part)
        if isinstance(amounts, dict):
            status[part] = {name: amount_text(value) for name, value in amounts.items()}


def _new_namespace(write: Write, namespace: dict[str, Any]) -> None:
    del write
    name = namespace["metadata"]["name"]
    labels = namespace["metadata"].setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = name
    namespace.setdefault("spec", {})["finalizers"] = ["kubernetes"]
    namespace["status"] = {"phase": "Active"}


def _new_class(write: Write, class_: dict[str, Any]) -> None:
    name = class_["metadata"]["name"]
    class_.setdefault("preemptionPolicy", "PreemptLowerPriority")
    if class_.get("globalDefault"):
        others = write.storage.collection(write.resource.key).records
        other = next((it.name for it in others.values() if it.object().get("globalDefault")), None)
        if other is not None:
            raise forbidden(
                write.resource,
                name,
                f"PriorityClass {other} is already marked as default. Only one default can exist",
            )


def _new_definition(write: Write, definition: dict[str, Any]) -> None:
    definitions.complete_definition(write.resource, definition, write.now)


def _new_job(write: Write, job: dict[str, Any]) -> None:
    del write
    spec = job.setdefault("spec", {})
    for name, value in (("parallelism", 1), ("completions", 1), ("backoffLimit", 6)):
        spec.setdefault(name, value)


_NEW: Final[dict[tuple[str, str], Callable[[Write, dict[str, Any]], None]]] = {
    ("", "pods"): _new_pod,
    ("", "nodes"): _new_node,
    ("", "namespaces"): _new_namespace,
    ("scheduling.k8s.io", "priorityclasses"): _new_class,
    ("batch", "jobs"): _new_job,
    definitions.KEY: _new_definition,
}
