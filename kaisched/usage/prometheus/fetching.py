"""One fetch: a dozen queries, and checks of their answers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kaisched.objects.labels import format_time
from kaisched.units import MEMORY_UNIT
from kaisched.usage.hygiene import quantise
from kaisched.usage.prometheus.http import QueryError
from kaisched.usage.prometheus.queries import Questions, Span, step_s
from kaisched.usage.settings import QUEUE_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaisched.core.axis import FloatVec
    from kaisched.usage.prometheus.client import Client
    from kaisched.usage.settings import PrometheusSettings
    from kaisched.usage.window import Window

MOST_SKEW_S: Final = 5.0
_BASE_UNITS: Final = {"gpu": 1000.0, "cpu": 1000.0, "memory": 1 / MEMORY_UNIT}
"""Factors from GPUs, cores and bytes to base units."""


@dataclass(frozen=True, slots=True)
class Resource:
    """The history of one resource."""

    parts: Mapping[str, int] = field(default_factory=dict)
    """Usage by queue in parts per billion; queues without a series are absent."""
    capacity: float = 0.0
    """Decayed base units times seconds."""
    coverage: float = 1.0
    first_s: float | None = None
    """The first step with data."""
    last_s: float | None = None
    """The last step with data."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """Answers of a server at one time; times are by our clock."""

    at_s: float
    newest_s: float
    """Time of the newest sample."""
    resources: Mapping[str, Resource] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    """Faults: missing or refused data."""
    notes: tuple[str, ...] = ()
    """Remarks that are no faults."""
    is_cut: bool = False
    """Whether the server warned, so that queues may be missing."""

    def completed_by(self, last: Fetched | None) -> Fetched:
        """Fill gaps from the fetch before.

        Missing is not zero. A refused resource, or a queue that a server with incomplete data does
        not name, keeps its last known value (rule U8).
        """
        if last is None or not self.faults:
            return self
        resources = {**last.resources, **self.resources}
        if self.is_cut:
            resources = {
                name: replace(new, parts={**last.resources[name].parts, **new.parts})
                if name in last.resources
                else new
                for name, new in resources.items()
            }
        return replace(self, resources=resources)


def fetch(
    client: Client, settings: PrometheusSettings, window: Window, now_s: float, coarser: int = 1
) -> Fetched:
    """Query everything for one window by the server's clock, as its samples are (rule U6).

    Args:
        client: the connection.
        settings: the metrics to query.
        window: the part of the past that counts.
        now_s: the time by our clock.
        coarser: a factor for the steps, 1 for as fine as the settings say.

    Raises:
        QueryError: a query got no answer.

    """
    client.begin()
    server_s = _scalar(client.ask("time()"))
    if server_s is None:
        raise QueryError("the server does not know the time")
    # Whole seconds: range queries take nothing else, and all queries must have equal steps.
    server_s = math.floor(server_s)
    gpus = Questions(settings, "gpu")
    start_s = window.start(server_s)
    series = _scalar(client.ask(gpus.series, server_s)) or 0.0
    step = step_s(
        server_s - start_s, settings.resolution_s, window.half_life_s, int(series), coarser
    )
    span = Span(start_s, server_s, step, window.half_life_s)
    resources, faults = {}, []
    for name in settings.allocation:
        found, said = _resource(client, Questions(settings, name), span)
        faults += said
        if found is not None:
            resources[name] = found
    newest_s = _newest(_scalar(client.ask(gpus.newest, server_s)), resources)
    faults += [f"the server warns: {text}" for text in client.warnings]
    return Fetched(
        now_s,
        now_s - max(server_s - newest_s, 0.0),
        resources,
        tuple(faults),
        tuple(_notes(span, settings, now_s, resources)),
        is_cut=bool(client.warnings),
    )


def _newest(newest_s: float | None, resources: Mapping[str, Resource]) -> float:
    if newest_s is not None:
        return newest_s
    return max((each.last_s for each in resources.values() if each.last_s), default=-math.inf)


def _notes(
    span: Span, settings: PrometheusSettings, now_s: float, resources: Mapping[str, Resource]
) -> list[str]:
    notes = []
    ahead_s = span.at_s - now_s
    if abs(ahead_s) > MOST_SKEW_S:
        word = "ahead of" if ahead_s > 0 else "behind"
        notes.append(f"the server's clock is {word} ours by more than {MOST_SKEW_S:.0f} s")
    if span.step_s > settings.resolution_s:
        notes.append(f"asked in steps of {span.step_s} s: much history, or many queues")
    firsts = [each.first_s for each in resources.values() if each.first_s is not None]
    if firsts and min(firsts) > span.first_step_s + span.step_s:
        notes.append(f"history begins at {format_time(min(firsts))}, inside the window")
    return notes


def _resource(
    client: Client, questions: Questions, span: Span
) -> tuple[Resource | None, list[str]]:
    """Return the history of a resource, None if it is invalid, and its faults."""
    if span.steps == 0:
        return Resource(), []
    name = questions.resource
    times, capacity = _points(
        client.ask_range(questions.capacity, span.first_step_s, span.at_s, span.step_s)
    )
    if not len(times):
        settings = questions.settings
        both = f"{settings.allocation[name]} and {settings.capacity[name]}"
        return None, [f"{name}: the window has no time at which {both} are both known"]
    used, faults = _used(client, questions, span)
    # Python's power: numpy's differs from processor to processor.
    weights = [
        0.5 ** ((span.at_s - at) / span.half_life_s) if span.half_life_s else 1.0
        for at in times.tolist()
    ]
    total = float(np.dot(capacity, weights))
    queues = list(used)
    parts, unbelievable, said = quantise(
        np.array([list(used.values())], np.float64), np.array([total]), queues, [name]
    )
    if unbelievable[0]:
        return None, [*faults, *said]
    due = (span.at_s - times[0]) // span.step_s + 1
    found = Resource(
        dict(zip(queues, parts[0].tolist(), strict=True)),
        total * span.step_s * _BASE_UNITS[name],
        float(min(len(times) / due, 1.0)),
        float(times[0]),
        float(times[-1]),
    )
    return found, faults


def _used(client: Client, questions: Questions, span: Span) -> tuple[dict[str, float], list[str]]:
    """Return decayed sums by queue, and faults about values that were left out."""
    name = questions.resource
    negative = _scalar(client.ask(questions.negative(span), span.at_s))
    is_matched = bool(_scalar(client.ask(questions.unmatched(span), span.at_s)))
    query = questions.used(span, is_filtered=bool(negative), is_matched=is_matched)
    used, junk = _by_queue(client.ask(query, span.at_s))
    faults = []
    if junk and not negative:
        # A value that is no number makes the whole sum none: query again without such values.
        query = questions.used(span, is_filtered=True, is_matched=is_matched)
        faults.append(f"{name}: {junk} queues have values that are no numbers, left out")
        used, junk = _by_queue(client.ask(query, span.at_s))
    if negative:
        faults.append(f"{name}: {negative:.0f} series have values below 0, left out")
    if junk:
        faults.append(f"{name}: left out {junk} answers without a number or a {QUEUE_LABEL}")
    return used, faults


def _scalar(answer: list[Any]) -> float | None:
    """Return the single number of an answer; None for an empty answer.

    Raises:
        QueryError: the answer has another form, or is not finite.

    """
    if not answer:
        return None
    # A scalar is [time, value]; a vector is a list of {"metric", "value"}.
    value = answer[0].get("value", (0, None))[1] if isinstance(answer[0], dict) else answer[-1]
    number = _number(value)
    if number is None:
        raise QueryError(f"the answer {str(value)[:40]!r} is no number")
    return number


def _number(value: object) -> float | None:
    try:
        number = float(value) if isinstance(value, str) else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _by_queue(answer: list[Any]) -> tuple[dict[str, float], int]:
    """Return numbers by queue, and the number of entries without a number or a queue."""
    found: dict[str, float] = {}
    junk = 0
    for entry in answer:
        try:
            queue, number = entry["metric"].get(QUEUE_LABEL, ""), _number(entry["value"][1])
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise QueryError("the answer is no vector") from error
        if number is None or number < 0 or not queue:
            junk += 1
        else:
            found[queue] = number
    return found, junk


def _points(answer: list[Any]) -> tuple[FloatVec, FloatVec]:
    """Return times and values of the only series of an answer; empty without a series."""
    if not answer:
        return np.zeros(0), np.zeros(0)
    try:
        points = np.array(answer[0]["values"], np.float64)
        return points[:, 0], points[:, 1]
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise QueryError("the answer is no series") from error
