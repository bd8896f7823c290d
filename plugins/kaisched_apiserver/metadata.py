"""What every object has: names, identity, versions, and which of it a write may change."""

from __future__ import annotations

import re
import uuid
from typing import Any, Final

from kaisched_apiserver.resources import Resource
from kaisched_apiserver.statuses import (
    FieldFault,
    bad_request,
    conflict,
    invalid,
    required,
    wrong,
)

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
        raise uid_conflict(resource, was, uid)
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


def uid_conflict(resource: Resource, meta: dict[str, Any], uid: str) -> Exception:
    """Return the conflict of a write that is meant for another object of the same name."""
    namespace = meta.get("namespace")
    path = f"{namespace}/{meta['name']}" if namespace else meta["name"]
    return conflict(
        resource,
        meta["name"],
        "StorageError: invalid object, Code: 4, Key: /registry/"
        f"{resource.plural}/{path}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed:"
        f" UID in precondition: {uid}, UID in object meta: {meta['uid']}",
    )


def version_conflict(resource: Resource, meta: dict[str, Any], version: str) -> Exception:
    """Return the conflict of an action that is meant for another version of the object."""
    namespace = meta.get("namespace")
    path = f"{namespace}/{meta['name']}" if namespace else meta["name"]
    return conflict(
        resource,
        meta["name"],
        "StorageError: invalid object, Code: 4, Key: /registry/"
        f"{resource.plural}/{path}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed:"
        f" ResourceVersion in precondition: {version}, ResourceVersion in object meta:"
        f" {meta['resourceVersion']}",
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
