"""Findings of the doctor as text, a line each, or as ``kaisched.io/doctor/v1``."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from kaisched.cli.printing import Column, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaisched.daemon.doctor import Finding

SCHEMA: Final = "kaisched.io/doctor/v1"
_COLUMNS: Final = (Column(""), Column("CHECK"), Column("FOUND"))


def print_findings(findings: Sequence[Finding], output: str) -> None:
    """Print the findings in the order of the checks, and how many of each level there are."""
    counts = {
        level: sum(finding.level == level for finding in findings)
        for level in ("ok", "warn", "fail")
    }
    if output == "json":
        checks = [asdict(finding) for finding in findings]
        print(json.dumps({"schemaVersion": SCHEMA, **counts, "checks": checks}, indent=2))  # noqa: T201
        return
    rows = [
        (finding.level, finding.check, "; ".join(filter(None, (finding.text, finding.fix))))
        for finding in findings
    ]
    print_table("Doctor", _COLUMNS, rows)
    print(", ".join(f"{count} {level}" for level, count in counts.items()))  # noqa: T201
