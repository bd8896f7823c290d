"""What becomes of new and changed objects: what all share, and what each kind has of its own."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from kaisched_apiserver import definitions
from kaisched_apiserver.definitions import faults_of, fill_in, prune
from kaisched_apiserver.pods import amount_text, complete_pod, complete_pod_update, settle_gates
from kaisched_apiserver.resources import Resource
from kaisched_apiserver.statuses import (
    FieldFault,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_allowed,
    required,
    wrong,
)
from kaisched_apiserver.storage import Storage

# What every object has: names, identity, versions, and which of it a write may change.


_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED: Final = re.compile(r"([-A-Za-z0-9.]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_FREE_NAMES: Final = ("rbac.authorization.k8s.io",)
_SHORT_NAMES: Final = ("namespaces", "services")
_LONGEST_NAME: Final = 253
_LONGEST_LABEL: Final = 63
_SUFFIX: Final = 5
_LONGEST_PREFIX: Final = _LONGEST_LABEL - _SUFFIX
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_KEPT: Final = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "namespace",
)
_BAD_NAME: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or"
    " '.', and must start and end with an alphanumeric character"
)
_BAD_KEY: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end"
    " with an alphanumeric character"
)
_BAD_VALUE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or"
    " '.', and must start and end with an alphanumeric character"
)


def metadata_of(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of an object, made if it has none.

    Raises:
        ApiError: 400, it is no mapping, or its maps are not of texts.

    """
    meta = obj.get("metadata")
    if meta is None:
        meta = obj["metadata"] = {}
    if not isinstance(meta, dict):
        raise bad_request("metadata must be an object")
    for name in ("labels", "annotations"):
        texts = meta.get(name)
        if texts is None:
            meta.pop(name, None)
        elif not isinstance(texts, dict) or not all(isinstance(it, str) for it in texts.values()):
            raise bad_request(f"metadata.{name} must be a map of strings")
    return meta


def stamp(resource: Resource, obj: dict[str, Any], namespace: str, now: str) -> None:
    """Give a new object its identity.

    Raises:
        ApiError: 400, its namespace is another than the path's; 422, its name or labels are wrong.

    """
    meta = metadata_of(obj)
    prefix = meta.get("generateName")
    if not meta.get("name") and prefix:
        meta["name"] = f"{prefix[:_LONGEST_PREFIX]}{_suffix()}"
    if resource.is_namespaced:
        if meta.get("namespace", namespace) != namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the"
                " request"
            )
        meta["namespace"] = namespace
    else:
        meta.pop("namespace", None)
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink"):
        meta.pop(name, None)
    meta["uid"] = str(uuid.uuid4())
    meta["creationTimestamp"] = now
    meta["generation"] = 1
    if resource.generation == "none":
        del meta["generation"]
    faults = metadata_faults(resource, meta)
    if faults:
        raise invalid(resource, meta.get("name") or "", faults)


def _suffix() -> str:
    value = uuid.uuid4().int
    return "".join(_LETTERS[(value >> (5 * it)) % len(_LETTERS)] for it in range(_SUFFIX))


def metadata_faults(resource: Resource, meta: dict[str, Any]) -> list[FieldFault]:
    """Return what is wrong with names and labels."""
    name = meta.get("name")
    if not name or not isinstance(name, str):
        return [
            FieldFault(
                "metadata.name",
                "FieldValueRequired",
                "Required value: name or generateName is required",
            )
        ]
    faults: list[FieldFault] = []
    is_short = resource.key[1] in _SHORT_NAMES and not resource.group
    pattern, longest = (_LABEL, _LONGEST_LABEL) if is_short else (_SUBDOMAIN, _LONGEST_NAME)
    prefix = str(meta.get("generateName") or "")
    # A prefix must be fit for a name too, but for one dash at its end.
    stem = f"{prefix[:-2]}a" if prefix[1:].endswith("-") else prefix
    for field, value, tried in (("generateName", prefix, stem), ("name", name, name)):
        is_bad = value and (len(value) > longest or not pattern.fullmatch(tried))
        if is_bad and resource.group not in _FREE_NAMES:
            faults.append(wrong(f"metadata.{field}", value, _BAD_NAME))
    for key, value in (meta.get("labels") or {}).items():
        if not _QUALIFIED.fullmatch(key) or len(key.rpartition("/")[2]) > _LONGEST_LABEL:
            faults.append(wrong("metadata.labels", key, _BAD_KEY))
        if len(value.encode()) > _LONGEST_LABEL:
            faults.append(wrong("metadata.labels", value, "must be no more than 63 bytes"))
        elif not _VALUE.fullmatch(value):
            faults.append(wrong("metadata.labels", value, _BAD_VALUE))
    for at, owner in enumerate(meta.get("ownerReferences") or []):
        faults += [
            required(f"metadata.ownerReferences[{at}].{part}")
            for part in ("apiVersion", "kind", "name", "uid")
            if not owner.get(part)
        ]
    return faults


