"""Enough OpenAPI for ``kubectl apply`` and ``kubectl explain``.

Patches may be validated by the server. Kinds have the fields of their definitions; built-in kinds
have those that the scheduler reads.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from kaisched_apiserver.resources import Registry, Resource

_EVERY: Final[dict[str, dict[str, Any]]] = {
    "apiVersion": {"type": "string", "description": "Group and version of the kind."},
    "kind": {"type": "string", "description": "The kind."},
    "metadata": {"type": "object", "description": "Name, namespace, labels and annotations."},
}
_READ: Final = "The fields that the scheduler reads; the playground keeps all others too."
_UNKNOWN: Final = "The playground keeps objects of this kind and knows none of their fields."
_QUERY: Final = ("dryRun", "fieldManager", "fieldValidation", "force")


def openapi_index(registry: Registry) -> dict[str, Any]:
    """Return where the document of each group and version is."""
    paths = ["api/v1"]
    for group, versions in registry.groups().items():
        paths += [f"apis/{group}/{version}" for version in versions]
    return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in paths}}


def openapi_of(registry: Registry, path: str) -> dict[str, Any] | None:
    """Return the document of a group and version, such as ``apis/batch/v1``; None if not served."""
    prefix, _, rest = path.partition("/")
    group, _, version = rest.rpartition("/")
    resources = registry.of(group, version) if prefix in {"api", "apis"} else []
    if not resources:
        return None
    paths = {_path(path, resource): {"patch": _patch(resource)} for resource in resources}
    return {
        "openapi": "3.0.0",
        "info": {"title": "kaisched", "version": "v1"},
        "paths": paths,
        "components": {"schemas": {_name(it): _schema(it) for it in resources}},
    }


def _name(resource: Resource) -> str:
    return ".".join(filter(None, (resource.group, resource.version, resource.kind)))


def _schema(resource: Resource) -> dict[str, Any]:
    """Return the form of a kind, with its identity."""
    schema = _forms().get((resource.api_version, resource.kind)) or resource.schema or {}
    known = schema.get("properties") or {}
    properties = {**known, **_EVERY}
    names = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return {
        "type": "object",
        "description": schema.get("description") or _UNKNOWN,
        **schema,
        "properties": properties,
        "x-kubernetes-group-version-kind": [names],
    }


@cache
def _forms() -> dict[tuple[str, str], dict[str, Any]]:
    """Return the form of each kind that the scheduler reads, by API version and kind."""
    # Read when somebody asks: no other request needs it.
    from kaisched.objects.crds import (  # noqa: PLC0415
        custom_resource_definitions,
        struct_schema,
    )
    from kaisched.objects.decode import KINDS  # noqa: PLC0415

    found: dict[tuple[str, str], dict[str, Any]] = {}
    for type_ in KINDS:
        try:
            form = struct_schema(type_, {})
        except TypeError:
            continue  # a field of any form: nothing to say beyond the name
        found[type_.API_VERSION, type_.KIND] = {**form, "description": _READ}
    for definition in custom_resource_definitions().values():
        spec = definition["spec"]
        for version in spec["versions"]:
            api_version = f"{spec['group']}/{version['name']}"
            form = version["schema"]["openAPIV3Schema"]
            found[api_version, spec["names"]["kind"]] = form
    return found


def _path(prefix: str, resource: Resource) -> str:
    namespace = "namespaces/{namespace}/" if resource.is_namespaced else ""
    return f"/{prefix}/{namespace}{resource.plural}/{{name}}"


def _patch(resource: Resource) -> dict[str, Any]:
    return {
        "operationId": f"patch{resource.kind}",
        "parameters": [
            {"name": name, "in": "query", "schema": {"type": "string"}} for name in _QUERY
        ],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {
            "group": resource.group,
            "version": resource.version,
            "kind": resource.kind,
        },
    }
