"""Steps before a bind, such as the volumes or devices of a pod, and their undoing if it fails.

A backend makes the steps of what it looks after. The binder settles them in order, then binds the
pod. If it turns out that the pod will not be bound, they are undone in reverse order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kaisched.clock import monotonic_s
from kaisched.cluster.kubernetes.client import Answer
from kaisched.cluster.kubernetes.pauses import Pauses
from kaisched.errors import ClusterUnavailable

if TYPE_CHECKING:
    from kaisched.cluster.kubernetes.outbox import Work
    from kaisched.cluster.kubernetes.pods import Writers
    from kaisched.cluster.store import StateStore
    from kaisched.framework.intents import Bind, Nominate

UNDO_S: Final = 60.0
"""How long a step is undone; what then remains is for the upkeep of its backend."""


class StepFailedError(Exception):
    """A step that cannot be done for this pod on this node; the pod is decided again."""


class PassingError(Exception):
    """The server refused a request for a reason that may pass."""

    def __init__(self, answer: Answer, what: str) -> None:
        """Make the error from the answer about an object."""
        super().__init__(f"{what}: {answer.text()}")
        self.retry_after_s = answer.retry_after_s


class Marks(NamedTuple):
    """Labels and annotations that a Binding carries: the pod gets them as it is bound."""

    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


class BindStep:
    """One step before a bind: settled, perhaps in several tries, and undone if the bind fails.

    Its methods are called by one thread at a time, while this process leads.
    """

    __slots__ = ()

    def settle(self) -> float | None:
        """Do what is left to do; return None when the pod may be bound, else a pause.

        Raises:
            StepFailedError: it cannot be done, and the pod is decided again.
            PassingError: the server asks for another try.
            ClusterUnavailable: no answer; what was sent may have been done.

        """
        raise NotImplementedError

    @property
    def is_overdue(self) -> bool:
        """Whether an error that may pass counts as a failure by now."""
        return False

    def marks(self) -> Marks:
        """Return what the Binding carries; asked once all steps are settled."""
        return Marks()

    def undo(self) -> float | None:
        """Undo what :meth:`settle` did or may have done; return None when done, else a pause.

        The pod is not bound by us and never will be: it may be gone, or have been bound by another.

        Raises:
            PassingError: as for :meth:`settle`.
            ClusterUnavailable: see there.

        """
        return None


class BindBackend(Protocol):
    """Makes the steps of binds for what it looks after. Called by the thread of the store."""

    def step(self, bind: Bind, writers: Writers, store: StateStore) -> BindStep | None:
        """Return what a bind needs first, None for nothing; the store counts it from then on."""
        ...

    def upkeep(
        self, nominations: Sequence[Nominate], writers: Writers, store: StateStore
    ) -> Iterable[Work]:
        """Return writes that clear away what is of no more use; asked after each cycle.

        The binds of the cycle count in the store already. The writes are sent only while we lead.
        """
        ...


class Steps:
    """The steps of one bind."""

    def __init__(self, steps: Sequence[BindStep] = ()) -> None:
        """Begin with no step settled."""
        self._steps = steps
        self._settled = self._begun = 0
        self._pauses = Pauses()
        self._undo_by_s: float | None = None
        self.left: list[str] = []
        """Why something could not be undone in time."""

    def settle(self, count_retry: Callable[[], None]) -> float | None:
        """Settle the steps in order; return None when all are settled, else a pause.

        Args:
            count_retry: called when a request has to be sent again.

        Raises:
            StepFailedError: one of them cannot be done.

        """
        while self._settled < len(self._steps):
            step = self._steps[self._settled]
            self._begun = self._settled + 1
            try:
                pause_s = step.settle()
            except (PassingError, ClusterUnavailable) as error:
                if step.is_overdue:
                    raise StepFailedError(str(error)) from error
                count_retry()
                return self._pauses.next_s(getattr(error, "retry_after_s", 0.0))
            if pause_s is not None:
                return pause_s
            self._settled += 1
            self._pauses.reset()
        return None

    def marks(self) -> Marks:
        """Return what the Binding carries for all steps."""
        labels: dict[str, str] = {}
        annotations: dict[str, str] = {}
        for step in self._steps:
            marks = step.marks()
            labels.update(marks.labels)
            annotations.update(marks.annotations)
        return Marks(labels, annotations)

    def undo(self) -> float | None:
        """Undo the steps that were begun, the last first; return None at the end, else a pause."""
        if self._undo_by_s is None:
            self._undo_by_s = monotonic_s() + UNDO_S
        while self._begun:
            why = "it takes too long"
            try:
                pause_s = self._steps[self._begun - 1].undo()
            except (PassingError, ClusterUnavailable) as error:
                pause_s = self._pauses.next_s(getattr(error, "retry_after_s", 0.0))
                why = str(error)
            if pause_s is not None:
                if monotonic_s() < self._undo_by_s:
                    return pause_s
                self.left.append(why)
            self._begun -= 1
            self._pauses.reset()
        return None
