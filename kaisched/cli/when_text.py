"""When a job may start, as lines and as part of ``kaisched.io/why/v1``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from kaisched.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.cli.source import Cycle
    from kaisched.sim.forecast.course import World
    from kaisched.sim.forecast.forecast import Forecast
    from kaisched.sim.forecast.history import Past

_MOST_S: Final = 60.0
"""No other course of events begins after so much real time; what is printed then says so."""
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400


def forecast_of(cycle: Cycle, job: int) -> Forecast | None:
    """Run ahead from the inputs of a cycle; return None for a job that does not wait."""
    from kaisched.sim.forecast.forecast import world_of  # noqa: PLC0415 - only when asked
    from kaisched.sim.forecast.history import past_of  # noqa: PLC0415 - only when asked

    if job not in cycle.result.records.rows and job not in _started(cycle):
        return None
    world = world_of(cycle.result)
    past = past_of(cycle.objects, world.snapshot, world.now_s, cycle.schedulers)
    return bounded(world, job, past)


def bounded(world: World, job: int, past: Past) -> Forecast:
    """Forecast the start of a job, in a minute of real time at most."""
    from kaisched.clock import monotonic_s  # noqa: PLC0415 - only when asked
    from kaisched.sim.forecast.forecast import forecast  # noqa: PLC0415 - only when asked

    end_s = monotonic_s() + _MOST_S
    return forecast(world, job, past, is_late=lambda: monotonic_s() > end_s)


def _started(cycle: Cycle) -> set[int]:
    """Return the jobs that the cycle itself starts."""
    of: set[int] = set(
        cycle.result.records.session.tasks.job_of_task[cycle.result.bind_tasks].tolist()
    )
    return of


def when_document(foreseen: Forecast) -> dict[str, Any]:
    """Return a forecast; null for later than was looked ahead."""
    return {
        "earliestSeconds": _number(foreseen.earliest_s),
        "medianSeconds": _number(foreseen.median_s),
        "latestSeconds": _number(foreseen.latest_s),
        "courses": foreseen.courses,
        "started": foreseen.started,
        "lookedAheadSeconds": _number(foreseen.looked_s),
        "cycles": foreseen.cycles,
        "cut": foreseen.is_cut,
        "assumptions": list(foreseen.assumptions),
    }


def _number(seconds: float) -> float | None:
    return None if math.isinf(seconds) else round(seconds, 3)


def when_lines(foreseen: Forecast) -> Iterator[str]:
    """Yield the band, then what it rests on."""
    yield f"  when: {_band(foreseen)}"
    if foreseen.is_cut:
        yield "    time was up: fewer courses of events than usual, and the band may be too narrow"
    yield from (f"    assumed: {line}" for line in foreseen.assumptions)


def _band(foreseen: Forecast) -> str:
    count = foreseen.courses
    courses = f" of {count} courses of events" if count > 1 else ""
    by = f", by {count} courses of events" if count > 1 else ""
    if foreseen.latest_s == 0:
        return "in the next cycle"
    earliest = _shown(foreseen.earliest_s, is_least=True) if foreseen.started else ""
    if foreseen.started and not math.isinf(foreseen.latest_s):
        latest = _shown(foreseen.latest_s)
        if earliest == latest:
            return f"in {earliest}{by}"
        half = f"half of the time within {_shown(foreseen.median_s)}"
        return f"in {earliest} to {latest}, {half}{by}"
    missing = f"not in the next {_shown(foreseen.looked_s, is_least=True)}"
    if not foreseen.started:
        return f"{missing}, in none{courses}" if courses else missing
    first = f"in {earliest} at the earliest"
    if not math.isinf(foreseen.median_s):
        first += f", half of the time within {_shown(foreseen.median_s)}"
    return f"{first}; {missing} in {count - foreseen.started}{courses}"


def _shown(seconds: float, *, is_least: bool = False) -> str:
    """Return a duration as exactly as anybody can know it; the least is rounded down."""
    steps = (
        (4 * _DAY_S, _DAY_S),
        (2 * _DAY_S, _HOUR_S),
        (2 * _HOUR_S, 10 * _MINUTE_S),
        (2 * _MINUTE_S, _MINUTE_S),
        (0, 1),
    )
    step_s = next(step_s for from_s, step_s in steps if seconds >= from_s)
    rounded = math.floor(seconds / step_s) if is_least else math.ceil(seconds / step_s)
    return format_duration(float(rounded * step_s))
