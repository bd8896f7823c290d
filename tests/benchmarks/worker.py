"""Runs one row in this process and prints it as JSON: what ``__main__`` starts for each row."""

import json
import resource
import sys
from importlib import import_module
from typing import Any

from tests.benchmarks.catalogue import ROWS, Row
from tests.benchmarks.harness import CheckError


def report(row: Row, repeat: int) -> dict[str, Any]:
    """Return the row's part of the report; a failed check is an entry without figures."""
    try:
        measured = getattr(import_module(row.module), row.function)(repeat, **row.size)
    except CheckError as error:
        return {
            "name": row.name,
            "median_s": None,
            "p99_s": None,
            "peak_mib": None,
            "ratio": None,
            "checked": False,
            "detail": {"error": str(error)},
        }
    figures = measured.watch.summary()
    figures["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    spread = {"best_s": figures["best_s"], "cpu_s": figures["cpu_s"]}
    detail = {"repeat": repeat, **spread, **measured.detail}
    detail["targets"] = [
        {
            "of": target.of,
            "most": target.most,
            "stretch": target.stretch,
            "met": {**measured.detail, **figures}[target.of] <= target.most,
        }
        for target in row.targets
    ]
    return {
        "name": row.name,
        "median_s": figures["median_s"],
        "p99_s": figures["p99_s"],
        "peak_mib": figures["peak_mib"],
        "ratio": figures["ratio"],
        "checked": True,
        "detail": detail,
    }


if __name__ == "__main__":
    number, times = (int(argument) for argument in sys.argv[1:])
    print(json.dumps(report(ROWS[number], times or ROWS[number].repeat)))
