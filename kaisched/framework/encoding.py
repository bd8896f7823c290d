"""The canonical bytes of a cycle's result: what replay and the laws compare."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kaisched.framework.report.records import CycleResult

_ROWS = frozenset({"task", "node_row"})
"""Row numbers are the store's own business: two stores of the same objects may differ in them."""


def encode_result(result: CycleResult) -> bytes:
    """Return compact JSON with sorted keys."""
    document = {
        "binds": [_intent(intent) for intent in result.binds],
        "evictions": [_intent(intent) for intent in result.evictions],
        "nominations": [_intent(intent) for intent in result.nominations],
        "records": [asdict(record) for record in result.records],
        "shares": [asdict(share) for share in result.shares],
        "stats": asdict(result.stats),
        "failures": [asdict(failure) for failure in result.failures],
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _intent(intent: Any) -> dict[str, Any]:
    return {
        field.name: getattr(intent, field.name)
        for field in fields(intent)
        if field.name not in _ROWS
    }
