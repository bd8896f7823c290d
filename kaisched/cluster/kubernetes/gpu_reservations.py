"""Shares of GPUs on nodes with a device plugin: reservation pods, and upkeep after cycles."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kaisched.clock import monotonic_s
from kaisched.cluster.kubernetes.binder import (
    BindStep,
    Marks,
    PassingError,
    StepFailedError,
)
from kaisched.cluster.kubernetes.client import Answer, Pauses
from kaisched.cluster.kubernetes.pods import (
    CONFLICT,
    GONE,
    Writers,
    is_passing,
    lacks_right,
    later_writer,
    may_pass,
    passing,
    path_of,
)
from kaisched.cluster.kubernetes.write_queue import Work
from kaisched.cluster.shared_gpus import CardState
from kaisched.cluster.store import StateStore
from kaisched.errors import ClusterUnavailable, ObjectError
from kaisched.framework.intents import Bind, Nominate
from kaisched.objects import labels
from kaisched.objects.decode import decode_json, decode_list
from kaisched.objects.gpus import (
    Card,
    Reservation,
    Stage,
    Told,
    config_map,
    lookups,
    reservation_name,
    reservation_of,
    reservation_pod,
)
from kaisched.objects.pod import Pod
from kaisched.objects.shard import GpuSharing
from kaisched.telemetry.metrics import DONE, DROPPED, FAILED, RETRIED

# -- ConfigMaps in which a pod looks up its GPU ----------------------------------------------------
# They belong to the pod, and nothing reads them before it is bound. So a bind that fails leaves
# them: the next try writes what is right then, and they go with the pod. A deletion could come
# late, and take away what the next leader has written.

TRY: Final = "kaisched.io/bind-try"
"""Annotation with a name of the bind that has written the ConfigMap."""
_DONE: Final = 2


class LookupMaps:
    """The ConfigMaps of one pod, as one bind writes them.

    Each bind leaves a name of its own, so that its write changes what is there even if the data are
    the same: a request that is still on its way from an earlier try then finds another version.
    """

    def __init__(
        self, writers: Writers, bind: Bind, name: str, told: Told, *, has_cdi_names: bool
    ) -> None:
        """Begin with none written."""
        self._writers, self._bind, self._name, self._told = writers, bind, name, told
        self._has_cdi_names = has_cdi_names
        self._try = str(uuid.uuid4())
        self._written: set[str] = set()

    def write(self, gpus: Sequence[str]) -> None:
        """Write the ConfigMaps that are not written yet.

        Raises:
            StepFailedError: one belongs to another, or the server refuses it.
            PassingError: it has changed meanwhile, or the server asks for another try.
            ClusterUnavailable: no answer; it may have been written.

        """
        if len(self._written) == _DONE:
            return
        namespace = self._bind.pod.partition("/")[0]
        data_of = lookups(self._name, gpus, self._told, has_cdi_names=self._has_cdi_names)
        for name, data in data_of.items():
            if name not in self._written:
                self._have(f"{namespace}/{name}", data)
                self._written.add(name)

    def _have(self, key: str, data: Mapping[str, str]) -> None:
        bind = self._bind
        notes = {TRY: self._try, **self._writers.annotations()}
        passing("lookup.before_write")
        body = config_map(key, data, notes, bind.pod, bind.uid)
        answer = self._call("POST", key, body)
        if answer.code == CONFLICT:
            answer = self._call("GET", key)
            raw = self._decoded(answer, key, "get")
            self._check(raw, key)
            if _notes_of(raw).get(TRY) != self._try or raw.get("data") != data:
                meta = {**raw["metadata"], "annotations": {**_notes_of(raw), **notes}}
                answer = self._call("PUT", key, {**body, "metadata": meta})
                self._decoded(answer, key, "update")
        else:
            self._decoded(answer, key, "create")
        passing("lookup.after_write")

    def _call(self, method: str, key: str, body: dict[str, Any] | None = None) -> Answer:
        namespace, _, name = key.partition("/")
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        return self._writers.client.call(
            method, path if method == "POST" else f"{path}/{name}", body=body
        )

    def _check(self, raw: dict[str, Any], key: str) -> None:
        """Check that a ConfigMap is this pod's alone, and not the work of a later leader.

        Raises:
            StepFailedError: it is not.

        """
        owners = raw["metadata"].get("ownerReferences") or []
        if not owners:
            raise StepFailedError(
                f"ConfigMap {key} has no owner, so it is not the pod's: rename or delete it"
            )
        for owner in owners:
            if owner.get("uid") != self._bind.uid:
                whose = f"{owner.get('kind')} {owner.get('name')} (UID {owner.get('uid')})"
                raise StepFailedError(
                    f"ConfigMap {key} belongs to {whose}, not to this pod: delete it, or make the"
                    " pod anew"
                )
        if holder := later_writer(_notes_of(raw), self._writers.leadership.term):
            raise StepFailedError(f"ConfigMap {key} was written by {holder}, which leads now")

    def _decoded(self, answer: Answer, key: str, verb: str) -> dict[str, Any]:
        if answer.is_done:
            found: dict[str, Any] = msgspec.json.decode(answer.data)
            return found
        if lacks_right(answer):
            needs = f"{verb} on configmaps in namespace {key.partition('/')[0]}"
            self._writers.log.error("lookup_forbidden", answer=answer.text(), needs=needs)
        if may_pass(answer) or answer.code in {CONFLICT, GONE}:
            raise PassingError(answer, f"ConfigMap {key}")
        raise StepFailedError(f"ConfigMap {key}: {answer.text()}")


def _notes_of(raw: Mapping[str, Any]) -> dict[str, str]:
    return raw["metadata"].get("annotations") or {}


# -- before a bind ---------------------------------------------------------------------------------
# Before a pod with a share is bound, the reservation pod of each of its cards is found or made,
# and tells which GPU it got. Group and UUID travel in the Binding. Reservation pods are shared,
# so a bind that fails leaves them; those without users are deleted after a cycle.

PODS: Final = f"/api/v1/namespaces/{labels.RESERVATION}/pods"
MOST_S: Final = 120.0
"""How long reservation pods may take to tell their GPUs: their image may have to be pulled."""
_FIRST_S, _LONGEST_S = 0.2, 2.0
"""Pauses between two looks at a reservation pod."""


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes reservation pods, as the shard says."""

    writers: Writers
    sharing: GpuSharing
    resource: str
    """A GPU of the device plugin."""

    def make(self, card: Card, *, is_renewed: bool = False) -> Reservation | None:
        """Create the reservation pod of a card; None if there is one of its name already.

        Raises:
            StepFailedError: the server refuses it.
            PassingError: the server asks for another try.
            ClusterUnavailable: no answer; it may have been made.

        """
        body = reservation_pod(card, self.sharing, self.resource, is_renewed=is_renewed)
        passing("reserve.before_post")
        answer = self.writers.client.call("POST", PODS, body=body)
        passing("reserve.after_post")
        if answer.is_done:
            return _decoded(answer)
        if answer.code == CONFLICT:
            return None
        raise self._refused(answer, "create")

    def find(self, card: Card) -> list[Reservation]:
        """Return the reservation pods of a card as they are now, by name.

        Raises:
            StepFailedError: the server refuses the request.
            PassingError: the server asks for another try.
            ClusterUnavailable: no answer.

        """
        query = {"labelSelector": f"{labels.GPU_GROUP}={card.group}"}
        answer = self.writers.client.call("GET", PODS, query=query)
        if not answer.is_done:
            raise self._refused(answer, "list")
        pods = sorted(decode_list(answer.data, Pod).objects, key=lambda pod: pod.name)
        found = (reservation_of(pod) for pod in pods)
        return [it for it in found if it is not None and it.card == card]

    def read(self, key: str) -> Reservation | None:
        """Return a reservation pod as it is now; None if it is gone.

        Raises:
            StepFailedError: the server refuses the request.
            PassingError: the server asks for another try.
            ClusterUnavailable: no answer.

        """
        answer = self.writers.client.call("GET", path_of(key))
        if answer.code == GONE:
            return None
        if not answer.is_done:
            raise self._refused(answer, "get")
        return _decoded(answer)

    def _refused(self, answer: Answer, verb: str) -> Exception:
        if lacks_right(answer):
            needs = f"{verb} on pods in namespace {labels.RESERVATION}"
            self.writers.log.error("reservation_forbidden", answer=answer.text(), needs=needs)
        if may_pass(answer):
            return PassingError(answer, "reservation pod")
        return StepFailedError(f"no reservation pod can be made: {answer.text()}")


