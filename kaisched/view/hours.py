"""Hours of a shard: use, waits, starts and evictions of the last week, hour by hour.

The loop's thread adds each cycle; with a file they are there again after a restart.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import structlog

from kaisched.core.axis import CPU, GPU, GPU_UNIT
from kaisched.files import replace_file
from kaisched.view.documents import envelope, stamp

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kaisched.view.history import Decisions
    from kaisched.view.live import LiveView

HOUR_S: Final = 3_600
DAY_S: Final = 24 * HOUR_S
MOST_HOURS: Final = 7 * 24
MOST_WAITS: Final = 500
"""Waits that an hour keeps; of more of them every other one goes."""
SAVE_S: Final = 60.0


class Hour(msgspec.Struct, array_like=True):
    """What happened in one hour. Amounts are GPU-seconds; without GPUs those of CPUs."""

    start_s: float
    seen_s: float = 0.0
    """How long cycles have been seen in it."""
    capacity: float = 0.0
    used: float = 0.0
    waiting: float = 0.0
    """What waiting pods ask for, over time."""
    oldest_s: float = 0.0
    """The longest that any job had waited."""
    starts: int = 0
    waits: list[float] = msgspec.field(default_factory=list)
    """How long jobs had waited that started, one of each ``every``."""
    every: int = 1
    evictions: int = 0
    lost: float = 0.0
    """What evicted pods had worked."""

    def add_wait(self, seconds: float) -> None:
        """Note a job that starts."""
        if self.starts % self.every == 0:
            self.waits.append(round(seconds, 1))
            if len(self.waits) > MOST_WAITS:
                self.waits, self.every = self.waits[::2], self.every * 2
        self.starts += 1


@dataclass(slots=True)
class Hours:
    """The hours of one shard; ``kept`` may be read by any thread."""

    path: Path | None = None
    kept: tuple[Hour, ...] = ()
    _last_s: float = -1.0
    _saved_s: float = 0.0
    _amounts: tuple[float, float, float] = field(default=(0.0, 0.0, 0.0))
    """Capacity, use and demand since the last cycle."""
    _writing: threading.Thread | None = None

    def __post_init__(self) -> None:
        """Read the hours of an earlier process; a file that has none is left alone, and said."""
        if self.path is None:
            return
        try:
            self.kept = tuple(msgspec.json.decode(self.path.read_bytes(), type=list[Hour]))
        except FileNotFoundError:
            return
        except (OSError, msgspec.MsgspecError) as error:
            fix = "move it away; until then the hours are kept in memory only"
            log: Any = structlog.get_logger()
            log.warning("hours_not_read", file=str(self.path), err=str(error), fix=fix)
            self.path = None

    def add(self, view: LiveView, decided: Decisions) -> None:
        """Take in a cycle."""
        now_s = view.time_s
        start_s = now_s // HOUR_S * HOUR_S
        if not self.kept or self.kept[-1].start_s < start_s:
            oldest_s = start_s - (MOST_HOURS - 1) * HOUR_S
            self.kept = (*(it for it in self.kept if it.start_s >= oldest_s), Hour(start_s))
        hour = self.kept[-1]
        if 0 <= self._last_s < now_s:
            since_s = min(now_s - max(self._last_s, hour.start_s), HOUR_S)
            capacity, used, waiting = self._amounts
            hour.seen_s += since_s
            hour.capacity += capacity * since_s
            hour.used += used * since_s
            hour.waiting += waiting * since_s
        self._last_s, self._amounts = now_s, _amounts_of(view)
        waits_s = now_s - view.waiting.queued_s[view.waiting.rows]
        hour.oldest_s = max(hour.oldest_s, float(waits_s.max(initial=0.0)))
        for seconds in _waits_of(view):
            hour.add_wait(seconds)
        hour.evictions += len(decided.evictions)
        hour.lost += sum(decided.lost_s)
        self._save(now_s)

    def _save(self, now_s: float) -> None:
        """Write the file once a minute, in a thread: a slow disk puts no cycle off."""
        is_busy = self._writing is not None and self._writing.is_alive()
        if self.path is None or is_busy or 0 <= now_s - self._saved_s < SAVE_S:
            return
        self._saved_s = now_s
        data, path = msgspec.json.encode(self.kept), self.path
        self._writing = threading.Thread(target=_write, args=(path, data), daemon=True)
        self._writing.start()


def _write(path: Path, data: bytes) -> None:
    try:
        replace_file(path, data)
    except OSError:
        return  # the history beside it tells of a disk that takes nothing


def _amounts_of(view: LiveView) -> tuple[float, float, float]:
    """Return what the shard has, what queues hold, and what they ask for beyond."""
    snapshot = view.snapshot
    row = GPU if snapshot.total[GPU] > 0 else CPU
    name = snapshot.axis.names[row]
    roots = np.flatnonzero(snapshot.queues.tree.parent_of_queue < 0).tolist()
    shares = [view.shares[at] for at in roots]
    held = sum(it.allocated.get(name, 0) for it in shares)
    asked = sum(max(it.requested.get(name, 0) - it.allocated.get(name, 0), 0) for it in shares)
    return int(snapshot.total[row]) / GPU_UNIT, held / GPU_UNIT, asked / GPU_UNIT


def _waits_of(view: LiveView) -> Sequence[float]:
    """Return how long each job had waited of which the first pods start in this cycle."""
    jobs = view.snapshot.jobs
    started = np.unique(view.snapshot.tasks.job_of_task[view.moves.bind_tasks])
    first = started[~np.asarray(jobs.active, np.bool_)[started]]
    queued_s = np.fmax(view.waiting.queued_s, jobs.last_evicted_s)[first]
    found: list[float] = np.maximum(view.time_s - queued_s, 0.0).tolist()
    return found


def hours_document(view: LiveView, hours: Sequence[Hour], last: int) -> dict[str, Any]:
    """Return the last hours, the earliest first, and sums over a day and a week."""
    since = {name: view.time_s - span_s for name, span_s in (("day", DAY_S), ("week", 7 * DAY_S))}
    return {
        **envelope(view),
        "resource": "gpu" if view.snapshot.total[GPU] > 0 else "cpu",
        **{
            name: _sums([it for it in hours if it.start_s + HOUR_S > from_s])
            for name, from_s in since.items()
        },
        "hours": [{"start": stamp(it.start_s), **_sums([it])} for it in hours[-last:]],
    }


def _sums(hours: Sequence[Hour]) -> dict[str, Any]:
    """Return what some hours add up to."""
    seen_s, capacity = sum(it.seen_s for it in hours), sum(it.capacity for it in hours)
    waits = np.array([wait for it in hours for wait in it.waits for _ in range(it.every)])
    p50, p95 = np.percentile(waits, (50, 95)).tolist() if len(waits) else (None, None)
    return {
        "seenSeconds": round(seen_s, 1),
        "use": round(sum(it.used for it in hours) / capacity, 4) if capacity else None,
        "waiting": round(sum(it.waiting for it in hours) / seen_s, 2) if seen_s else None,
        "oldestWaitSeconds": round(max((it.oldest_s for it in hours), default=0.0), 1),
        "starts": sum(it.starts for it in hours),
        "waitP50Seconds": p50,
        "waitP95Seconds": p95,
        "evictions": sum(it.evictions for it in hours),
        "lostGpuHours": round(sum(it.lost for it in hours) / HOUR_S, 3),
    }
