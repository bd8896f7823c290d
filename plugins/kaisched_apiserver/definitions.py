"""CustomResourceDefinitions: which kinds they bring, and how the definition itself is answered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kaisched_apiserver.resources import Registry, Resource
from kaisched_apiserver.statuses import FieldFault, invalid, required, wrong

KEY = ("apiextensions.k8s.io", "customresourcedefinitions")


def complete_definition(resource: Resource, definition: dict[str, Any], now: str) -> None:
    """Give a definition its defaults and the status of one that is served.

    Raises:
        ApiError: 422, it is not complete.

    """
    name = definition["metadata"]["name"]
    spec = definition.get("spec")
    faults = list(_faults(name, spec))
    if faults or not isinstance(spec, dict):
        raise invalid(resource, name, faults or [required("spec")])
    names = spec["names"]
    names.setdefault("singular", names["kind"].lower())
    names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})
    conditions = [
        _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
        _condition("Established", "InitialNamesAccepted", "the initial names were accepted", now),
    ]
    stored = next(it["name"] for it in spec["versions"] if it.get("storage"))
    status = definition.get("status") or {}
    definition["status"] = {
        "conditions": status.get("conditions") or conditions,
        "acceptedNames": names,
        "storedVersions": sorted({*(status.get("storedVersions") or []), stored}),
    }


def _condition(type_: str, reason: str, message: str, now: str) -> dict[str, str]:
    return {
        "type": type_,
        "status": "True",
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def _faults(name: str, spec: Any) -> Iterator[FieldFault]:
    if not isinstance(spec, dict):
        yield required("spec")
        return
    names = spec.get("names") or {}
    for part in ("plural", "kind"):
        if not names.get(part):
            yield required(f"spec.names.{part}")
    if not spec.get("group"):
        yield required("spec.group")
    if spec.get("scope") not in {"Namespaced", "Cluster"}:
        yield required("spec.scope")
    if name != f"{names.get('plural')}.{spec.get('group')}":
        yield wrong("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    versions = spec.get("versions") or []
    if sum(bool(it.get("storage")) for it in versions) != 1:
        yield wrong("spec.versions", "", "must have exactly one version marked as storage version")
    for at, version in enumerate(versions):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            yield required(f"spec.versions[{at}].schema.openAPIV3Schema")


def serve(registry: Registry, definition: dict[str, Any]) -> list[Resource]:
    """Serve the kind of a definition in each of its served versions; return them."""
    spec = definition["spec"]
    registry.remove(spec["group"], spec["names"]["plural"])
    served = list(_resources(spec))
    for resource in served:
        registry.add(resource)
    return served


def _resources(spec: dict[str, Any]) -> Iterator[Resource]:
    names = spec["names"]
    stored = next(it["name"] for it in spec["versions"] if it.get("storage"))
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        subresources = version.get("subresources") or {}
        selectable = tuple(
            it["jsonPath"].lstrip(".") for it in version.get("selectableFields") or ()
        )
        yield Resource(
            spec["group"],
            version["name"],
            names["plural"],
            names["kind"],
            is_namespaced=spec["scope"] == "Namespaced",
            short_names=tuple(names.get("shortNames") or ()),
            has_status="status" in subresources,
            generation="all",
            singular=names["singular"],
            categories=tuple(names.get("categories") or ()),
            is_custom=True,
            stored_version=stored,
            schema=version["schema"]["openAPIV3Schema"],
            columns=version.get("additionalPrinterColumns") or (),
            selectable=selectable,
        )