def carry_over(
    resource: Resource, old: dict[str, Any], new: dict[str, Any], *, is_patch: bool
) -> None:
    """Check what an update supposes about an object and keep what it may not change.

    Raises:
        ApiError: 409, another version or identity; 422, an identity was patched or is no name.

    """
    was, meta = old["metadata"], metadata_of(new)
    name = was["name"]
    uid = meta.get("uid")
    if uid and uid != was["uid"]:
        if is_patch:
            raise invalid(resource, name, [wrong("metadata.uid", uid, "field is immutable")])
        raise precondition_conflict(resource, was, "uid", uid)
    version = meta.get("resourceVersion")
    if version and version != was["resourceVersion"]:
        raise conflict(resource, name)
    if meta.get("name", name) != name:
        raise bad_request(
            f"the name of the object ({meta['name']}) does not match the name on the URL ({name})"
        )
    meta["name"] = name
    meta["resourceVersion"] = was["resourceVersion"]
    for part in (*_KEPT, "generateName"):
        if part in was:
            meta[part] = was[part]
        else:
            meta.pop(part, None)
    meta.pop("managedFields", None)
    faults = metadata_faults(resource, meta)
    if faults:
        raise invalid(resource, name, faults)


def precondition_conflict(
    resource: Resource, meta: dict[str, Any], part: str, meant: str
) -> Exception:
    """Return the conflict of a write that is meant for another object or version of the name."""
    namespace, has = meta.get("namespace"), "UID" if part == "uid" else "ResourceVersion"
    path = f"{namespace}/{meta['name']}" if namespace else meta["name"]
    return conflict(
        resource,
        meta["name"],
        "StorageError: invalid object, Code: 4, Key: /registry/"
        f"{resource.plural}/{path}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed:"
        f" {has} in precondition: {meant}, {has} in object meta: {meta[part]}",
    )


def count_generation(resource: Resource, old: dict[str, Any], new: dict[str, Any]) -> None:
    """Begin a new generation where the update is one."""
    if resource.generation == "none":
        return
    if resource.generation == "spec" and not resource.is_custom:
        is_new = old.get("spec") != new.get("spec")
    else:
        left_out = ("metadata", "status") if resource.has_status else ("metadata",)
        parts = (old.keys() | new.keys()) - set(left_out)
        is_new = any(old.get(it) != new.get(it) for it in parts)
    if is_new:
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


# Claims on devices: what the server checks about them, and what a kubelet does.


CLAIMS: Final = ("resource.k8s.io", "resourceclaims")
_MOST_USERS: Final = 256


# -- what the server checks ----------------------------------------------------------------------


def check_claim(
    resource: Resource, old: dict[str, Any], new: dict[str, Any], subresource: str, now: str
) -> None:
    """Refuse a change of a claim that a server refuses; an allocation gets its time.

    Raises:
        ApiError: 422.

    """
    if subresource == "status":
        new["metadata"] = dict(old["metadata"])
        faults = list(_status_faults(old, new))
    else:
        faults = list(_faults(old, new))
    if faults:
        raise invalid(resource, old["metadata"]["name"], faults)
    allocation = (new.get("status") or {}).get("allocation")
    if allocation is not None and not allocation.get("allocationTimestamp"):
        allocation["allocationTimestamp"] = now


def _faults(old: dict[str, Any], new: dict[str, Any]) -> Iterator[FieldFault]:
    if new.get("spec") != old.get("spec"):
        yield wrong("spec", "...", "field is immutable")
    before = old["metadata"].get("finalizers") or ()
    added = [it for it in new["metadata"].get("finalizers") or () if it not in before]
    if added and "deletionTimestamp" in old["metadata"]:
        why = "no new finalizers can be added if the object is being deleted"
        yield not_allowed("metadata.finalizers", f"{why}, found new finalizers {added}")


def _status_faults(old: dict[str, Any], new: dict[str, Any]) -> Iterator[FieldFault]:
    before, now = old.get("status") or {}, new.get("status") or {}
    had, has = before.get("allocation"), now.get("allocation")
    if had is not None and has is not None and had != has:
        yield wrong("status.allocation", "...", "field is immutable")
    users = now.get("reservedFor") or []
    if users and has is None:
        yield not_allowed("status.reservedFor", "may not be specified when `allocated` is not set")
    if len(users) > _MOST_USERS:
        yield wrong("status.reservedFor", len(users), f"must have at most {_MOST_USERS} items")
    known = {it.get("uid") for it in before.get("reservedFor") or ()}
    if "deletionTimestamp" in old["metadata"] and any(it.get("uid") not in known for it in users):
        why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp`"
        yield not_allowed("status.reservedFor", f"{why} are set")


# -- what a kubelet checks -----------------------------------------------------------------------


def claims_of(pod: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield (name, whether it is the pod's own) of its claims; no name if it is not made yet."""
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    made = {it["name"]: it.get("resourceClaimName", "") for it in statuses}
    for ref in pod["spec"].get("resourceClaims") or ():
        if ref.get("resourceClaimName"):
            yield ref["resourceClaimName"], False
        elif made.get(ref["name"], "?"):
            yield made.get(ref["name"], ""), True
    generated = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    if generated.get("resourceClaimName"):
        yield generated["resourceClaimName"], True


def why_not_prepared(storage: Storage, pod: dict[str, Any]) -> str:
    """Return why a kubelet does not start a pod with claims yet; empty if it does."""
    meta = pod["metadata"]
    for name, is_own in claims_of(pod):
        record = storage.get(CLAIMS, f"{meta['namespace']}/{name}")
        if record is None:
            return f"claim {name} does not exist"
        claim = record.object()
        owners = claim["metadata"].get("ownerReferences") or ()
        if is_own and all(it.get("uid") != meta["uid"] for it in owners):
            return f"claim {name} is not the pod's own"
        status = claim.get("status") or {}
        if all(it.get("uid") != meta["uid"] for it in status.get("reservedFor") or ()):
            return f"claim {name} is not reserved for the pod"
        if status.get("allocation") is None:
            return f"claim {name} has no devices"
    return ""


# What becomes of new and changed objects of each kind, beyond what all objects share.


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
