"""Requests about single pods, and what the writers of a shard share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from kaisched.clock import monotonic_s
from kaisched.cluster.kubernetes.change import Change
from kaisched.cluster.kubernetes.client import STRATEGIC, Answer, Client
from kaisched.cluster.kubernetes.counts import Counts
from kaisched.cluster.kubernetes.gate import Gate, Term
from kaisched.cluster.kubernetes.resources import PODS
from kaisched.cluster.store import StateStore
from kaisched.errors import ClusterUnavailable, ObjectError
from kaisched.framework.intents import Bind, Evict
from kaisched.objects.decode import decode_json
from kaisched.objects.pod import Pod

FORBIDDEN, GONE, CONFLICT, BUSY, SERVER_FAULT = 403, 404, 409, 429, 500
LEASE: Final = "kaisched.io/lease"
LEADER: Final = "kaisched.io/leader"
EPOCH: Final = "kaisched.io/leader-epoch"
"""Annotations on the binds and evictions of a leader: a later leader has a higher epoch."""
_EPOCH: Final = re.compile("[0-9]{1,10}")

News: TypeAlias = Change | Callable[[StateStore], None]
"""A change of an object, or an update of the store."""


@dataclass(frozen=True, slots=True)
class Note:
    """The content of an event of a pod."""

    pod: str
    uid: str
    reason: str
    action: str
    text: str
    is_warning: bool = False


def _ignored(_: Note) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Writers:
    """The client, gate, counters and settings that all writers of a shard share."""

    client: Client
    gate: Gate
    post: Callable[[News], None]
    """Passes a change to the thread that owns the store."""
    log: Any
    is_deleting: bool = False
    """Delete victims, whatever their disruption budgets say."""
    grace_s: int | None = None
    """How long a victim may take to end; as its own spec says unless given."""
    note: Callable[[Note], None] = _ignored
    """Sends an event, unless too many wait."""
    under_way: set[tuple[str, str]] = field(default_factory=set)
    """(Pod, UID) of binds that are not settled: only their writer judges their outcome."""
    counts: Counts = field(default_factory=Counts)
    """Writes by kind and outcome."""

    def annotations(self) -> dict[str, str]:
        """Return the annotations that mark a write as this leader's."""
        term = self.gate.term
        if not term.holder:
            return {}
        return {LEASE: term.lease, LEADER: term.holder, EPOCH: str(term.epoch)}

    def refute_bind(self, bind: Bind) -> None:
        """Take back a bind that has not happened and never will."""
        self.post(lambda store: store.refute_bind(bind.pod, bind.uid))

    def refute_eviction(self, evict: Evict) -> None:
        """Take back an eviction that has not happened and never will."""
        self.post(lambda store: store.refute_eviction(evict.pod, evict.uid))

    def hold_back(self, bind: Bind) -> None:
        """Take back a bind that failed, and hold its pod back for a while."""
        now_s = monotonic_s()
        self.post(lambda store: store.hold_back(bind.pod, now_s, bind.uid))

    def read(self, key: str, uid: str) -> Pod | None:
        """Read a pod and pass it to the store; return it, None if it is gone.

        Args:
            key: ``namespace/name``.
            uid: of the pod that was meant, since another pod may have its name by now.

        Raises:
            ClusterUnavailable: it could not be read.

        """
        answer = self.client.call("GET", path_of(key))
        namespace, _, name = key.partition("/")
        if answer.code == GONE:
            self.post(Change(PODS.stub(namespace, name, uid), is_gone=True))
            return None
        if not answer.is_done:
            raise ClusterUnavailable(f"pod {key} cannot be read: {answer.text()}")
        try:
            pod = decode_json(answer.data, Pod)
        except ObjectError as error:
            raise ClusterUnavailable(f"pod {key} is invalid: {error}") from error
        self.post(Change(pod, is_read=True))
        return pod

    def patch_status(self, key: str, uid: str, status: dict[str, Any]) -> Answer:
        """Patch a pod's status, if it still has this UID; conditions are merged by type.

        Raises:
            ClusterUnavailable: no answer.

        """
        body = {"metadata": {"uid": uid}, "status": status}
        return self.client.call("PATCH", path_of(key, "status"), body=body, content_type=STRATEGIC)


def later_leader(pod: Pod, term: Term) -> str:
    """Return the leader that has bound a pod in a later term than ours; empty if none has."""
    return later_writer(pod.metadata.annotations, term)


def later_writer(said: Mapping[str, str], term: Term) -> str:
    """Return the leader of a later term than ours that has annotated an object; empty for none."""
    holder, epoch = said.get(LEADER, ""), said.get(EPOCH, "")
    if not term.holder or holder == term.holder or not _EPOCH.fullmatch(epoch):
        return ""
    if said.get(LEASE, term.lease) != term.lease:
        return ""  # the leader of another shard
    return holder if int(epoch) > term.epoch else ""


def why_not_waiting(pod: Pod | None, uid: str) -> str:
    """Return why a pod does not wait for a node; empty if it does."""
    if pod is None:
        return "it is gone"
    if pod.metadata.uid != uid:
        return "another pod has its name"
    if pod.spec.node_name:
        return f"it is on {pod.spec.node_name}"
    if pod.status.phase in {"Succeeded", "Failed"}:
        return "it has ended"
    if pod.metadata.deletion_timestamp:
        return "it is being deleted"
    return "it has scheduling gates" if pod.spec.scheduling_gates else ""


def path_of(key: str, subresource: str = "") -> str:
    """Return the URL path of a pod (``namespace/name``), or of a subresource."""
    namespace, _, name = key.partition("/")
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    return f"{path}/{subresource}" if subresource else path


def lacks_right(answer: Answer) -> bool:
    """Tell whether no role allows the request; a policy that refuses it answers 403 too."""
    return answer.code == FORBIDDEN and ' is forbidden: User "' in answer.status().message


def is_passing(answer: Answer) -> bool:
    """Tell whether the same request may succeed a little later."""
    return answer.code == BUSY or answer.code >= SERVER_FAULT