def _decoded(answer: Answer) -> Reservation | None:
    try:
        return reservation_of(decode_json(answer.data, Pod))
    except ObjectError as error:
        raise StepFailedError(f"a reservation pod is invalid: {error}") from error


class _Hold:
    """The reservation pod of one card, as one bind sees it."""

    def __init__(self, maker: Maker, card: Card, expected: frozenset[str]) -> None:
        """Begin without one; ``expected`` are UUIDs of the GPU that users of the card have."""
        self._maker, self.card, self._expected = maker, card, expected
        self._known: Reservation | None = None
        self.gpu = ""
        """The UUID of the GPU; empty until it is told."""

    def look(self) -> None:
        """Find or make the reservation pod, and take note of the GPU that it tells.

        Raises:
            StepFailedError: it is gone, has ended, or holds another GPU than its users have.

        """
        before = self._known
        self._known = self._find() if before is None else self._maker.read(before.key)
        now = self._known
        name = before.key if before is not None else reservation_name(self.card)
        if before is not None and (now is None or now.uid != before.uid):
            raise StepFailedError(f"reservation pod {name} was deleted")
        if now is None:
            return
        if now.stage is Stage.ENDED:
            raise StepFailedError(f"reservation pod {now.key} has ended: {now.why_ended}")
        if now.stage is Stage.LEAVES:
            raise StepFailedError(f"reservation pod {now.key} is being deleted")
        # Only one that was made in place of a lost one may hold another GPU than its users have.
        # The first of a card holds theirs, whatever users write on their pods.
        if now.is_renewed and now.gpu and self._expected and now.gpu not in self._expected:
            raise StepFailedError(
                f"reservation pod {now.key} holds GPU {now.gpu}, its users have"
                f" {', '.join(sorted(self._expected))}"
            )
        self.gpu = now.gpu

    def _find(self) -> Reservation | None:
        """Return the reservation pod that holds the card; wait for one that is being deleted."""
        there = self._maker.find(self.card)
        for it in there:
            if it.stage is Stage.HOLDS:
                return it
        return None if there else self._maker.make(self.card)


