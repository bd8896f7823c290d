"""Cases of a folder: every ``*.json`` document in it, in order of name."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.conformance.cluster import missing_features
from tests.conformance.outcome import Outcome


def read(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield every case; ``mode`` is ``unit`` for unit cases."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise FileNotFoundError(f"no case documents (*.json) in {folder}")
    for file in files:
        document = json.loads(file.read_text(encoding="utf-8"))
        yield from document.get("scheduling_cases") or ()
        for case in document.get("unit_cases") or ():
            yield {**case, "mode": "unit"}
        for case in document.get("cases") or ():  # of a family: what is asked is the same in all
            family = case.get("family") or document["family"]
            own = {"mode": "unit", "kind": family, "is_family": True, "in_force": case.get("mode")}
            yield {**case, **own}


def group_of(case: dict[str, Any]) -> str:
    """Return the action of a single case, ``rounds``, or the kind of a unit case."""
    if case["mode"] == "unit":
        return str(case["kind"])
    return "rounds" if case["mode"] == "rounds" else "+".join(case["actions"])


def outcome_of(case: dict[str, Any], outcome: str, detail: str = "", note: str = "") -> Outcome:
    """Return the report's entry about a case."""
    features = tuple(case.get("features") or ())
    if case["mode"] != "unit" and "NUMA" in missing_features(case["cluster"]):
        features = (*features, *({"numa"} - set(features)))
    return Outcome(case["id"], case["mode"], group_of(case), features, outcome, detail, note)
