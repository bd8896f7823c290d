"""Unit cases of the division: through core.division, core.fairshare and core.shares."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kaisched.core.fairshare import Entitlements, divide_level, divide_surplus
from kaisched.core.fairshare import fair_share as divide_tree
from kaisched.core.shares import allocatable_share
from kaisched.core.tree import build_tree
from kaisched.units import UNLIMITED
from tests.conformance.amounts import RESOURCES, ROWS, Scale, weights
from tests.conformance.outcome import NotBuiltError
from tests.oracles.shares import dominant_share as dominant
from tests.oracles.shares import requestable_share as requestable

TOLERANCE = 1e-6
"""One expected share is 32.54999999999996; ours are whole thousandths of a GPU."""


def _differs(what: str, want: Mapping[str, float], got: Mapping[str, float]) -> str:
    for name, value in want.items():
        if abs(got[name] - value) > max(TOLERANCE, TOLERANCE * abs(value)):
            return f"{what}[{name}]: expected {value}, got {got[name]}"
    return ""


def _refuse_history(asked: Mapping[str, Any]) -> None:
    usage = any((queue.get(name) or {}).get("usage") for queue in asked["queues"] for name in ROWS)
    if asked.get("k_value") and usage:
        raise NotBuiltError("usage history (time_based_fairshare)")


def _rank(queues: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """Return the last rule of ties: older first, then the id."""
    order = sorted(
        range(len(queues)), key=lambda i: (queues[i].get("created_order") or 0, queues[i]["id"])
    )
    rank = np.empty(len(queues), np.int64)
    rank[order] = np.arange(len(queues))
    return rank


def _entitlements(scale: Scale, queues: Sequence[Mapping[str, Any]]) -> Entitlements:
    return Entitlements(
        deserved=scale.shares(queues, "deserved"),
        limit=scale.shares(queues, "max_allowed"),
        request=scale.shares(queues, "request"),
        weights=weights(queues),
        priority=np.array([queue.get("priority") or 0 for queue in queues], np.int64),
        rank=_rank(queues),
    )


def fair_share(case: dict[str, Any]) -> str:
    """Divide among siblings: both phases, or the surplus alone on top of what is given."""
    asked, expected = case["input"], case["expected"]
    _refuse_history(asked)
    queues = asked["queues"]
    scale = Scale.of(asked)
    group = np.zeros(len(queues), np.intp)
    amount = scale.column(asked["total"], round_up=False)[:, None]
    entitlements = _entitlements(scale, queues)
    if case["function"] == "over_quota_only":
        given = scale.shares(queues, "fair_share")
        share, left = divide_surplus(amount, group, given, entitlements, scale.unit)
    else:
        share, left = divide_level(amount, group, entitlements, scale.unit)
    for name, row in ROWS.items():
        if asked.get("resource", name) != name:
            continue
        got = {q["id"]: scale.number(name, int(share[row, at])) for at, q in enumerate(queues)}
        want = {q: named[name] for q, named in expected["fair_share"].items() if name in named}
        remaining = expected.get("remaining")
        told = _differs(f"fair share of {name}", want, got)
        if not told and remaining is not None and asked.get("resource") == name:
            rest = {"remaining": scale.number(name, int(left[row, 0]))}
            told = _differs(name, {"remaining": remaining}, rest)
        if told:
            return told
    return ""


def hierarchy_fair_share(case: dict[str, Any]) -> str:
    """Divide down a tree of queues; the requests of inner queues are given, not summed."""
    asked = case["input"]
    _refuse_history(asked)
    scale = Scale.of(asked)
    given = asked["queues"]
    created = [queue.get("created_order") or 0 for queue in given]
    tree = build_tree(
        [queue["id"] for queue in given], [queue["parent"] for queue in given], created
    )
    queues = [given[at] for at in tree.order]
    total = scale.column(asked["total"], round_up=False)
    share = divide_tree(tree, total, _entitlements(scale, queues), scale.unit)
    for name, row in ROWS.items():
        want = case["expected"].get(f"{name}_fair_share", {})
        got = {q["id"]: scale.number(name, int(share[row, at])) for at, q in enumerate(queues)}
        if told := _differs(f"fair share of {name}", want, got):
            return told
    return ""


def queues_by_priority(case: dict[str, Any]) -> str:
    """Group queues by priority, highest first: whoever is served while all want everything."""
    queues = case["input"]["queues"]
    groups: list[list[str]] = []
    while queues:
        served = _served(queues)
        groups.append(sorted(queue["id"] for queue in served))
        queues = [queue for queue in queues if queue not in served]
    priority = {queue["id"]: queue.get("priority") or 0 for queue in case["input"]["queues"]}
    return _compare_groups(case["expected"], groups, [priority[ids[0]] for ids in groups])


def _served(queues: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    count = len(queues)
    column = np.ones((RESOURCES, count), np.int64)
    entitlements = Entitlements(
        deserved=column * 0,
        limit=column * UNLIMITED,
        request=column * UNLIMITED,
        weights=column.astype(np.float64),
        priority=np.array([queue.get("priority") or 0 for queue in queues], np.int64),
        rank=_rank(queues),
    )
    amount = np.full((RESOURCES, 1), count, np.int64)
    unit = np.ones(RESOURCES, np.int64)
    share, _ = divide_level(amount, np.zeros(count, np.intp), entitlements, unit)
    return [queue for at, queue in enumerate(queues) if share[0, at] > 0]


def _compare_groups(expected: Any, groups: list[list[str]], priorities: list[int]) -> str:
    """Compare with the groups in whatever form they are stated: lists, or ids by priority."""
    for value in expected.values() if isinstance(expected, Mapping) else [expected]:
        if isinstance(value, Mapping):
            got: Any = {str(p): ids for p, ids in zip(priorities, groups, strict=True)}
            want: Any = {str(p): sorted(ids) for p, ids in value.items()}
        elif value and all(isinstance(entry, int) for entry in value):
            got, want = priorities, list(value)
        elif value and all(isinstance(entry, Mapping) for entry in value):
            got = [(p, ids) for p, ids in zip(priorities, groups, strict=True)]
            want = [(entry["priority"], sorted(entry["queues"])) for entry in value]
        else:
            got, want = groups, [sorted(ids) for ids in value]
        if got != want:
            return f"expected {want}, got {got}"
    return ""


def requestable_share(case: dict[str, Any]) -> str:
    """Return the request, capped by the limit."""
    share = {"gpu": case["input"]}
    scale = Scale.of(share)
    request, limit = (scale.shares([share], field) for field in ("request", "max_allowed"))
    got = scale.number("gpu", int(requestable(request, limit)[ROWS["gpu"], 0]))
    return _differs("requestable", {"share": case["expected"]["share"]}, {"share": got})


def dominant_share(case: dict[str, Any]) -> str:
    """Return the largest ratio of allocated to allocatable."""
    asked = case["input"]
    scale = Scale.of(asked)
    column = {
        field: scale.shares([asked["shares"]], field)
        for field in ("allocated", "deserved", "max_allowed", "fair_share")
    }
    allocatable = allocatable_share(column["deserved"], column["max_allowed"], column["fair_share"])
    rows = list(ROWS.values())
    total = scale.column(asked["total"], round_up=False)
    got = dominant(column["allocated"][rows], allocatable[rows], total[rows])
    return _differs("dominant", {"share": case["expected"]["share"]}, {"share": float(got[0])})
