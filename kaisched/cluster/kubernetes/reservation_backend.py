"""The backend of shares on nodes with a device plugin: steps of binds, and upkeep after cycles.

A pod of a user is never deleted to repair anything. A reservation pod is deleted only while nothing
uses its GPU: no pod, and no bind under way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaisched.clock import monotonic_s
from kaisched.cluster.kubernetes.bind_steps import PassingError, StepFailedError
from kaisched.cluster.kubernetes.failpoints import passing
from kaisched.cluster.kubernetes.lookup_maps import LookupMaps
from kaisched.cluster.kubernetes.pauses import Pauses
from kaisched.cluster.kubernetes.pods import CONFLICT, GONE, is_passing, lacks_right, path_of
from kaisched.cluster.kubernetes.reservations import Maker, ShareStep
from kaisched.cluster.shared_gpus import CardState
from kaisched.errors import ClusterUnavailable
from kaisched.objects import labels
from kaisched.objects.gpus import Card, Reservation, Stage, Told
from kaisched.telemetry.metrics import DONE, DROPPED, FAILED, RETRIED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kaisched.cluster.kubernetes.bind_steps import BindStep
    from kaisched.cluster.kubernetes.client import Answer
    from kaisched.cluster.kubernetes.outbox import Work
    from kaisched.cluster.kubernetes.pods import Writers
    from kaisched.cluster.store import StateStore
    from kaisched.framework.intents import Bind, Nominate
    from kaisched.objects.shard import GpuSharing

REFUSED_S: Final = 5.0
"""Pause after a deletion was refused."""
_RENEW_S, _RENEW_MOST_S = 0.5, 4.0
"""Pauses before a card is reserved again that got another GPU, the first and the longest."""
_GRACE_S: Final = 1
"""How long the agent may take to end."""


class ReservationBackend:
    """Reserves the cards of binds, and releases and renews reservations after cycles."""

    def __init__(self, sharing: GpuSharing, gpu_resources: Sequence[str]) -> None:
        """Keep what reservation pods are made of: they ask for the first of the resources."""
        self._sharing, self._resource = sharing, gpu_resources[0]
        self._to_look_at: set[Card] = set()
        self._under_way: set[str] = set()
        """UIDs of reservation pods whose deletion is being sent."""
        self._renewals: dict[Card, tuple[float, float]] = {}
        """When each card may be reserved again, and the pause after that."""

    def step(self, bind: Bind, writers: Writers, store: StateStore) -> BindStep | None:
        """Return what a bind with cards needs first: their reservation pods."""
        if not bind.cards:
            return None
        sharing = store.facts.sharing
        expected = [sharing.gpus_of(Card(bind.node, group)) for group in bind.cards]
        lookup = self._lookup(bind, writers, store)
        return ShareStep(self._maker(writers), bind, expected, _portion(bind, store), lookup)

    def _lookup(self, bind: Bind, writers: Writers, store: StateStore) -> LookupMaps | None:
        """Return the ConfigMaps in which a pod looks up its cards; None for nearly every pod."""
        pod, told = store.pods.pod(bind.pod), _told(bind, store)
        if pod is None or told is None or not pod.lookup:
            return None
        cdi = self._sharing.cdi_names
        return LookupMaps(writers, bind, pod.lookup, told, has_cdi_names=cdi)

    def _maker(self, writers: Writers) -> Maker:
        return Maker(writers, self._sharing, self._resource)

    def upkeep(
        self, nominations: Sequence[Nominate], writers: Writers, store: StateStore
    ) -> Iterable[Work]:
        """Return what deletes reservation pods without users, and makes those that are missing."""
        del nominations  # a promise of an open card that is given up finds another
        sharing = store.facts.sharing
        changed = sharing.changed()
        self._to_look_at |= changed
        works: list[Work] = []
        for card in sorted(self._to_look_at):
            if not store.rows.nodes.is_known(card.node):
                # Pods of others on it are not counted, so nothing is known of its users. What has
                # neither these nor a reservation pod is looked at again once something comes.
                if not sharing.is_known(card):
                    self._to_look_at.discard(card)
                    self._renewals.pop(card, None)
                continue
            self._to_look_at.discard(card)
            unused = [it for it in sharing.to_release(card) if it.uid not in self._under_way]
            works += [self._release(it, writers, store) for it in unused]
            state = sharing.state_of(card)
            if state is CardState.LOST and card in changed:
                pods = sharing.users_of(card)
                writers.log.warning("gpu_not_reserved", node=card.node, group=card.group, pods=pods)
            if sharing.is_to_renew(card):
                self._renew(card, writers, works)
            elif state is CardState.OPEN:
                self._renewals.pop(card, None)
        return works

    def _release(self, it: Reservation, writers: Writers, store: StateStore) -> Work:
        self._under_way.add(it.uid)
        if it.stage is Stage.HOLDS:
            store.assume_evicted(it.key)

        def ended(store: StateStore) -> None:
            self._under_way.discard(it.uid)
            store.facts.sharing.look_again(it.card)

        return ReleaseWork(writers, it, ended)

    def _renew(self, card: Card, writers: Writers, works: list[Work]) -> None:
        """Reserve a card again, later each time: the device plugin may give another GPU."""
        self._to_look_at.add(card)
        due_s, pause_s = self._renewals.get(card, (0.0, _RENEW_S))
        if monotonic_s() >= due_s:
            self._renewals[card] = monotonic_s() + pause_s, min(2 * pause_s, _RENEW_MOST_S)
            works.append(RenewWork(self._maker(writers), card))


def _told(bind: Bind, store: StateStore) -> Told | None:
    """Return how much of each card a pod has, never more than it takes of it."""
    pod = store.pods.pod(bind.pod)
    demand = pod.constraints.devices if pod is not None else None
    if demand is None:
        return None
    mib = store.rows.nodes.card_mib_of(bind.node)
    if demand.memory_mib:
        part = demand.memory_mib * 1_000_000 // mib if mib else 0
        return Told(_decimal(part) if part else "", demand.memory_mib)
    limit = demand.fraction * mib // 1_000_000 if mib else None
    return Told(_decimal(demand.fraction), limit)


def _decimal(millionths: int) -> str:
    return f"{millionths / 1_000_000:.6f}".rstrip("0").rstrip(".")


def _portion(bind: Bind, store: StateStore) -> dict[str, str]:
    """Return the annotations that say how much of each card a pod has."""
    pod, told = store.pods.pod(bind.pod), _told(bind, store)
    if pod is None or told is None:
        return {}
    found = {labels.RECEIVED_TYPE: "Fraction"}
    demand = pod.constraints.devices
    if demand is not None and demand.fraction:
        found[labels.GPU_PORTION] = told.portion
    if told.limit_mib is not None:
        found[labels.GPU_LIMIT] = str(told.limit_mib)
    return found


class ReleaseWork:
    """The deletion of a reservation pod that holds no GPU in use."""

    def __init__(
        self, writers: Writers, it: Reservation, ended: Callable[[StateStore], None]
    ) -> None:
        """Keep it; ``ended`` is posted to the store at the end, however it ends."""
        self._writers, self._it, self._ended = writers, it, ended
        self._pauses = Pauses()

    def send(self) -> float | None:
        """Delete the pod if it is still as it was; return when to try again, None for no more."""
        it, writers = self._it, self._writers
        same = {"uid": it.uid, "resourceVersion": it.version}
        body = {"gracePeriodSeconds": _GRACE_S, "preconditions": same}
        passing("release.before_delete")
        try:
            answer = writers.client.call("DELETE", path_of(it.key), body=body)
        except ClusterUnavailable:
            writers.counts.add("reservation", RETRIED)
            return self._pauses.next_s()
        passing("release.after_delete")
        if answer.is_done:
            writers.counts.add("reservation", DONE)
            writers.log.info("gpu_released", pod=it.key, node=it.card.node, gpu=it.gpu)
            writers.post(self._ended)
            return None
        if answer.code == GONE:
            writers.post(lambda store: store.remove_pod(it.key, it.uid))
        elif is_passing(answer):
            writers.counts.add("reservation", RETRIED)
            return self._pauses.next_s(answer.retry_after_s)
        elif answer.code != CONFLICT:
            _log_refusal(writers, answer, "delete")
            return REFUSED_S
        # It has changed since: it is looked at again as it is now.
        self._end(FAILED)
        return None

    def drop(self, why: str) -> None:
        """Give the deletion up."""
        del why
        self._end(DROPPED)

    def _end(self, outcome: str) -> None:
        self._writers.counts.add("reservation", outcome)
        it, ended = self._it, self._ended
        self._writers.post(lambda store: store.refute_eviction(it.key, it.uid))
        self._writers.post(ended)


class RenewWork:
    """The making of a reservation pod for pods that have lost theirs."""

    def __init__(self, maker: Maker, card: Card) -> None:
        """Keep the card."""
        self._maker, self._card = maker, card

    def send(self) -> float | None:
        """Make the pod; what becomes of it is seen like any change, and tried again later."""
        counts = self._maker.writers.counts
        try:
            self._maker.make(self._card, is_renewed=True)
        except (StepFailedError, PassingError, ClusterUnavailable) as error:
            counts.add("reservation", FAILED)
            self._maker.writers.log.warning("gpu_not_renewed", node=self._card.node, why=str(error))
            return None
        counts.add("reservation", DONE)
        return None

    def drop(self, why: str) -> None:
        """Give it up; it is found missing again."""
        del why
        self._maker.writers.counts.add("reservation", DROPPED)


def _log_refusal(writers: Writers, answer: Answer, verb: str) -> None:
    if lacks_right(answer):
        needs = f"{verb} on pods in namespace {labels.RESERVATION}"
        writers.log.error("reservation_forbidden", answer=answer.text(), needs=needs)
    else:
        writers.log.error("reservation_refused", answer=answer.text())
