"""Leader election: one lease per shard, on monotonic time, which permits all writes.

A lease keeps two leaders apart only if both respect it. So leadership is held no longer than the
last renewal is valid, counted from when its request was *sent*.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import structlog

from kaisched.clock import Clock, monotonic_s
from kaisched.cluster.kubernetes.client import Answer, Client, Pauses
from kaisched.errors import ClusterUnavailable
from kaisched.objects.wire import BAD_JSON

_CONFLICT: Final = 409
_ABSENT: Final = 404
_FORBIDDEN: Final = 403
_WARN_AGAIN_S: Final = 60.0
LONGEST_S: Final = 3600
"""A lease with a longer or invalid duration counts with our own duration instead."""
_MOST_TRANSITIONS: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Term:
    """A leadership: until when it is valid, its holder, its number, and its lease."""

    until_s: float = -math.inf
    """On the monotonic clock."""
    holder: str = ""
    epoch: int = 0
    lease: str = ""
    """Name of the lease: each shard has a lease, and numbers, of its own."""


class Leadership:
    """The term of one lease, set by the elector and checked before each write."""

    def __init__(self) -> None:
        """Start without leadership."""
        self._term = Term()

    @property
    def term(self) -> Term:
        """The present or last leadership."""
        return self._term

    def renew(self, until_s: float, holder: str = "", epoch: int = 0, lease: str = "") -> None:
        """Permit writes that end before a time on the monotonic clock."""
        self._term = Term(until_s, holder, epoch, lease)

    def end(self) -> None:
        """Permit no more writes."""
        self._term = replace(self._term, until_s=-math.inf)

    def is_held(self, write_s: float = 0.0) -> bool:
        """Tell whether a write may be sent that takes up to ``write_s``."""
        return monotonic_s() + write_s < self.term.until_s


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """The times of a leadership, in seconds."""

    lease_s: float = 15.0
    """How long standbys wait after the last renewal that they have seen."""
    renew_s: float = 10.0
    """How long after the last renewal this process leads."""
    retry_s: float = 2.0
    """Time between renewals; a standby reads the lease twice as often."""


class _Spec(msgspec.Struct, rename="camel", omit_defaults=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Meta(msgspec.Struct, rename="camel", omit_defaults=True):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    # An update removes fields that it leaves out, and policies find leases by their labels.
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[Any] = []


class _Lease(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


_LEASES: Final = msgspec.json.Decoder(_Lease)


class LeaseRefusedError(ClusterUnavailable):
    """The lease cannot be had until the operator changes something."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


