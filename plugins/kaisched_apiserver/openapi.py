"""Just enough OpenAPI for ``kubectl apply``: that patches may be validated by the server."""

from __future__ import annotations

from typing import Any, Final

from kaisched_apiserver.resources import Registry, Resource

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
        "components": {"schemas": {}},
    }


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
