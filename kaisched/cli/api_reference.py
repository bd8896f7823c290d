"""The generated page docs/reference/api.md: the paths of the live view and their documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from kaisched.view import api
from kaisched.view.api import ALWAYS, ENDPOINTS, PARAMETERS, WHATIF_MEANING
from kaisched.view.paths import CHANGES, OPENAPI, ROOT, WHATIF

if TYPE_CHECKING:
    from collections.abc import Iterator

INTRODUCTION: Final = f"""\
`kaisched run --view` serves what its last cycle found under `{ROOT}`, on `127.0.0.1:8083` unless
[`view.bindAddress` and `view.port`](settings.md) say otherwise. [The live
view](../explanation/live-view.md) says how to read it, who sees what, and what it costs.

```sh
kaisched run --view -f cluster.yaml &
curl -s 'localhost:8083{ROOT}/jobs?queue=team-a&state=pending&messages'
curl -sN localhost:8083{CHANGES}
```

The version is in the path and in `schemaVersion`; within it, paths, parameters and fields are
only ever added. The API is read-only: GET and HEAD. `{OPENAPI}` has this page as an OpenAPI 3.1
document.

"""


def api_page() -> Iterator[str]:
    """Yield the lines of docs/reference/api.md behind its title."""
    yield from INTRODUCTION.splitlines()
    yield from ("## Paths", "", "| path | document | parameters |", "|---|---|---|")
    for it in ENDPOINTS:
        asked = (*ALWAYS, *it.parameters) if it.path else ()
        names = ", ".join(f"`{name}`" for name in asked)
        kind = it.document.__name__
        shown = f"`{ROOT}{it.path}`"
        yield f"| {shown} | {it.meaning} [{kind}](#{kind.lower()}) | {names} |"
    yield f"| `{WHATIF}` | {WHATIF_MEANING} | `shard`, `target`, `set` |"
    yield f"| `{CHANGES}` | The stream of changes. | |"
    yield f"| `{OPENAPI}` | This page for programs. | |"
    yield from ("", "## Parameters", "", "| parameter | meaning | values |", "|---|---|---|")
    for asked_for in PARAMETERS.values():
        yield f"| `{asked_for.name}` | {asked_for.meaning} | {_values(asked_for.schema)} |"
    yield from ("", "## Documents")
    yield from _shapes()


def _values(of: dict[str, Any]) -> str:
    if "enum" in of:
        return ", ".join(f"`{it}`" for it in of["enum"])
    if "maximum" in of:
        return f"{of['minimum']} to {of['maximum']}; {of['default']}"
    return "" if of["type"] == "string" else str(of["type"])


def _shapes() -> Iterator[str]:
    shapes = [it.document for it in ENDPOINTS] + [api.Error]
    _, found = msgspec.json.schema_components(dict.fromkeys(shapes), ref_template="#{name}")
    first = {it.encode_name for it in msgspec.structs.fields(api.Document)}
    order = dict.fromkeys(it.__name__ for it in shapes)
    yield from ("", "Every document of a shard begins with these fields:")
    yield from _table(msgspec.json.schema(api.Document)["$defs"]["Document"], set())
    for name in (*order, *sorted(found.keys() - order)):
        shape = found[name]
        hidden = first if first <= shape["properties"].keys() else set()
        yield from ("", f"### {name}", "", shape["description"])
        yield from _table(shape, hidden)


def _table(shape: dict[str, Any], hidden: set[str]) -> Iterator[str]:
    yield from ("", "| field | type | meaning |", "|---|---|---|")
    for name, of in shape["properties"].items():
        if name not in hidden:
            yield f"| `{name}` | {_type(of)} | {of.get('description', '')} |"


def _type(of: dict[str, Any]) -> str:
    if "$ref" in of:
        name = of["$ref"].lstrip("#")
        return f"[{name}](#{name.lower()})"
    if "anyOf" in of:
        return " or ".join(_type(it) for it in of["anyOf"])
    if "enum" in of:
        return ", ".join("null" if it is None else f"`{it}`" for it in of["enum"])
    if of.get("type") == "array":
        return f"list of {_type(of['items'])}"
    if of.get("type") == "object":
        inner = of.get("additionalProperties")
        return f"object of {_type(inner)}" if isinstance(inner, dict) else "object"
    return str(of.get("type", "any"))
