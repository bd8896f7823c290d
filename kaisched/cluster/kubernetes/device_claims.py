"""Claims on devices of pods that are bound: allocated and reserved first, given back on failure.

The order is the one that kubelets and controllers rely on: the finalizer, then allocation and
reservation in one write of the status, then the bind.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from kaisched.clock import monotonic_s
from kaisched.cluster.claims.drafts import made_claim, shown
from kaisched.cluster.claims.leftovers import Leftover
from kaisched.cluster.claims.sent import PodId, Wanted
from kaisched.cluster.kubernetes import special_claims
from kaisched.cluster.kubernetes.bind_steps import BindStep, PassingError, StepFailedError
from kaisched.cluster.kubernetes.claim_api import (
    ClaimApi,
    ClaimGoneError,
    Raw,
    allocation_in,
    can_be_used_on,
    devices_in,
    give_back,
    has_user,
    users_of,
)
from kaisched.cluster.kubernetes.failpoints import passing
from kaisched.cluster.kubernetes.pauses import Pauses
from kaisched.core.axis import TaskState
from kaisched.errors import ClusterUnavailable
from kaisched.objects.devices import ClaimAllocation
from kaisched.telemetry.metrics import DONE, DROPPED, RETRIED

if TYPE_CHECKING:
    from kaisched.cluster.kubernetes.outbox import Work
    from kaisched.cluster.kubernetes.pods import Writers
    from kaisched.cluster.pods import PodRow
    from kaisched.cluster.store import StateStore
    from kaisched.framework.intents import Bind, Nominate

DEADLINE_S: Final = 60.0
"""How long a claim is tried; then its pod is decided again."""
READY_S: Final = 600.0
"""How long devices may take to get ready, as with Kubernetes' own scheduler."""
POLL_S: Final = 5.0


class ClaimBackend:
    """Makes the steps for pods with claims, and gives back what is of no use."""

    def step(self, bind: Bind, writers: Writers, store: StateStore) -> ClaimStep | None:
        """Return the claims of a pod, which the store counts as allocated from now on."""
        pod = store.pods.pod(bind.pod)
        if pod is None or not pod.device_claims:
            return None
        wanted = store.device_claims.assume(pod, dict(bind.claims), lambda: str(uuid.uuid4()))
        return ClaimStep(writers, bind, wanted) if wanted else None

    def upkeep(
        self, nominations: Sequence[Nominate], writers: Writers, store: StateStore
    ) -> Iterable[Work]:
        """Read claims of which nothing is known; give back devices that only waiting pods have."""
        del nominations
        claims = store.device_claims

        def is_open(pod: PodId) -> bool:
            return pod in writers.under_way or pod[0] in store.facts.sent.binds

        def is_waiting(pod: PodRow) -> bool:
            # The cycle did not try a pod that is held back or gated, so nothing says that it cannot
            # go where its devices are.
            is_tried = store.rows.state_of(pod.key) == TaskState.PENDING
            return pod.is_ours and is_tried and not is_open((pod.key, pod.uid))

        doubtful = claims.settle_sent(is_open, monotonic_s())
        left = claims.left_over(is_waiting)
        claims.leftovers.clearing |= {it.key for it in left}
        for it in left:
            store.rows.touch()
            store.look_again(claims.users_of(it.key))
        changed, claims.special.changed = claims.special.changed, set()
        store.look_again(sorted(changed))
        unused = claims.special.left_over(is_waiting)
        claims.special.clearing |= {pod.key for _, pod in unused}
        store.look_again([pod.key for _, pod in unused])
        return [
            *(_RemoveSpecial(writers, key, pod.key, pod.uid) for key, pod in unused),
            *(_ReadClaim(writers, it) for it in doubtful),
            *(_GiveBack(writers, it) for it in left),
        ]


