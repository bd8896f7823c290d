"""Amounts of resources in pods and nodes: how they may be written, and what follows from them."""

from __future__ import annotations

import re
from typing import Any, Final

from kaisched_apiserver.statuses import FieldFault, bad_request, wrong

_AMOUNT: Final = re.compile(
    r"([+-]?)((?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?)"
)
_WHOLE: Final = re.compile(r"[+-]?[0-9]+(?:\.0*)?(?:[kMGTPE]|[KMGTPE]i)?")
_PLAIN: Final = ("cpu", "memory", "ephemeral-storage")
_BAD: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


def complete_resources(resources: dict[str, Any], path: str) -> list[FieldFault]:
    """Write the amounts of a container as texts, and let requests follow from limits.

    Returns what is wrong with them.

    Raises:
        ApiError: 400, an amount cannot be read.

    """
    for kind in ("limits", "requests"):
        amounts = resources.get(kind)
        if amounts:
            resources[kind] = {name: amount_text(value) for name, value in amounts.items()}
    limits = resources.get("limits") or {}
    if limits:
        resources["requests"] = {**limits, **(resources.get("requests") or {})}
        # The order of the real server: what was asked for first is not known any more.
        resources["requests"] = dict(sorted(resources["requests"].items()))
    requests = resources.get("requests") or {}
    faults = [
        fault
        for kind, amounts in (("limits", limits), ("requests", requests))
        for name, value in amounts.items()
        if (fault := _fault(f"{path}.{kind}[{name}]", name, value)) is not None
    ]
    for name, value in requests.items():
        if not _is_extended(name):
            continue
        if name not in limits:
            faults.append(
                FieldFault(
                    f"{path}.limits",
                    "FieldValueRequired",
                    "Required value: Limit must be set for non overcommitable resources",
                )
            )
        elif value != limits[name]:
            why = f"must be equal to {name} limit of {limits[name]}"
            faults.append(wrong(f"{path}.requests", value, why))
    return faults


def amount_text(value: object) -> str:
    """Return an amount as a text.

    Raises:
        ApiError: 400, it is no amount.

    """
    text = str(value).strip() if isinstance(value, str | int | float) else ""
    if isinstance(value, bool) or not _AMOUNT.fullmatch(text):
        raise bad_request(f"unable to parse quantity {value!r}: {_BAD}")
    return text


def _fault(path: str, name: str, value: str) -> FieldFault | None:
    if value.startswith("-"):
        return wrong(path, value, "must be greater than or equal to 0")
    if _is_extended(name) and not _WHOLE.fullmatch(value):
        return wrong(path, value, "must be an integer")
    return None


def _is_extended(name: str) -> bool:
    return name not in _PLAIN and not name.startswith("hugepages-")
