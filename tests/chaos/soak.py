"""Whether a process grows: samples of each life, and the slope of each figure with its error."""

import math
import threading
import time
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PERIOD_S = 10.0
LEAST = 6
"""So many samples a slope needs."""
FIGURES = {
    "memory": ("MB", "rss", 400.0),
    "threads": ("", "threads", 60.0),
    "files": ("", "files", 400.0),
    "cycle": ("ms", "cycle", 60.0),
    "history": ("kB", "history", 700.0),
}
"""Unit, field, and how much of the beginning of a life is left out: it reads the cluster, opens
connections as they are needed, and remembers a window of usage history, of five minutes; the file
keeps two of them."""
LEAST_BINDS = 100
"""With fewer, nothing is said of memory by binds."""
SECONDS, CYCLES = (f"kaisched_cycle_duration_seconds_{it}" for it in ("sum", "count"))
BINDS = "kaisched_binds_total"
_HOUR_S = 3600.0
_PAGE_MB = 4096 / 2**20


@dataclass(frozen=True, slots=True)
class Sample:
    at_s: float
    rss: float
    threads: int
    files: int
    cycle: float
    """Mean of the cycles since the last sample, in milliseconds; NaN without any."""
    history: float
    binds: float = math.nan
    """Since the start; NaN where the process did not say."""


def slope(times_s, values):
    """Return the slope an hour of a straight line through points, and its standard error."""
    count = len(times_s)
    mean_t, mean_v = sum(times_s) / count, sum(values) / count
    spread = sum((it - mean_t) ** 2 for it in times_s)
    if count < 3 or spread == 0:
        return 0.0, float("inf")
    pairs = list(zip(times_s, values, strict=True))
    rise = sum((t - mean_t) * (v - mean_v) for t, v in pairs) / spread
    left = sum((v - mean_v - rise * (t - mean_t)) ** 2 for t, v in pairs)
    return rise * _HOUR_S, (left / (count - 2) / spread) ** 0.5 * _HOUR_S


def slope_of_binds(samples):
    """Return by how much memory rises in a thousand binds, and the standard error."""
    return slope([it.binds * _HOUR_S / 1000 for it in samples], [it.rss for it in samples])


class Soak:
    """Samples every living replica from time to time."""

    def __init__(self, replicas, end):
        self._replicas, self._end = replicas, end
        self._cycles = {}
        self._thread = threading.Thread(target=self._run, name="soak", daemon=True)

    def start(self):
        self._thread.start()

    def _run(self):
        while not self._end.wait(PERIOD_S):
            for life in self._replicas.alive():
                with suppress(OSError, ValueError, IndexError):
                    life.samples.append(self._sample(life))

    def _sample(self, life):
        folders, told = _processes(life.process.pid), _told_by(life.port)
        status = [(it / "status").read_text(encoding="utf-8") for it in folders]
        pages = [(it / "statm").read_text(encoding="utf-8").split()[1] for it in folders]
        return Sample(
            time.monotonic(),
            sum(map(int, pages)) * _PAGE_MB,
            sum(int(it.partition("Threads:")[2].split()[0]) for it in status),
            sum(len(list((it / "fd").iterdir())) for it in folders),
            self._cycle_ms(life, told),
            sum(it.stat().st_size for it in life.state.rglob("*.sqlite3*")) / 1000,
            told.get(BINDS, math.nan),
        )

    def _cycle_ms(self, life, told):
        """Return the mean duration of the cycles since the last sample."""
        total_s, count = told.get(SECONDS, 0.0), told.get(CYCLES, 0.0)
        if not count:
            return float("nan")
        before_s, before = self._cycles.get(life.name, (0.0, 0.0))
        self._cycles[life.name] = total_s, count
        return 1000 * (total_s - before_s) / (count - before) if count > before else float("nan")


def _processes(pid):
    """Return the folders of a process and its children below /proc."""
    folder = Path(f"/proc/{pid}")
    told = [(it / "children").read_text(encoding="utf-8") for it in (folder / "task").iterdir()]
    return [folder, *(Path(f"/proc/{child}") for each in told for child in each.split())]


def _told_by(port):
    """Return what the metrics of a process say of cycles and binds; nothing if it is silent."""
    found = {}
    if not port:
        return found
    with (
        suppress(OSError),
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2.0) as page,
    ):
        for line in page.read().decode().splitlines():
            name, _, value = line.partition(" ")
            if name in {SECONDS, CYCLES, BINDS}:
                found[name] = float(value)
    return found


def lines_of(lives):
    """Return the slopes of all lives that lasted long enough, as lines of a table."""
    lines = []
    for life in lives:
        parts = []
        for title, (unit, name, warm_up_s) in FIGURES.items():
            samples = [it for it in life.samples if it.at_s - life.begun_s >= warm_up_s]
            points = [(it.at_s, getattr(it, name)) for it in samples]
            points = [(t, v) for t, v in points if v == v]  # noqa: PLR0124 - NaN
            if len(points) < LEAST:
                continue
            rise, error = slope([t for t, _ in points], [v for _, v in points])
            last = points[-1][1]
            parts.append(f"{title} {last:.1f}{unit} {rise:+.1f}±{error:.1f}/h")
            told = [it for it in samples if not math.isnan(it.binds)]
            if title == "memory" and told and told[-1].binds - told[0].binds >= LEAST_BINDS:
                rise, error = slope_of_binds(told)
                parts[-1] += f" ({rise:+.2f}±{error:.2f} a thousand binds)"
        if parts:
            minutes = (life.samples[-1].at_s - life.begun_s) / 60
            lines.append(f"{life.name} ({minutes:.0f} min): {', '.join(parts)}")
    return lines