@dataclass(slots=True)
class ClaimStep(BindStep):
    """The claims of one pod, and the requests about them."""

    writers: Writers
    bind: Bind
    wanted: list[Wanted]
    settled: int = 0
    """How many of them have their devices, and have the pod among their users."""
    begun_s: float = -1.0
    ready_by_s: float = -1.0
    """Until when devices may get ready."""

    def settle(self) -> float | None:
        """Write claim after claim, then wait for devices that are to get ready first.

        Raises:
            StepFailedError: a claim cannot be had.
            PassingError: the server asks for another try.
            ClusterUnavailable: no answer.

        """
        if self.begun_s < 0:
            self.begun_s = monotonic_s()
        while self.settled < len(self.wanted):
            wanted = self.wanted[self.settled]
            try:
                self._have(wanted, self._made(wanted))
            except ClaimGoneError:
                raise StepFailedError(f"{shown(wanted.key)} is gone") from None
            if wanted.draft is not None:
                special_claims.tell(self.writers, self.bind.pod, self.bind.uid, wanted.draft)
            self.settled += 1
        return self._until_ready()

    @property
    def is_overdue(self) -> bool:
        """Whether the time for the claims is over."""
        is_waiting = self.settled == len(self.wanted)
        return not is_waiting and monotonic_s() - self.begun_s > DEADLINE_S

    def undo(self) -> float | None:
        """Take the pod off all claims that were begun, and devices that nobody has then."""
        while self.settled >= 0:
            if self.settled < len(self.wanted):
                self._give_back(self.wanted[self.settled])
            self.settled -= 1
        return None

    def _give_back(self, wanted: Wanted) -> None:
        if wanted.draft is not None:
            key = made_claim(wanted.draft.claim).key
            special_claims.remove(self.writers, key, self.bind.uid)
            return
        ours = _raw(wanted.allocation) if wanted.is_new else None
        give_back(self._api(wanted), frozenset({self.bind.uid}), ours)

    def _made(self, wanted: Wanted) -> ClaimApi:
        """Return the claim, made if it is to be made."""
        if wanted.draft is None:
            return self._api(wanted)
        if wanted.allocation is None:
            raise StepFailedError("the claim for extended resources has no devices")
        return special_claims.make(self.writers, self.bind.pod, self.bind.uid, wanted.draft)

    def _api(self, wanted: Wanted) -> ClaimApi:
        if wanted.draft is not None:
            return ClaimApi(self.writers, made_claim(wanted.draft.claim).key, "")
        return ClaimApi(self.writers, wanted.key, wanted.uid)

    def _have(self, wanted: Wanted, api: ClaimApi) -> None:
        """See to it that a claim has the devices that were chosen, and the pod as a user."""
        if wanted.allocation is None:
            raise StepFailedError(f"{shown(wanted.key)} has no devices for this bind")
        passing("claim.before_patch")
        raw = api.mark(is_protected=True)
        has, wish = allocation_in(raw), _raw(wanted.allocation)
        if has is None and not wanted.is_new:
            raise StepFailedError(f"{shown(wanted.key)} has lost its devices")
        if has is not None and devices_in(has) != devices_in(wish):
            raise StepFailedError(f"{shown(wanted.key)} has got other devices meanwhile")
        if not can_be_used_on(self.bind.node, wish if has is None else has):
            raise StepFailedError(f"{shown(wanted.key)} has devices that are not on this node")
        if has is not None and has_user(raw, frozenset({self.bind.uid})):
            return
        if raw["metadata"].get("deletionTimestamp"):
            raise StepFailedError(f"{shown(wanted.key)} is being deleted")
        name = self.bind.pod.partition("/")[2]
        user = {"resource": "pods", "name": name, "uid": self.bind.uid}
        status: Raw = {**(raw.get("status") or {}), "allocation": wish if has is None else has}
        status["reservedFor"] = [*users_of(raw), user]
        passing("claim.before_put")
        api.put_status(raw, status)
        passing("claim.after_put")

    def _until_ready(self) -> float | None:
        """Return None once all devices are ready; devices without conditions always are."""
        late = [it for it in self.wanted if it.allocation is not None and _conditions(it)]
        if not late:
            return None
        if self.ready_by_s < 0:
            self.ready_by_s = monotonic_s() + READY_S
        for wanted in late:
            try:
                raw = self._api(wanted).read()
            except ClaimGoneError:
                raise StepFailedError(f"{shown(wanted.key)} is gone") from None
            why = _why_not_ready(raw)
            if why is None:
                continue
            if why or monotonic_s() > self.ready_by_s:
                why = why or f"its devices are not ready after {READY_S:.0f} s"
                raise StepFailedError(f"{shown(wanted.key)}: {why}")
            return POLL_S
        return None


def _conditions(wanted: Wanted) -> bool:
    allocation = wanted.allocation
    return allocation is not None and any(
        it.binding_conditions for it in allocation.devices.results
    )


