"""What the kubelets will do and when: start bound pods, end them, let go of evicted ones."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from enum import Enum

from kaisched.errors import ObjectError, join_path
from kaisched.objects.labels import RUN_SECONDS
from kaisched.objects.pod import Pod


class Step(Enum):
    """What is due for a pod."""

    START = "start"
    END = "end"
    RELEASE = "release"


@dataclass(frozen=True, slots=True, order=True)
class Due:
    """A step of one pod. Equal times go by the order in which they were planned."""

    at_s: float
    number: int
    step: Step
    pod: str
    uid: str


class Kubelet:
    """The steps that are due, soonest first. A step of a pod that is gone by then means nothing."""

    def __init__(self) -> None:
        """Have nothing to do."""
        self._due: list[tuple[float, int, Due]] = []
        self._planned = 0

    def plan(self, at_s: float, step: Step, pod: Pod) -> None:
        """Do a step at a time; never, if that is infinite."""
        if math.isfinite(at_s):
            due = Due(at_s, self._planned, step, pod.key, pod.metadata.uid)
            heapq.heappush(self._due, (at_s, self._planned, due))
            self._planned += 1

    def next_s(self) -> float | None:
        """Return when the next step is due, None for never."""
        return self._due[0][0] if self._due else None

    def take(self, now_s: float) -> Due | None:
        """Return and forget the next step that is due by now."""
        if self._due and self._due[0][0] <= now_s:
            return heapq.heappop(self._due)[2]
        return None


def run_s(pod: Pod) -> float:
    """Return how long a pod runs, infinite for ever.

    Raises:
        ObjectError: the annotation is no number of seconds.

    """
    text = pod.metadata.annotations.get(RUN_SECONDS)
    if text is None:
        return math.inf
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise ObjectError(
            "no number of seconds",
            kind=pod.KIND,
            name=pod.key,
            path=join_path("metadata", "annotations", RUN_SECONDS),
            value=text,
            fix='write seconds of 0 or more, such as "90"',
        )
    return seconds
