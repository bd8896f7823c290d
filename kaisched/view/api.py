"""Description of the live view's API: its paths with their parameters, and OpenAPI from them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from kaisched.view import schema, schema_past
from kaisched.view.jobs import SORTS, STATES, WAITING
from kaisched.view.paging import MOST, USUAL
from kaisched.view.paths import CHANGES, ROOT, WHATIF

WHATIF_MEANING: Final = (
    "What other values would change, as `kaisched whatif set -o json`: `target` is `queue/NAME` or"
    " `shard`, `set` values such as `gpu.quota=8,gpu.weight=2` or `kValue=0.5`. Without them the"
    " values that may be tried. Where `snapshots.enabled` is set, for who sees everything."
)


class Parameter(NamedTuple):
    """A query parameter."""

    name: str
    meaning: str
    schema: dict[str, Any]


class Endpoint(NamedTuple):
    """A path below :data:`ROOT` and its document."""

    path: str
    """With ``{name}`` where a name stands."""
    meaning: str
    document: type[msgspec.Struct]
    parameters: tuple[str, ...] = ()


_TEXT: Final = {"type": "string"}
PARAMETERS: Final = {
    it.name: it
    for it in (
        Parameter("shard", "Which shard; the first one unless given.", _TEXT),
        Parameter(
            "at",
            "As after this cycle, or the last one before it that is kept; of a simulation, see"
            " `/api/v1/frames`.",
            {"type": "integer"},
        ),
        Parameter("queue", "This queue and those below it.", _TEXT),
        Parameter("reason", "Jobs that wait for this reason, such as `NoRoom`.", _TEXT),
        Parameter(
            "state",
            "Jobs in this state; `waiting` stands for `pending` and `partly`.",
            {"enum": [*STATES, WAITING]},
        ),
        Parameter("namespace", "Jobs of this namespace.", _TEXT),
        Parameter("name", "Entries with this text in their names.", _TEXT),
        Parameter(
            "sort",
            "The order: that of queues and turns, or by name, age, priority or GPUs; `-` before it"
            " turns it round.",
            {"enum": [*SORTS, *(f"-{it}" for it in SORTS)], "default": "order"},
        ),
        Parameter("messages", "With the sentence of each waiting job.", {"type": "boolean"}),
        Parameter("offset", "The first entry of the answer.", {"type": "integer", "default": 0}),
        Parameter(
            "limit",
            "Entries of the answer.",
            {"type": "integer", "minimum": 1, "maximum": MOST, "default": USUAL},
        ),
    )
}
ALWAYS: Final = ("shard", "at")
"""Parameters of every document but the index."""
_PART: Final = ("offset", "limit")
_JOBS: Final = ("queue", "reason", "state", "namespace", "name", "sort", "messages", *_PART)
ENDPOINTS: Final = (
    Endpoint("", "What is served here.", schema.Index),
    Endpoint("/overview", "Totals of a shard, and its last cycle.", schema.Overview),
    Endpoint("/queues", "All queues, parents before children.", schema.Queues),
    Endpoint("/queues/{name}", "One queue with those above and below it.", schema.Queues),
    Endpoint("/jobs", "Jobs that wait or run, in parts.", schema.Jobs, _JOBS),
    Endpoint(
        "/jobs/{name}",
        "Everything about one job, by its name or a pod's: `NAMESPACE/NAME`, or `NAME` where it is"
        " the only one.",
        schema.Why,
    ),
    Endpoint("/nodes", "Nodes, and who holds each.", schema.Nodes, ("name", "queue", *_PART)),
    Endpoint(
        "/evictions",
        "Evictions of the last cycles: who for whom, by which rule.",
        schema.Evictions,
        ("queue", *_PART),
    ),
    Endpoint(
        "/fairness",
        "What a queue and those directly below it held over time; without one, those at the top.",
        schema_past.Fairness,
        ("queue", *_PART),
    ),
    Endpoint("/frames", "Earlier cycles that can be looked at.", schema_past.Frames),
    Endpoint(
        "/cycles",
        "How long the last cycles took, by action and by plugin.",
        schema_past.Cycles,
    ),
)


def openapi(version: str) -> dict[str, Any]:
    """Return the API as an OpenAPI 3.1 document."""
    shapes = {it.document for it in ENDPOINTS} | {schema.Error}
    found, components = msgspec.json.schema_components(
        sorted(shapes, key=lambda it: it.__name__), ref_template="#/components/schemas/{name}"
    )
    del found
    paths = {f"{ROOT}{it.path}": {"get": _operation(it)} for it in ENDPOINTS}
    stream = {"text/event-stream": {"schema": {"type": "string"}}}
    paths[CHANGES] = {
        "get": {
            "summary": "Server-Sent Events `view`: shard, revision and cycle, at each new revision"
            " and every few seconds.",
            "responses": {"200": {"description": "The stream.", "content": stream}},
        }
    }
    paths[WHATIF] = {
        "get": {
            "summary": WHATIF_MEANING,
            "parameters": [
                {"name": it, "in": "query", "schema": _TEXT} for it in ("shard", "target", "set")
            ],
            "responses": {
                "200": {
                    "description": "The difference.",
                    "content": {"application/json": {"schema": {"type": "object"}}},
                },
                "default": {"description": "What is wrong.", "content": _json(schema.Error)},
            },
        }
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "kaisched live view", "version": version},
        "paths": paths,
        "components": {"schemas": dict(sorted(components.items()))},
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    names = [part[1:-1] for part in endpoint.path.split("/") if part.startswith("{")]
    own = [{"name": it, "in": "path", "required": True, "schema": _TEXT} for it in names]
    asked = [PARAMETERS[it] for it in ((*ALWAYS, *endpoint.parameters) if endpoint.path else ())]
    return {
        "summary": endpoint.meaning,
        "parameters": [
            *own,
            *(
                {"name": it.name, "in": "query", "description": it.meaning, "schema": it.schema}
                for it in asked
            ),
        ],
        "responses": {
            "200": {"description": "The document.", "content": _json(endpoint.document)},
            "304": {"description": "Still the one of If-None-Match."},
            "default": {"description": "What is wrong.", "content": _json(schema.Error)},
        },
    }


def _json(shape: type[msgspec.Struct]) -> dict[str, Any]:
    reference = {"$ref": f"#/components/schemas/{shape.__name__}"}
    return {"application/json": {"schema": reference}}