class ShareStep(BindStep):
    """The reservation pods of the cards that a pod gets, and what its Binding says of them."""

    __slots__ = ("_begun_s", "_holds", "_lookup", "_pause_s", "_portion")

    def __init__(
        self,
        maker: Maker,
        bind: Bind,
        expected: Sequence[frozenset[str]],
        portion: Mapping[str, str],
        lookup: LookupMaps | None = None,
    ) -> None:
        """Begin with none of them found.

        Args:
            maker: makes reservation pods.
            bind: the bind.
            expected: UUIDs that the users of each card have already.
            portion: annotations that say how much of each card the pod has.
            lookup: the ConfigMaps that its containers read; None for nearly every pod.

        """
        cards = [Card(bind.node, group) for group in bind.cards]
        self._holds = [_Hold(maker, card, gpus) for card, gpus in zip(cards, expected, strict=True)]
        self._portion, self._begun_s, self._pause_s = portion, -1.0, _FIRST_S
        self._lookup = lookup

    def settle(self) -> float | None:
        """Find or make the reservation pods, wait until they tell their GPUs, and tell the pod."""
        if self._begun_s < 0:
            self._begun_s = monotonic_s()
        for hold in self._holds:
            if not hold.gpu:
                hold.look()
        waiting = [hold.card for hold in self._holds if not hold.gpu]
        if not waiting:
            if len({hold.gpu for hold in self._holds}) < len(self._holds):
                raise StepFailedError("two of its reservation pods tell the same GPU")
            if self._lookup is not None:
                self._lookup.write([hold.gpu for hold in self._holds])
            return None
        if self.is_overdue:
            names = ", ".join(map(reservation_name, waiting))
            raise StepFailedError(f"no GPU told by reservation pod {names} in {MOST_S:.0f} s")
        self._pause_s, pause_s = min(self._pause_s * 2, _LONGEST_S), self._pause_s
        return pause_s

    @property
    def is_overdue(self) -> bool:
        """Whether the time for reservation pods and ConfigMaps is over."""
        return self._begun_s >= 0 and monotonic_s() - self._begun_s > MOST_S

    def marks(self) -> Marks:
        """Return the groups as labels, as KAI-Scheduler reads them, and the GPUs."""
        groups = [hold.card.group for hold in self._holds]
        named = {labels.GPU_GROUP: groups[0]}
        if len(groups) > 1:
            named |= {f"{labels.GPU_GROUP}/{group}": group for group in groups}
        told = {
            labels.GPU_GROUPS: ",".join(groups),
            labels.GPU_UUIDS: ",".join(hold.gpu for hold in self._holds),
        }
        return Marks(named, {**self._portion, **told})


# -- the backend -----------------------------------------------------------------------------------
# A pod of a user is never deleted to repair anything. A reservation pod is deleted only while
# nothing uses its GPU: no pod, and no bind under way.

