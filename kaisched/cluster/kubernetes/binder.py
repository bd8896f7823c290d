"""Writes that bind pods or nominate their nodes.

A bind is an atomic change of a pod without a node, so no pod can be bound twice, however often the
bind is tried. If an answer is lost, the pod is read to find out what happened.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kaisched.clock import monotonic_s
from kaisched.cluster.kubernetes.bind_steps import StepFailedError, Steps
from kaisched.cluster.kubernetes.client import Answer
from kaisched.cluster.kubernetes.failpoints import passing
from kaisched.cluster.kubernetes.pauses import Pauses
from kaisched.cluster.kubernetes.pods import (
    CONFLICT,
    GONE,
    SERVER_FAULT,
    Note,
    Writers,
    is_passing,
    lacks_right,
    path_of,
    why_not_waiting,
)
from kaisched.errors import ClusterUnavailable
from kaisched.framework.intents import Bind, Nominate
from kaisched.telemetry.metrics import DONE, DROPPED, FAILED, RETRIED

REFUSED_S: Final = 5.0
"""Pause after a bind was refused for a reason other than the state of the pod."""
DEADLINE_S: Final = 60.0
"""How long a bind is tried; then its pod is held back for a while and decided again."""


class GangBinds:
    """The binds of one job in one cycle: once one of them fails, no more are begun."""

    __slots__ = ("_lock", "_why", "done", "name")

    def __init__(self, name: str) -> None:
        """Begin without binds done."""
        self.name = name
        self.done = 0
        self._why = ""
        self._lock = threading.Lock()

    @property
    def why(self) -> str:
        """Why the remaining binds are given up; empty while they are not."""
        return self._why

    def count(self) -> None:
        """Count a bind that was done."""
        with self._lock:
            self.done += 1

    def give_up(self, why: str) -> bool:
        """Give up the binds that have not begun; return whether that is new."""
        with self._lock:
            is_new, self._why = not self._why, self._why or why
        return is_new


@dataclass(slots=True)
class BindWork:
    """The bind of one pod."""

    writers: Writers
    bind: Bind
    gang: GangBinds
    steps: Steps = field(default_factory=Steps)
    """What is done before the pod is bound, and undone if it is not."""
    version: str = ""
    """The bind has effect only on this version of the pod; empty for any."""
    begun_s: float = -1.0
    is_lost: bool = False
    """The pod may be bound: the request was sent, and its effect is not known."""
    pauses: Pauses = field(default_factory=Pauses)
    _ends: Callable[[Bind], None] | None = None
    """Tells the store of the end once all steps are undone: the pod will not be bound."""

    def send(self) -> float | None:
        """Bind the pod; return None when done or given up, else the pause before the next try."""
        if self._ends is not None:
            return self._undo(self._ends)
        if self.gang.why and self.begun_s < 0:
            self._note_drop(f"another pod of its job could not be bound: {self.gang.why}")
            return self._undo(self.writers.refute_bind)
        if self.begun_s < 0:
            try:
                pause_s = self.steps.settle(lambda: self.writers.counts.add("bind", RETRIED))
            except StepFailedError as error:
                return self._failed(str(error))
            if pause_s is not None:
                return pause_s
            self.begun_s = monotonic_s()
        try:
            return self._read() if self.is_lost else self._bind()
        except ClusterUnavailable as error:
            return self._again(str(error))

    def drop(self, why: str) -> None:
        """Give the bind up; a pod that may be bound keeps its room until it is read.

        Nothing is written any more: what was done for it is cleared away by who leads next.
        """
        self._settled()
        self._note_drop(why)
        if not self.is_lost:
            self.writers.refute_bind(self.bind)

    def _note_drop(self, why: str) -> None:
        self.writers.counts.add("bind", DROPPED)
        self.writers.log.info("bind_dropped", pod=self.bind.pod, node=self.bind.node, why=why)

    def _undo(self, ends: Callable[[Bind], None]) -> float | None:
        """Undo the steps, then tell the store: the pod keeps its room until then."""
        self._ends = ends
        pause_s = self.steps.undo()
        if pause_s is None:
            for why in self.steps.left:
                self.writers.log.warning("bind_not_undone", pod=self.bind.pod, why=why)
            self._settled()
            ends(self.bind)
        return pause_s

    def _bind(self) -> float | None:
        bind, writers = self.bind, self.writers
        namespace, _, name = bind.pod.partition("/")
        metadata = {"name": name, "namespace": namespace, "uid": bind.uid}
        if self.version:
            metadata["resourceVersion"] = self.version
        labels, annotations = self.steps.marks()
        marks = {"labels": labels, "annotations": {**annotations, **writers.annotations()}}
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {**metadata, **{name: of for name, of in marks.items() if of}},
            "target": {"apiVersion": "v1", "kind": "Node", "name": bind.node},
        }
        passing("bind.before_post")
        self.is_lost = True
        answer = writers.client.call("POST", path_of(bind.pod, "binding"), body=body)
        passing("bind.after_post")
        # A server in trouble may have bound the pod although it answered an error: read it first.
        self.is_lost = answer.code >= SERVER_FAULT
        if answer.is_done:
            self._done()
            return None
        if answer.code == CONFLICT:
            return self._read()
        if answer.code == GONE:
            return self._read(unless_bound="the server does not find what is to be bound")
        if is_passing(answer):
            return self._again(answer.text(), answer.retry_after_s)
        # Refused for our account (403) or our request: only a change by the operator helps. The
        # pod keeps its room, and the bind is tried again every few seconds.
        if lacks_right(answer):
            writers.log.error(
                "bind_forbidden", answer=answer.text(), needs="create on pods/binding"
            )
        else:
            writers.log.error("bind_refused", pod=bind.pod, node=bind.node, answer=answer.text())
        return self._again(answer.text(), REFUSED_S)

    def _read(self, unless_bound: str = "") -> float | None:
        """Read the pod and act on its state: bound by us, still waiting, or neither.

        Args:
            unless_bound: why the bind is given up even if the pod still waits.

        """
        pod = self.writers.read(self.bind.pod, self.bind.uid)
        is_it = pod is not None and pod.metadata.uid == self.bind.uid
        if is_it and pod is not None and pod.spec.node_name == self.bind.node:
            self._done()
            return None
        why = why_not_waiting(pod, self.bind.uid) or unless_bound
        if why:
            return self._failed(why)
        if self.version:
            return self._failed("the pod has changed since it was decided")
        if not self.is_lost:
            return self._again("another client changed the pod")
        # The bind whose answer was lost had no effect, and the server answers again.
        self.is_lost = False
        return self._failed("the binds had no effect") if self._is_overdue else self._bind()

    def _done(self) -> None:
        self._settled()
        self.gang.count()
        self.writers.counts.add("bind", DONE)
        bind = self.bind
        text = f"assigned to {bind.node}"
        self.writers.note(Note(bind.pod, bind.uid, "Scheduled", "Binding", text))

    def _again(self, why: str, asked_s: float = 0.0) -> float | None:
        if self._is_overdue and not self.is_lost:
            return self._failed(why)
        self.writers.counts.add("bind", RETRIED)
        return self.pauses.next_s(asked_s)

    @property
    def _is_overdue(self) -> bool:
        return monotonic_s() - self.begun_s > DEADLINE_S

    def _failed(self, why: str) -> float | None:
        writers, bind = self.writers, self.bind
        writers.counts.add("bind", FAILED)
        writers.log.warning("bind_failed", pod=bind.pod, node=bind.node, why=why)
        if self.gang.give_up(f"{bind.pod}: {why}") and self.gang.done:
            # Bound pods stay until the action stalegang judges the job as a whole.
            writers.log.warning("gang_incomplete", job=self.gang.name, bound=self.gang.done)
        return self._undo(writers.hold_back)

    def _settled(self) -> None:
        self.writers.under_way.discard((self.bind.pod, self.bind.uid))


@dataclass(slots=True)
class NominateWork:
    """The nomination of a node in a pod's status, for autoscalers; no decision relies on it."""

    writers: Writers
    nominate: Nominate
    tries: int = 3
    pauses: Pauses = field(default_factory=Pauses)

    def send(self) -> float | None:
        """Write the nominated node; return when to try again, None for no more."""
        nominate = self.nominate
        self.tries -= 1
        try:
            answer = self.writers.patch_status(
                nominate.pod, nominate.uid, {"nominatedNodeName": nominate.node}
            )
        except ClusterUnavailable:
            answer = Answer(SERVER_FAULT, b"")
        if is_passing(answer) and self.tries:
            self.writers.counts.add("nominate", RETRIED)
            return self.pauses.next_s(answer.retry_after_s)
        self.writers.counts.add("nominate", DONE if answer.is_done else FAILED)
        return None

    def drop(self, why: str) -> None:
        """Give the nomination up."""
        del why
        self.writers.counts.add("nominate", DROPPED)
