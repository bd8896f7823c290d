"""``python -m tests.benchmarks [NAME ...] [-o json] [--repeat N]``: run and report.

Exits with 1 when a benchmark's own check fails. A missed target is reported and fails nothing: it
depends on the machine.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.benchmarks.catalogue import ROWS

ROOT = Path(__file__).resolve().parents[2]


def machine() -> dict[str, Any]:
    cpu = platform.processor()
    described = Path("/proc/cpuinfo")
    if described.exists():
        models = [line for line in described.read_text().splitlines() if "model name" in line]
        cpu = models[0].partition(":")[2].strip() if models else cpu
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": platform.python_version(),
        "numpy": version("numpy"),
    }


def run(number: int, repeat: int) -> dict[str, Any]:
    """Run one row in a fresh process."""
    command = [sys.executable, "-m", "tests.benchmarks.worker", str(number), str(repeat)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        print(done.stderr, file=sys.stderr)
        blank = dict.fromkeys(("median_s", "p99_s", "peak_mib", "ratio"))
        error = {"error": lines[-1]}
        return {"name": ROWS[number].name, **blank, "checked": False, "detail": error}
    return json.loads(done.stdout)


def milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:,.2f}" if seconds < 1 else f"{1000 * seconds:,.0f}"


_TIMES = {
    "median_s",
    "p999_s",
    "cpu_s",
    "added_cpu_s",
    "p99_cpu_s",
    "cpu_s_per_day",
    "collection_s",
}
_PROBES = {"probe_s", "probe_median_s", "probe_p99_s", "control_s"}


def value(of: str, amount: float) -> str:
    """Write a figure in its unit, short."""
    if of in _TIMES | _PROBES:
        return f"{1000 * amount:,.3g} ms" if amount < 1 else f"{amount:.3g} s"
    if of == "peak_mib":
        return f"{amount:.0f} MiB"
    if of == "pod_us":
        return f"{amount:.0f} us"
    if of == "late_imports":
        return f"{amount:.0f}"
    is_part = of == "loss" or of.startswith("free_")
    return f"{amount:.1%}" if is_part else f"{amount:.2f}x"


def compact(ratio: float) -> str:
    """Write a ratio in seven places at most."""
    return f"{ratio:,.0f}" if ratio < 1e6 else f"{ratio / 1e6:.1f}M"


HEADER = f"{'milliseconds':<32}{'median':>9}{'p99':>9}{'MiB':>5}{'ratio':>8}  target"


def lines_of(row: dict[str, Any]) -> list[str]:
    """Return a row's lines: the figures, and a line more for what the columns have no room for."""
    detail = row["detail"]
    if not row["checked"]:
        return [f"{row['name']:<32}  WRONG: {detail['error']}"[:79]]
    marks = ["ok" if target["met"] else "missed" for target in detail["targets"]]
    first = detail["targets"][0]
    line = (
        f"{row['name']:<32}{milliseconds(row['median_s']):>9}{milliseconds(row['p99_s']):>9}"
        f"{row['peak_mib']:>5.0f}{compact(row['ratio']):>8}  "
    )
    if first["of"] == "median_s":
        lines = [f"{line}{value('median_s', first['most'])} {marks[0]}"]
    else:
        said = f"{first['of'].replace('_', ' ')} {value(first['of'], detail[first['of']])}"
        lines = [line.rstrip(), f"  {said}, target {value(first['of'], first['most'])} {marks[0]}"]
    lines += [
        f"  {target['of'].partition('_')[0]} target {value(target['of'], target['most'])} {mark}"
        for target, mark in zip(detail["targets"][1:], marks[1:], strict=True)
    ]
    if "control_s" in detail:
        told = {name: value(name, detail[name]) for name in _PROBES}
        lines += [
            f"  probes: median {told['probe_median_s']}, p99 {told['probe_p99_s']}",
            f"  slowest probe of a process that nobody attacks: {told['control_s']}",
        ]
    if "cold" in detail:
        cold = detail["cold"]
        lines.append(
            f"{'   cold':<32}{milliseconds(cold['median_s']):>9}{milliseconds(cold['p99_s']):>9}"
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    names = sorted({row.benchmark for row in ROWS})
    parser.add_argument("name", nargs="*", type=str.upper, help=f"of {', '.join(names)}; all")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--repeat", type=int, default=0, help="times each row is measured")
    given = parser.parse_args(arguments)
    if unknown := sorted(set(given.name) - set(names)):
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(names)}")
    if given.repeat < 0:
        parser.error("--repeat must be at least 1")
    host = machine()
    is_table = given.output == "table"
    if is_table:
        print(f"{host['cpu']}, {host['cores']} cores, load {host['load']}")
        print(f"Python {host['python']}, numpy {host['numpy']}\n\n{HEADER}", flush=True)
    rows = []
    for number, row in enumerate(ROWS):
        if given.name and row.benchmark not in given.name:
            continue
        # Some take minutes: a run that is cut short has said what it was at.
        print(f"measuring {row.name}", file=sys.stderr, flush=True)
        rows.append(run(number, given.repeat))
        if is_table:
            print("\n".join(lines_of(rows[-1])), flush=True)
    if not is_table:
        print(json.dumps({"machine": host, "benchmarks": rows}, indent=1))
    return int(bool(tell_wrong(rows)))


def tell_wrong(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Name the rows whose result is wrong, and return them."""
    wrong = [row for row in rows if not row["checked"]]
    for row in wrong:
        print(f"wrong result: {row['name']}: {row['detail']['error']}", file=sys.stderr)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
