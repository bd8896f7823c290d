"""When a job may start: a forecast as part of ``kaisched.io/why/v1``, and as lines."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import typer

from kaisched.units import format_duration
from kaisched.view.documents import stamp

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from kaisched.framework.report.result import CycleResult
    from kaisched.sim.forecast.course import World
    from kaisched.sim.forecast.forecast import Forecast
    from kaisched.sim.forecast.past import Past

MOST_S: Final = 60.0
"""No other course of events begins after so much real time; what is printed then says so."""
WITHIN = typer.Option(
    "--within",
    min=1,
    max=3600,
    help="After so many seconds --when begins no further course of events.",
)
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400


def forecasts_of(
    result: CycleResult,
    jobs: Collection[int] | None,
    objects: Sequence[object],
    schedulers: Sequence[str],
    most_s: float = MOST_S,
) -> dict[int, Forecast]:
    """Run ahead from the inputs of a cycle; return the forecasts of those jobs that wait.

    ``jobs`` are rows, None for all; ``objects`` those that the state was made of, the ended pods
    among them; ``schedulers`` the scheduler names whose pods are ours; ``most_s`` is how long it
    may take.
    """
    from kaisched.sim.forecast.forecast import world_of  # noqa: PLC0415 - only when asked
    from kaisched.sim.forecast.past import past_of  # noqa: PLC0415 - only when asked

    started = result.records.session.tasks.job_of_task[result.bind_tasks]
    waiting = {*result.records.rows, *started.tolist()}
    wanted = waiting if jobs is None else waiting.intersection(jobs)
    world = world_of(result)
    past = past_of(objects, world.snapshot, world.now_s, schedulers)
    return bounded(world, wanted, past, most_s)


def bounded(
    world: World, jobs: Collection[int], past: Past, most_s: float = MOST_S
) -> dict[int, Forecast]:
    """Forecast the starts of jobs: no further course of events begins after ``most_s``."""
    from kaisched.clock import monotonic_s  # noqa: PLC0415 - only when asked
    from kaisched.sim.forecast.forecast import forecasts  # noqa: PLC0415 - only when asked

    end_s = monotonic_s() + most_s
    return forecasts(world, jobs, past, is_late=lambda: monotonic_s() > end_s)


def when_document(foreseen: Forecast) -> dict[str, Any]:
    """Return a forecast; null for later than was looked ahead."""
    return {
        "time": stamp(foreseen.now_s or math.nan),  # manifests have no time
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


def when_lines(foreseen: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield the band of a forecast, then what it rests on; nothing without one."""
    if foreseen is None:
        return
    yield f"  when: {_band(foreseen)}"
    if foreseen["cut"]:
        yield "    time was up: fewer courses of events than usual, and the band may be too narrow"
    yield from (f"    assumed: {line}" for line in foreseen["assumptions"])


def _band(foreseen: Mapping[str, Any]) -> str:
    count, started = foreseen["courses"], foreseen["started"]
    earliest_s, median_s, latest_s, looked_s = (
        foreseen[f"{name}Seconds"] for name in ("earliest", "median", "latest", "lookedAhead")
    )
    courses = f" of {count} courses of events" if count > 1 else ""
    if latest_s == 0:
        return "in the next cycle"
    earliest = _shown(earliest_s, is_least=True) if started else ""
    if started and latest_s is not None:
        latest = _shown(latest_s)
        if earliest_s == latest_s or earliest == latest:
            alike = f", and in all{courses} alike" if courses else ""
            return f"in {latest} if what is assumed holds{alike}"
        half = f"half of the time within {_shown(median_s)}"
        return f"in {earliest} to {latest}, {half}, by {count} courses of events"
    missing = f"not in the next {_shown(looked_s, is_least=True)}"
    if not started:
        return f"{missing}, in none{courses}" if courses else missing
    first = f"in {earliest} at the earliest"
    if median_s is not None:
        first += f", half of the time within {_shown(median_s)}"
    return f"{first}; {missing} in {count - started}{courses}"


def when_cell(foreseen: Mapping[str, Any] | None) -> str:
    """Return a forecast in a few words, for a table; of a job that does not wait ``-``."""
    if foreseen is None:
        return "-"
    earliest_s, latest_s = foreseen["earliestSeconds"], foreseen["latestSeconds"]
    if latest_s == 0:
        return "now"
    if not foreseen["started"]:
        return f"after {_shown(foreseen['lookedAheadSeconds'], is_least=True)}"
    earliest = _shown(earliest_s, is_least=True)
    if latest_s is None:
        return f"{earliest} or later"
    latest = _shown(latest_s)
    return f"in {latest}" if earliest in (latest, "0s") else f"{earliest} to {latest}"


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