def _why_not_ready(raw: Raw) -> str | None:
    """Return why devices of a claim will not get ready, "" if they may yet, None if they are."""
    reported = {
        (it.get("driver"), it.get("pool"), it.get("device"), it.get("shareID") or ""): {
            one.get("type"): one.get("status") for one in it.get("conditions") or ()
        }
        for it in (raw.get("status") or {}).get("devices") or ()
    }
    is_ready = True
    for result in ((allocation_in(raw) or {}).get("devices") or {}).get("results") or ():
        of_device = (result.get("driver"), result.get("pool"), result.get("device"))
        has = reported.get((*of_device, result.get("shareID") or ""), {})
        for name in result.get("bindingFailureConditions") or ():
            if has.get(name) == "True":
                return f"device {result.get('device')} has failed: {name}"
        is_ready &= all(has.get(it) == "True" for it in result.get("bindingConditions") or ())
    return None if is_ready else ""


def _raw(allocation: ClaimAllocation | None) -> Raw:
    found: Raw = msgspec.json.decode(msgspec.json.encode(allocation))
    return found


@dataclass(slots=True)
class _ReadClaim:
    """The read of a claim whose allocation was sent, and of which nothing was heard."""

    writers: Writers
    wanted: Wanted

    def send(self) -> float | None:
        """Read the claim, and tell the store what it has."""
        key, uid = self.wanted.key, self.wanted.uid
        allocation = None
        try:
            raw = ClaimApi(self.writers, key, uid).read()
            allocation = msgspec.convert(allocation_in(raw), ClaimAllocation | None)
        except ClaimGoneError:
            pass
        except (PassingError, StepFailedError, ClusterUnavailable):
            return None  # it is read again after the next cycle
        tell = partial(_tell_read, key=key, uid=uid, allocation=allocation)
        self.writers.post(tell)
        return None

    def drop(self, why: str) -> None:
        """Give the read up: the claim is read again later."""


def _tell_read(
    store: StateStore, *, key: str, uid: str, allocation: ClaimAllocation | None
) -> None:
    store.device_claims.was_read(key, uid, allocation, monotonic_s())
    store.rows.touch()
    store.look_again(store.device_claims.users_of(key))


@dataclass(slots=True)
class _RemoveSpecial:
    """The deletion of a claim for extended resources that only a waiting pod has."""

    writers: Writers
    key: str
    pod: str
    uid: str
    """Of the pod."""

    def send(self) -> float | None:
        """Give the devices back and delete the claim; one that fails is tried after a cycle."""
        try:
            special_claims.remove(self.writers, self.key, self.uid)
        except (PassingError, StepFailedError, ClusterUnavailable) as error:
            self.drop(str(error))
            return None
        self.writers.counts.add("claim", DONE)
        self.writers.log.info("claim_given_back", claim=self.key)
        self._end()
        return None

    def drop(self, why: str) -> None:
        """Leave it: it is found again after a cycle."""
        self.writers.log.info("claim_not_given_back", claim=self.key, why=why)
        self._end()

    def _end(self) -> None:
        pod = self.pod

        def end(store: StateStore) -> None:
            store.device_claims.special.clearing.discard(pod)
            store.rows.touch()
            store.look_again([pod])

        self.writers.post(end)


@dataclass(slots=True)
class _GiveBack:
    """The return of devices that only pods have which wait."""

    writers: Writers
    left: Leftover
    pauses: Pauses = field(default_factory=Pauses)

    def send(self) -> float | None:
        """Give the devices back; return when to try again, None when done."""
        api = ClaimApi(self.writers, self.left.key, self.left.uid)
        try:
            give_back(api, self.left.pods, is_unused=True)
        except (PassingError, ClusterUnavailable) as error:
            self.writers.counts.add("claim", RETRIED)
            return self.pauses.next_s(getattr(error, "retry_after_s", 0.0))
        except StepFailedError as error:
            self.writers.log.warning("claim_not_given_back", claim=self.left.key, why=str(error))
        else:
            self.writers.counts.add("claim", DONE)
            self.writers.log.info("claim_given_back", claim=self.left.key)
        self._end()
        return None

    def drop(self, why: str) -> None:
        """Leave the devices where they are."""
        self.writers.log.info("claim_not_given_back", claim=self.left.key, why=why)
        self.writers.counts.add("claim", DROPPED)
        self._end()

    def _end(self) -> None:
        key = self.left.key

        def end(store: StateStore) -> None:
            store.device_claims.leftovers.clearing.discard(key)
            store.rows.touch()
            store.look_again(store.device_claims.users_of(key))

        self.writers.post(end)
