"""Writes that bind pods, with the steps before a bind and their undoing.

A bind is an atomic change of a pod without a node, so no pod can be bound twice, however often the
bind is tried. If an answer is lost, the pod is read to find out what happened.

A backend makes the steps of what it looks after, such as volumes or devices. The binder settles
them in order, then binds the pod. If it turns out that the pod will not be bound, they are undone
in reverse order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from kaisched.clock import monotonic_s
from kaisched.cluster.kubernetes.client import MERGE, Answer, Pauses
from kaisched.cluster.kubernetes.pods import (
    CONFLICT,
    GONE,
    SERVER_FAULT,
    Note,
    Writers,
    is_passing,
    lacks_right,
    may_pass,
    passing,
    path_of,
    why_not_waiting,
)
from kaisched.cluster.kubernetes.write_queue import Work
from kaisched.cluster.store import StateStore
from kaisched.errors import ClusterUnavailable, ObjectError
from kaisched.framework.intents import Bind, Nominate
from kaisched.objects.decode import decode_json
from kaisched.objects.pod import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
)
from kaisched.telemetry.metrics import DONE, DROPPED, FAILED, RETRIED

# -- steps before a bind ---------------------------------------------------------------------------
# A backend makes the steps of what it looks after. The binder settles them in order, then binds
# the pod. If it turns out that the pod will not be bound, they are undone in reverse order.

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


# -- the bind --------------------------------------------------------------------------------------
# A bind is an atomic change of a pod without a node, so no pod can be bound twice, however often
# the bind is tried. If an answer is lost, the pod is read to find out what happened.

REFUSED_S: Final = 5.0
"""Pause after a bind was refused for our account."""
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
        if not may_pass(answer):
            return self._failed(answer.text())
        # Refused for our account: only a change by the operator helps. The pod keeps its room, and
        # the bind is tried again every few seconds.
        writers.log.error("bind_forbidden", answer=answer.text(), needs="create on pods/binding")
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
        return self._undo(lambda bind: writers.hold_back(bind, why))

    def _settled(self) -> None:
        self.writers.under_way.discard((self.bind.pod, self.bind.uid))


# -- volumes ---------------------------------------------------------------------------------------
# As in kube-scheduler, an annotation on the claim names the node; the provisioner makes a volume
# for that node, or removes the annotation if that fails. The annotation is never removed here: a
# volume may be in the making. A volume that is there is made to name its claim, and Kubernetes'
# controller then binds the claim.

MOST_S: Final = 600.0
"""How long the volumes of a pod may take: kube-scheduler's bound."""
PAUSE_S: Final = 1.0


_Storage = TypeVar("_Storage", PersistentVolume, PersistentVolumeClaim)


class VolumeBackend:
    """Makes steps for pods with claims whose volumes wait for a node."""

    def step(self, bind: Bind, writers: Writers, store: StateStore) -> VolumeClaims | None:
        """Return the claims of a pod that need a volume; None if all have one."""
        keys = store.volumes.to_select(store.pods.pod(bind.pod))
        volumes = {
            it.claim.key: "" if it.volume is None else it.volume.name
            for it in store.give_volumes(bind.pod, bind.node)
            if it.volume is not None or not it.can_be_made
        }
        return VolumeClaims(writers, bind.node, keys, volumes) if keys else None

    def upkeep(
        self, nominations: Sequence[Nominate], writers: Writers, store: StateStore
    ) -> tuple[Work, ...]:
        """Clear nothing away: a volume may be in the making."""
        del nominations, writers, store
        return ()


