"""``python -m tests.conformance --cases DIR``: run a folder of cases and report."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.kueue.modes import differences, table
from tests.conformance.outcome import Outcome
from tests.conformance.reading import group_of, read
from tests.conformance.running import run

OUTCOMES = ("pass", "deviation", "fail")


def totals(outcomes: Sequence[Outcome]) -> dict[str, dict[str, dict[str, int]]]:
    """Return counts of outcomes by action, feature and kind, and over all."""
    counts: dict[str, dict[str, Counter[str]]] = {
        "all": {"cases": Counter()},
        "action": {},
        "feature": {},
        "kind": {},
    }
    for each in outcomes:
        counts["all"]["cases"][each.outcome] += 1
        by = "kind" if each.mode == "unit" else "action"
        counts[by].setdefault(each.group, Counter())[each.outcome] += 1
        for feature in each.features:
            counts["feature"].setdefault(feature, Counter())[each.outcome] += 1
    return {
        by: {name: {o: count[o] for o in OUTCOMES} for name, count in sorted(groups.items())}
        for by, groups in counts.items()
    }


def text(outcomes: Sequence[Outcome]) -> str:
    """Return the report for people."""
    lines = [
        f"{each.outcome:<9} {each.group:<18} {each.id}"
        + (f"\n          {each.detail}" if each.detail else "")
        + (f" ({each.note})" if each.note else "")
        for each in outcomes
    ]
    for by, groups in totals(outcomes).items():
        lines += ["", f"{by:<32} {'pass':>5} {'deviation':>10} {'fail':>5}"]
        lines += [
            f"  {name:<30} {count['pass']:>5} {count['deviation']:>10} {count['fail']:>5}"
            for name, count in groups.items()
        ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases; 0 when they could be run, whatever came of them, unless ``--strict``."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--cases", type=Path, required=True, help="folder of case documents")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.add_argument("--only", default="", help="run cases whose id or name contains this")
    parser.add_argument("--action", default="", help="run single cases of this action (or kind)")
    parser.add_argument(
        "--differences",
        action="store_true",
        help="list instead which of Kueue's cases the default mode decides otherwise, and the rule",
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a case fails")
    given = parser.parse_args(arguments)
    try:
        cases = list(read(given.cases))
    except (OSError, ValueError) as error:
        print(f"{error}", file=sys.stderr)
        return 2
    cases = [
        case
        for case in cases
        if given.only in case["id"] or given.only in (case.get("name") or "")
        if not given.action or group_of(case) == given.action
    ]
    if given.differences:
        print("\n".join(table(differences(cases))))
        return 0
    outcomes = [run(case) for case in cases]
    if given.output == "json":
        report = {"cases": [each.as_json() for each in outcomes], "totals": totals(outcomes)}
        print(json.dumps(report, indent=1))
    else:
        print(text(outcomes))
    return int(given.strict and any(each.outcome == "fail" for each in outcomes))


if __name__ == "__main__":
    sys.exit(main())
