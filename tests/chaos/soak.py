"""Whether a process grows: samples of each life, and the slope of each figure with its error."""

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
    "memory": ("MB", "rss", 60.0), "threads": ("", "threads", 60.0), "files": ("", "files", 60.0),
    "cycle": ("ms", "cycle", 60.0), "history": ("kB", "history", 400.0),
}  # fmt: skip
"""Unit, field, and how much of the beginning of a life is left out: it reads the cluster, makes
what it keeps, and the file of usage history grows until the window is full."""
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
        folders = _processes(life.process.pid)
        status = [(it / "status").read_text(encoding="utf-8") for it in folders]
        pages = [(it / "statm").read_text(encoding="utf-8").split()[1] for it in folders]
        return Sample(
            time.monotonic(),
            sum(map(int, pages)) * _PAGE_MB,
            sum(int(it.partition("Threads:")[2].split()[0]) for it in status),
            sum(len(list((it / "fd").iterdir())) for it in folders),
            self._cycle_ms(life),
            sum(it.stat().st_size for it in life.state.rglob("*.sqlite3*")) / 1000,
        )

    def _cycle_ms(self, life):
        """Return the mean duration of the cycles since the last sample."""
        total_s, count = _cycles_of(life.port)
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


def _cycles_of(port):
    """Return (seconds, number) of all cycles of a process; zeros while it does not answer."""
    if not port:
        return 0.0, 0.0
    found = {}
    with (
        suppress(OSError),
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2.0) as page,
    ):
        for line in page.read().decode().splitlines():
            if line.startswith(("kaisched_cycle_duration_seconds_sum ",
                                "kaisched_cycle_duration_seconds_count ")):  # fmt: skip
                name, value = line.split()
                found[name.rpartition("_")[2]] = float(value)
    return found.get("sum", 0.0), found.get("count", 0.0)


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
        if parts:
            minutes = (life.samples[-1].at_s - life.begun_s) / 60
            lines.append(f"{life.name} ({minutes:.0f} min): {', '.join(parts)}")
    return lines