@dataclass(slots=True)
class VolumeClaims(BindStep):
    """The claims of one pod that have no volume yet, and the requests about them."""

    writers: Writers
    node: str
    left: list[str]
    """``namespace/name`` of the claims that are not bound."""
    volumes: Mapping[str, str] = field(default_factory=dict)
    """By claim, the volume that is there for it; empty where there is none, and none is made."""
    named: int = 0
    """How many of them, from the first on, have the annotation."""
    begun_s: float = -1.0

    def settle(self) -> float | None:
        """Annotate the claims, then wait for volumes; return None when all are bound, else a pause.

        Raises:
            StepFailedError: a volume cannot be provisioned.
            ClusterUnavailable: no answer.

        """
        if self.begun_s < 0:
            self.begun_s = monotonic_s()
        while self.named < len(self.left):
            claim = self._read(self.left[self.named])
            if not claim.is_bound:
                self._ask_for_volume(claim)
            self.named += 1
        while self.left:
            claim = self._read(self.left[0])
            if not claim.is_bound:
                return self._wait(claim)
            self.left.pop(0)
        return None

    @property
    def is_overdue(self) -> bool:
        """Whether the time for the volumes is over."""
        return self.begun_s >= 0 and monotonic_s() - self.begun_s > MOST_S

    def _wait(self, claim: PersistentVolumeClaim) -> float:
        is_made = claim.key not in self.volumes
        if is_made and claim.metadata.annotations.get(SELECTED_NODE) != self.node:
            raise StepFailedError(f"no volume could be made for claim {claim.name}")
        if self.is_overdue:
            raise StepFailedError(f"claim {claim.name} has no volume after {MOST_S:.0f} s")
        return PAUSE_S

    def undo(self) -> float | None:
        """Take back the volumes that claims were to get and have not got: they are free again.

        Raises:
            PassingError: the server asks for another try.
            ClusterUnavailable: no answer.

        """
        for key in self.left[: self.named + 1]:
            try:
                if self.volumes.get(key) and not (claim := self._read(key)).is_bound:
                    self._put_claim(claim, None)
            except StepFailedError:
                continue  # what is gone, or another's by now, is not ours to take back
        return None

    def _ask_for_volume(self, claim: PersistentVolumeClaim) -> None:
        if claim.key not in self.volumes:
            self._name_node(claim)
        elif self.volumes[claim.key]:
            meta = claim.metadata
            names = {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid}
            kind = {"apiVersion": claim.API_VERSION, "kind": claim.KIND}
            self._put_claim(claim, {**kind, **names, "resourceVersion": meta.resource_version})
        else:
            raise StepFailedError(f"no volume that fits claim {claim.name} is free on {self.node}")

    def _put_claim(self, claim: PersistentVolumeClaim, ref: dict[str, str] | None) -> None:
        """Let the volume of a claim name it, or name none, unless it is another claim's."""
        path = f"/api/v1/persistentvolumes/{self.volumes[claim.key]}"
        what = f"volume {self.volumes[claim.key]}"
        volume = self._read_as(path, what, PersistentVolume)
        is_named = volume.spec.claim_ref is not None
        if is_named and not volume.is_for(claim):
            raise StepFailedError(f"{what} has another claim than {claim.name}")
        if is_named == (ref is not None):
            return
        meta: dict[str, Any] = {
            "uid": volume.metadata.uid,
            "resourceVersion": volume.metadata.resource_version,
            "annotations": {BOUND_BY_CONTROLLER: "yes" if ref else None},
        }
        self._patch(path, what, {"metadata": meta, "spec": {"claimRef": ref}})

    def _name_node(self, claim: PersistentVolumeClaim) -> None:
        node = claim.metadata.annotations.get(SELECTED_NODE)
        if node and node != self.node:
            raise StepFailedError(f"claim {claim.name} waits for its volume on {node}")
        if node:
            return
        meta: dict[str, Any] = {
            "uid": claim.metadata.uid,
            "resourceVersion": claim.metadata.resource_version,
            "annotations": {SELECTED_NODE: self.node},
        }
        self._patch(_path(claim.key), f"claim {claim.key}", {"metadata": meta})

    def _patch(self, path: str, what: str, body: dict[str, Any]) -> None:
        answer = self.writers.client.call("PATCH", path, body=body, content_type=MERGE)
        if lacks_right(answer):
            needs = "patch on persistentvolumeclaims, get and patch on persistentvolumes"
            self.writers.log.error("claim_forbidden", answer=answer.text(), needs=needs)
        if not answer.is_done:
            raise _refused(answer, what)

    def _read(self, key: str) -> PersistentVolumeClaim:
        return self._read_as(_path(key), f"claim {key}", PersistentVolumeClaim)

    def _read_as(self, path: str, what: str, kind: type[_Storage]) -> _Storage:
        answer = self.writers.client.call("GET", path)
        if answer.code == GONE:
            raise StepFailedError(f"{what} is gone")
        if not answer.is_done:
            raise _refused(answer, what)
        try:
            return decode_json(answer.data, kind)
        except ObjectError as error:
            raise StepFailedError(f"{what} is invalid: {error}") from error


def _refused(answer: Answer, what: str) -> Exception:
    if may_pass(answer) or answer.code == CONFLICT:
        return PassingError(answer, what)
    return StepFailedError(f"{what}: {answer.text()}")


def _path(key: str) -> str:
    namespace, _, name = key.partition("/")
    return f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"