REFUSED_S: Final = 5.0
"""Pause after a deletion was refused."""
_RENEW_S, _RENEW_MOST_S = 0.5, 4.0
"""Pauses before a card is reserved again that got another GPU, the first and the longest."""
_MOST_NAMES: Final = 10
"""Pods that a line of the log names."""
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
        self._full: set[str] = set()
        """Pods of which it was said that their nodes have no GPU left to reserve."""

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
        lost: list[Card] = []
        if faults := sharing.untold_faults():
            pods, (err, *_) = [*faults][:_MOST_NAMES], faults.values()
            writers.log.warning("gpu_groups_ignored", pods=pods, number=len(faults), err=err)
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
                lost.append(card)
            elif state is CardState.OPEN:
                self._renewals.pop(card, None)
        works += self._renew(lost, writers, store)
        return works

    def _release(self, it: Reservation, writers: Writers, store: StateStore) -> Work:
        self._under_way.add(it.uid)
        if it.stage is Stage.HOLDS:
            store.assume_evicted(it.key)

        def ended(store: StateStore) -> None:
            self._under_way.discard(it.uid)
            store.facts.sharing.look_again(it.card)

        return ReleaseWork(writers, it, ended)

    def _renew(
        self, lost: Sequence[Card], writers: Writers, store: StateStore
    ) -> Iterable[RenewWork]:
        """Reserve cards again, each later every time: the device plugin may give another GPU.

        A node has no more reservation pods than GPUs, so made-up groups cost no more than that;
        which card has waited for longest comes first.
        """
        sharing = store.facts.sharing
        self._full &= {pod for card in lost for pod in sharing.users_of(card)}
        if not lost:
            return
        self._to_look_at.update(lost)
        now_s, nodes, reserved = monotonic_s(), store.rows.nodes, sharing.reserved()
        plans = {card: self._renewals.get(card, (0.0, _RENEW_S)) for card in lost}
        reserved.update(card.node for card, (due_s, _) in plans.items() if due_s > now_s)
        full = defaultdict[str, set[str]](set)
        for card in sorted(lost, key=lambda card: (plans[card], card)):
            due_s, pause_s = plans[card]
            if due_s > now_s:
                continue
            if reserved[card.node] >= nodes.gpus_of(card.node):
                full[card.node].update(sharing.users_of(card))
                continue
            reserved[card.node] += 1
            self._renewals[card] = now_s + pause_s, min(2 * pause_s, _RENEW_MOST_S)
            yield RenewWork(self._maker(writers), card)
        for node, pods in full.items():
            if new := pods - self._full:
                self._full |= new
                why = "reservation pods hold all GPUs of the node, or are about to"
                told = sorted(new)[:_MOST_NAMES]
                writers.log.warning("gpu_not_renewed", node=node, why=why, pods=told)


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


@dataclass(slots=True)
class ReleaseWork:
    """The deletion of a reservation pod that holds no GPU in use."""

    writers: Writers
    it: Reservation
    ended: Callable[[StateStore], None]
    """Posted to the store at the end, however it ends."""
    pauses: Pauses = field(default_factory=Pauses)

    def send(self) -> float | None:
        """Delete the pod if it is still as it was; return when to try again, None for no more."""
        it, writers = self.it, self.writers
        same = {"uid": it.uid, "resourceVersion": it.version}
        body = {"gracePeriodSeconds": _GRACE_S, "preconditions": same}
        passing("release.before_delete")
        try:
            answer = writers.client.call("DELETE", path_of(it.key), body=body)
        except ClusterUnavailable:
            writers.counts.add("reservation", RETRIED)
            return self.pauses.next_s()
        passing("release.after_delete")
        if answer.is_done:
            writers.counts.add("reservation", DONE)
            writers.log.info("gpu_released", pod=it.key, node=it.card.node, gpu=it.gpu)
            writers.post(self.ended)
            return None
        if answer.code == GONE:
            writers.post(lambda store: store.remove_pod(it.key, it.uid))
        elif is_passing(answer):
            writers.counts.add("reservation", RETRIED)
            return self.pauses.next_s(answer.retry_after_s)
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
        it, writers = self.it, self.writers
        writers.counts.add("reservation", outcome)
        writers.post(lambda store: store.refute_eviction(it.key, it.uid))
        writers.post(self.ended)


@dataclass(slots=True)
class RenewWork:
    """The making of a reservation pod for pods that have lost theirs."""

    maker: Maker
    card: Card

    def send(self) -> float | None:
        """Make the pod; what becomes of it is seen like any change, and tried again later."""
        writers = self.maker.writers
        try:
            self.maker.make(self.card, is_renewed=True)
        except (StepFailedError, PassingError, ClusterUnavailable) as error:
            writers.counts.add("reservation", FAILED)
            writers.log.warning("gpu_not_renewed", node=self.card.node, why=str(error))
        else:
            writers.counts.add("reservation", DONE)
        return None

    def drop(self, why: str) -> None:
        """Give it up; it is found missing again."""
        del why
        self.maker.writers.counts.add("reservation", DROPPED)


def _log_refusal(writers: Writers, answer: Answer, verb: str) -> None:
    if lacks_right(answer):
        needs = f"{verb} on pods in namespace {labels.RESERVATION}"
        writers.log.error("reservation_forbidden", answer=answer.text(), needs=needs)
    else:
        writers.log.error("reservation_refused", answer=answer.text())