class Elector:
    """Takes a lease when it is free and renews it, in a thread of its own."""

    def __init__(
        self,
        client: Client,
        leadership: Leadership,
        clock: Clock,
        *,
        namespace: str,
        name: str,
        identity: str,
        times: LeaseTimes | None = None,
        epoch: int | None = None,
        why_not: Callable[[], str] = lambda: "",
        on_won: Callable[[], None] = lambda: None,
        on_lost: Callable[[str], None] = lambda _: None,
        on_renewed: Callable[[float], None] = lambda _: None,
    ) -> None:
        """Make an elector that is not started.

        Args:
            client: sends the requests.
            leadership: renewed while we lead.
            clock: gives the times in the lease, which are only for people to read.
            namespace: namespace of the lease.
            name: name of the lease.
            identity: our name in the lease, unique among all processes.
            times: duration, deadline and period of renewals.
            epoch: the number of the term to continue, if we have one already.
            why_not: returns why the lease may not be taken or renewed now; empty if it may.
            on_won: called in the elector's thread.
            on_lost: called once with the reason; the elector has ended then.
            on_renewed: called with the delay of a renewal in seconds.

        """
        self._client, self._leadership, self._clock = client, leadership, clock
        self._folder = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._namespace, self._name, self._identity = namespace, name, identity
        self._times, self._pauses = times or LeaseTimes(), Pauses()
        self._on_won, self._on_lost, self._on_renewed = on_won, on_lost, on_renewed
        self._epoch, self._why_not = epoch, why_not
        self._log: Any = structlog.get_logger().bind(lease=f"{namespace}/{name}")
        self._seen: tuple[str, float] = ("", -1.0)
        """The resource version last seen, and when it was first seen."""
        self._free_s = math.inf
        """When it will count as free, if it is not renewed."""
        self._held: _Lease | None = None
        self._is_overthrown, self._untried = False, ""
        self._warned: tuple[str, float] = ("", 0.0)
        """The last warning for the operator, and when it was logged."""
        self._end = threading.Event()
        self._thread = threading.Thread(target=self.run, name=f"elector-{name}", daemon=True)

    def start(self) -> None:
        """Try to lead from now on."""
        self._thread.start()

    def stop(self) -> None:
        """End the leadership, and release the lease so that standbys need not wait."""
        self._leadership.end()
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(self._times.renew_s)
        self._leadership.end()  # a renewal that was under way has taken it again
        held, self._held = self._held, None
        if held is not None:
            held.spec.holder_identity = ""
            held.spec.lease_duration_seconds = 1
            try:
                self._put(held)
            except ClusterUnavailable:
                self._log.info("lease_not_released")

    # -- the thread ------------------------------------------------------------------------------

    def run(self) -> None:
        """Take the lease, then renew it until it is lost or we are stopped."""
        if self._epoch is None and not self._win():
            return
        self._keep()

    def _win(self) -> bool:
        """Try until the lease is ours; return False if we are stopped before.

        The delay between two reads counts twice: the last renewal of the old holder is seen that
        late, and so is the end of its time. So the lease is read often, and once more at the moment
        at which it becomes free.
        """
        retry_s = self._times.retry_s
        while not self._end.is_set() and not self._try():
            pause_s = self._pauses.spread(0.4 * retry_s, 0.5 * retry_s)
            if self._free_s > monotonic_s():
                pause_s = min(pause_s, self._free_s - monotonic_s())
            self._end.wait(pause_s)
        if self._end.is_set():
            return False
        self._log.info("lease_won", holder=self._identity, epoch=self._leadership.term.epoch)
        self._on_won()
        return True

    def _keep(self) -> None:
        """Renew until the lease is lost or we are stopped."""
        retry_s = self._times.retry_s
        due_s = next_s = monotonic_s() + (retry_s if self._epoch is None else 0.0)
        while not self._end.wait(max(min(next_s - monotonic_s(), self._left_s()), 0.0)):
            # Past the deadline nothing is tried: a process that slept might still renew the lease,
            # but its state is as old as its sleep.
            if self._left_s() > 0.0 and self._try():
                now_s = monotonic_s()
                self._on_renewed(now_s - due_s)
                due_s = next_s = now_s + retry_s
            elif self._is_overthrown or self._left_s() <= 0.0:
                self._lose(
                    "another process holds it" if self._is_overthrown else "it was not renewed"
                )
                return
            else:
                # Soon: the deadline leaves a slow server time for only two or three answers.
                next_s = monotonic_s() + self._pauses.spread(retry_s / 8, retry_s / 4)

    def _lose(self, why: str) -> None:
        self._leadership.end()
        if self._end.is_set():
            return
        self._log.error("lease_lost", why=why)
        self._on_lost(f"lease {self._namespace}/{self._name} was lost: {why}")

    def _left_s(self) -> float:
        return self._leadership.term.until_s - monotonic_s()

    def _try(self) -> bool:
        """Take or renew the lease; return whether we lead. Any error is a failed renewal."""
        if not self._may_try():
            return False
        sent_s = monotonic_s()
        try:
            return self._take(sent_s)
        except LeaseRefusedError as error:
            self._warn(error)
            return False
        except (ClusterUnavailable, *BAD_JSON) as error:
            self._log.info("lease_not_reached", err=str(error))
            return False

    def _may_try(self) -> bool:
        """Tell whether the lease may be tried now; log it when that has changed."""
        why = self._why_not()
        if why != self._untried:
            self._log.info("lease_not_tried" if why else "lease_tried_again", why=why)
            self._untried = why
        return not why

    def _warn(self, error: LeaseRefusedError) -> None:
        """Log what the operator has to change; rarely, since there is a try every few seconds."""
        (text, at_s), now_s = self._warned, monotonic_s()
        if text != str(error) or now_s - at_s >= _WARN_AGAIN_S:
            self._warned = str(error), now_s
            self._log.warning("lease_refused", err=str(error), fix=error.fix)

    def _take(self, sent_s: float) -> bool:
        if self._held is None and self._epoch is not None and not self._find_again(self._epoch):
            return False
        if self._held is not None:
            held = self._held
            held.spec.renew_time = self._now()
            return self._put(held, sent_s)
        answer = self._read()
        if answer.code == _ABSENT:
            spec = self._spec_of(0, None)
            return self._put(_Lease(_Meta(self._name, self._namespace), spec), sent_s)
        if not answer.is_done:
            raise self._refused("read", answer)
        lease = _LEASES.decode(answer.data)
        if not self._is_free(lease):
            return False
        return self._put(_Lease(lease.metadata, self._spec_of(None, lease.spec)), sent_s)

    def _read(self) -> Answer:
        path = f"{self._folder}/{self._name}"
        return self._client.call("GET", path, timeout_s=self._request_s())

    def _find_again(self, epoch: int) -> bool:
        """Read the lease of a term to continue; return whether it is still ours."""
        answer = self._read()
        if answer.code != _ABSENT and not answer.is_done:
            raise self._refused("read", answer)
        lease = _LEASES.decode(answer.data) if answer.is_done else None
        is_ours = lease is not None and lease.spec.holder_identity == self._identity
        if lease is None or not is_ours or lease.spec.lease_transitions != epoch:
            self._is_overthrown = True
            return False
        self._held = lease
        return True

    def _is_free(self, lease: _Lease) -> bool:
        """Tell whether a lease is free, by what *we* have seen, not by the times in it."""
        version, since_s = self._seen
        if version != lease.metadata.resource_version:
            version, since_s = self._seen = lease.metadata.resource_version, monotonic_s()
        holder, seconds = lease.spec.holder_identity, lease.spec.lease_duration_seconds
        if not holder:
            return True
        if seconds is None or not 0 < seconds <= LONGEST_S:
            seconds = int(self._times.lease_s)
        self._free_s = since_s + seconds
        return monotonic_s() >= self._free_s

    def _spec_of(self, epoch: int | None, old: _Spec | None) -> _Spec:
        if epoch is None:
            before = (old.lease_transitions if old else 0) or 0
            epoch = before + 1 if 0 <= before < _MOST_TRANSITIONS else 0
        now = self._now()
        return _Spec(self._identity, max(int(self._times.lease_s), 1), now, now, epoch)

    def _put(self, lease: _Lease, sent_s: float | None = None) -> bool:
        """Write a lease; renew the leadership if that takes or renews it (``sent_s``)."""
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": lease.metadata,
            "spec": lease.spec,
        }
        is_new = not lease.metadata.resource_version
        method, path = ("POST", self._folder) if is_new else ("PUT", f"{self._folder}/{self._name}")
        answer = self._client.call(method, path, body=body, timeout_s=self._request_s())
        if answer.code == _CONFLICT:
            self._conflict()
            return False
        if answer.code == _ABSENT and not is_new:
            lease.metadata.resource_version = ""  # it was deleted: make it anew at the next try
        if not answer.is_done:
            raise self._refused("made" if is_new else "renewed", answer)
        if sent_s is not None:
            self._held = _LEASES.decode(answer.data)
            epoch = self._held.spec.lease_transitions or 0
            if not self._end.is_set():
                until_s = sent_s + self._times.renew_s
                self._leadership.renew(until_s, self._identity, epoch, self._name)
        return True

    def _conflict(self) -> None:
        """Find the writer of the lease: this process, if an answer was lost, or another."""
        if self._held is None:
            return
        answer = self._read()
        if not answer.is_done:
            raise ClusterUnavailable(f"the lease cannot be read: {answer.text()}")
        now = _LEASES.decode(answer.data)
        self._is_overthrown = now.spec.holder_identity != self._identity
        self._held = None if self._is_overthrown else now

    def _refused(self, what: str, answer: Answer) -> ClusterUnavailable:
        text = f"the lease cannot be {what}: {answer.text()}"
        where, name = self._namespace, self._name
        if answer.code == _FORBIDDEN:
            verb = {"read": "get", "made": "create", "renewed": "update"}[what]
            fix = f"give our account {verb} on leases.coordination.k8s.io in namespace {where}"
            if what == "made":
                fix = f"create the Lease {name} in namespace {where}, as the manifests do, or {fix}"
            return LeaseRefusedError(text, fix)
        if answer.code == _ABSENT and what == "made":
            fix = f"create the namespace {where}, or set kubernetes.namespace to one that exists"
            return LeaseRefusedError(text, fix)
        return ClusterUnavailable(text)

    def _request_s(self) -> float:
        return self._times.renew_s / 3

    def _now(self) -> str:
        # Always six digits: the server accepts no other number of them.
        now = datetime.fromtimestamp(self._clock.now_s(), UTC)
        return now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
