"""What is served: versions, groups and kinds, and enough OpenAPI for kubectl."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from kaisched_apiserver.access import REVIEWS
from kaisched_apiserver.answers import Answer
from kaisched_apiserver.resources import VERBS, Registry, Resource
from kaisched_apiserver.storage import encode

# Enough OpenAPI for ``kubectl apply`` and ``kubectl explain``.
#
# Patches may be validated by the server. Kinds have the fields of their definitions; built-in kinds
# have those that the scheduler reads.


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


# What is served: versions, groups and kinds, as clients look for them before anything else.


_VERSION: Final = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.0+kaisched",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
_HEALTH: Final = ("/healthz", "/livez", "/readyz")
_STATUS_VERBS: Final = ["get", "patch", "update"]


def page_of(registry: Registry, path: str) -> Answer | None:
    """Return what is served under a path that names no object; None if nothing is."""
    if path in _HEALTH or path.startswith(tuple(f"{it}/" for it in _HEALTH)):
        return Answer(200, b"ok", "text/plain; charset=utf-8")
    found = _document(registry, path.rstrip("/"))
    return None if found is None else Answer(200, encode(found))


def _document(registry: Registry, path: str) -> dict[str, Any] | None:
    parts = path.split("/")[1:]
    found: dict[str, Any] | None = None
    match parts:
        case ["version"]:
            found = _VERSION
        case ["api"]:
            found = {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            groups = [_group(name, versions) for name, versions in _groups(registry).items()]
            found = {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["apis", name] if name in _groups(registry):
            found = {"apiVersion": "v1", **_group(name, _groups(registry)[name])}
        case ["api", "v1"]:
            found = _resources(registry, "", "v1")
        case ["apis", name, version] if version in _groups(registry).get(name, ()):
            found = _resources(registry, name, version)
        case ["openapi", "v3"]:
            found = openapi_index(registry)
        case ["openapi", "v3", *rest]:
            found = openapi_of(registry, "/".join(rest))
        case _:
            pass
    return found


def _groups(registry: Registry) -> dict[str, list[str]]:
    return {**registry.groups(), **{group: ["v1"] for group, _ in REVIEWS}}


def _group(name: str, versions: list[str]) -> dict[str, Any]:
    shown = [{"groupVersion": f"{name}/{it}", "version": it} for it in versions]
    return {"kind": "APIGroup", "name": name, "versions": shown, "preferredVersion": shown[0]}


def _resources(registry: Registry, group: str, version: str) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for resource in registry.of(group, version):
        rows += _rows(resource)
    if not group:
        rows.append(_row("bindings", "Binding", ["create"], is_namespaced=True))
    for (of_group, plural), (kind, is_namespaced, _) in REVIEWS.items():
        if of_group == group:
            rows.append(_row(plural, kind, ["create"], is_namespaced=is_namespaced))
    name = f"{group}/{version}" if group else version
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": name,
        "resources": rows,
    }


def _rows(resource: Resource) -> list[dict[str, Any]]:
    is_namespaced = resource.is_namespaced
    main = _row(resource.plural, resource.kind, list(VERBS), is_namespaced=is_namespaced)
    main["singularName"] = resource.singular
    if resource.short_names:
        main["shortNames"] = list(resource.short_names)
    if resource.categories:
        main["categories"] = list(resource.categories)
    rows = [main]
    if resource.has_status:
        name = f"{resource.plural}/status"
        rows.append(_row(name, resource.kind, _STATUS_VERBS, is_namespaced=is_namespaced))
    for name, kind, api_version in resource.subresources:
        row = _row(f"{resource.plural}/{name}", kind, ["create"], is_namespaced=is_namespaced)
        group, _, version = api_version.rpartition("/")
        if group:
            row |= {"group": group, "version": version}
        rows.append(row)
    return rows


def _row(name: str, kind: str, verbs: list[str], *, is_namespaced: bool) -> dict[str, Any]:
    return {
        "name": name,
        "singularName": "",
        "namespaced": is_namespaced,
        "kind": kind,
        "verbs": verbs,
    }
