"""The input of a state store, as values that can be serialized."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from kaisched.cluster.claims.device_claims import BY_OBJECTS
from kaisched.cluster.grouping import Owner
from kaisched.cluster.pods import NO_SHARING, Sharing
from kaisched.cluster.pools.book import PoolBook
from kaisched.cluster.pools.owners import FixedOwners
from kaisched.cluster.rowstore import JobPast
from kaisched.cluster.store import StateStore, owner_of, update
from kaisched.core.axis import FIXED
from kaisched.objects.gangs import KNOWN
from kaisched.objects.pod import Pod
from kaisched.objects.shard import SchedulingShard
from kaisched.objects.wire import KubernetesObject
from kaisched.objects.workloads import PartialObject, Table

_NOT_KEPT: Final = SchedulingShard  # not the store's, see ``events``


@dataclass(frozen=True, slots=True)
class Assumed:
    """Something that was sent about a pod and that no event has confirmed.

    A pod may have two: its bind, and then its eviction.
    """

    pod: str
    node: str
    is_leaving: bool
    """Its eviction was sent; else its bind."""
    is_promise: bool = False
    """Neither was: the node is freed for it, and its own status does not say so yet."""
    cards: tuple[str, ...] = ()
    """The groups of the shared GPUs of a bind."""


@dataclass(frozen=True, slots=True)
class PoolState:
    """Which jobs with lists of pools were this shard's, each by one of its pods."""

    served: Mapping[str, bool]
    """The pools that shards serve, with whether each admits all projects."""
    owned: tuple[str, ...] = ()
    impatient: tuple[str, ...] = ()
    """Of jobs that might evict here although idle pools come first."""


@dataclass(frozen=True, slots=True)
class StoreState:
    """Everything that a snapshot is made of."""

    objects: tuple[bytes, ...]
    """Each as JSON, as it was decoded, with its API version and kind; by kind and key."""
    owners: tuple[Owner, ...] = ()
    """Workloads of which only the metadata were read; by UID."""
    extended: tuple[str, ...] = ()
    """Names of the resources that are counted beside the fixed ones."""
    assumed: tuple[Assumed, ...] = ()
    past: Mapping[str, JobPast] = field(default_factory=dict)
    """By job."""
    evictions_s: tuple[float, ...] = ()
    """When pods were evicted in the last hour."""
    disrupted: tuple[str, ...] = ()
    """Pods that were evicted and that their disruption budgets still count."""
    stuck: tuple[str, ...] = ()
    """Pods that were asked to go so long ago that nobody is made to wait for their room."""
    without_owner: tuple[str, ...] = ()
    """Pods that wait for an owner that is not read yet."""
    has_volumes: bool = False
    """Whether claims, volumes and classes are known, so that pods wait for their claims."""
    offers_shares: bool = False
    """Whether pods may share GPUs."""
    pools: PoolState | None = None
    """None where there is one pool."""
    sharing: Sharing = NO_SHARING
    claims: str = BY_OBJECTS
    """Whether claims on devices are allocated."""


class Kept:
    """The objects that a store has handled, as JSON: smaller than structs."""

    __slots__ = ("_objects", "_owners")

    def __init__(self) -> None:
        """Keep none."""
        self._objects: dict[tuple[str, str], tuple[str, bytes]] = {}  # (UID, JSON)
        self._owners: dict[str, Owner] = {}

    def put(self, obj: KubernetesObject | PartialObject) -> None:
        """Keep an object that came or changed."""
        if isinstance(obj, PartialObject):
            self._owners[obj.metadata.uid] = owner_of(obj)
        elif not isinstance(obj, _NOT_KEPT):
            self._objects[obj.KIND, obj.key] = obj.metadata.uid, as_json(obj)

    def drop(self, obj: KubernetesObject | PartialObject) -> None:
        """Forget an object that is gone; a pod only if it is still that one, as the store does."""
        if isinstance(obj, PartialObject):
            self._owners.pop(obj.metadata.uid, None)
            return
        uid, _ = self._objects.get((obj.KIND, obj.key), ("", b""))
        if not isinstance(obj, Pod) or obj.metadata.uid in {"", uid}:
            self._objects.pop((obj.KIND, obj.key), None)

    def bare_state(
        self,
        *,
        has_volumes: bool = False,
        sharing: Sharing = NO_SHARING,
        claims: str = BY_OBJECTS,
    ) -> StoreState:
        """Return the input of a store that has handled only these objects.

        Args:
            has_volumes: whether all kinds of storage could be read.
            sharing: how shares of GPUs reach the hardware.
            claims: whether claims on devices are allocated.

        """
        return StoreState(
            tuple(self._objects[key][1] for key in sorted(self._objects)),
            tuple(self._owners[uid] for uid in sorted(self._owners)),
            has_volumes=has_volumes,
            offers_shares=sharing.has_reservations,
            sharing=sharing,
            claims=claims,
        )

    def state_of(self, store: StateStore) -> StoreState:
        """Return the input of a store that has handled only these objects."""
        return replace(
            self.bare_state(),
            objects=self._as_sent(store),
            extended=store.rows.axis.names[len(FIXED) :],
            assumed=tuple(_assumed(store)),
            past=dict(store.rows.pasts()),
            evictions_s=tuple(store.rows.evictions_s),
            disrupted=tuple(sorted(store.facts.disruptions.unseen)),
            stuck=tuple(sorted(store.facts.stuck)),
            without_owner=tuple(sorted(store.members.unsettled)),
            has_volumes=store.volumes.is_read,
            offers_shares=store.ours.offers_shares,
            pools=_pools(store.pools) if store.pools.is_on else None,
            sharing=store.ours.sharing,
            claims=store.device_claims.reading,
        )

    def _as_sent(self, store: StateStore) -> tuple[bytes, ...]:
        """Return the objects, with the allocations that were sent to claims and are not seen."""
        there = dict(self._objects)
        for claim in store.device_claims.as_sent():
            there[claim.KIND, claim.key] = claim.metadata.uid, as_json(claim)
        return tuple(there[key][1] for key in sorted(there))


def as_json(obj: KubernetesObject) -> bytes:
    """Return an object as JSON with its API version and kind; defaults are left out."""
    head = msgspec.json.encode({"apiVersion": obj.API_VERSION, "kind": obj.KIND})
    return head[:-1] + b"," + msgspec.json.encode(obj)[1:]


def restored(
    objects: Iterable[KubernetesObject],
    state: StoreState,
    schedulers: Iterable[str],
    node_pool: str,
    gpu_resources: Sequence[str],
    workloads: Table = KNOWN,
    *,
    checks_queues: bool = False,
) -> StateStore:
    """Return a store that shows what the other did.

    Args:
        objects: those of the state, decoded.
        state: the rest of it.
        schedulers: as for the store, like the next two.
        node_pool: see there.
        gpu_resources: see there.
        workloads: see there.
        checks_queues: see there.

    """
    owners = None if state.pools is None else FixedOwners(node_pool, state.pools.served)
    store = StateStore(
        schedulers,
        node_pool=node_pool,
        gpu_resources=gpu_resources,
        extended=state.extended,
        workloads=workloads,
        offers_shares=state.offers_shares,
        owners=owners,
        sharing=state.sharing,
        checks_queues=checks_queues,
    )
    store.device_claims.set_reading(state.claims)
    store.facts.stuck.restore(state.stuck)
    store.members.unsettled.restore(state.without_owner)
    for owner in state.owners:
        store.upsert_owner(owner)
    store.set_volumes_read(is_read=state.has_volumes)
    for obj in objects:
        update(store, obj)
    if state.pools is not None and owners is not None:
        _own_again(store, state.pools, owners)
    for assumed in state.assumed:
        _assume(store, assumed)
    store.facts.disruptions.restore(state.disrupted)
    store.rows.restore_pasts(state.past, state.evictions_s)
    return store


def _assume(store: StateStore, assumed: Assumed) -> None:
    if assumed.is_promise:
        store.promise(assumed.pod, assumed.node)
    elif assumed.is_leaving:
        store.assume_evicted(assumed.pod)
    else:
        store.assume_bound(assumed.pod, assumed.node, assumed.cards)


def _own_again(store: StateStore, pools: PoolState, owners: FixedOwners) -> None:
    for pod in pools.owned:
        owners.grant(store.pools.job_of(pod))
    for pod in pools.impatient:
        store.pools.impatient.add(store.pools.job_of(pod))
    store.settle_pools()


def _pools(book: PoolBook) -> PoolState:
    owned = sorted(min(it.pods) for job, it in book.jobs.items() if book.is_mine(job))
    impatient = sorted(min(it.pods) for job, it in book.jobs.items() if job in book.impatient)
    return PoolState(dict(book.owners.served), tuple(owned), tuple(impatient))


def _assumed(store: StateStore) -> Iterable[Assumed]:
    sent = store.facts.sent
    for pod in sorted(sent.binds.keys() | sent.evictions.keys()):
        if pod in sent.binds:
            bind = sent.binds[pod]
            yield Assumed(pod, bind.node, is_leaving=False, cards=bind.cards)
        if pod in sent.evictions:
            yield Assumed(pod, store.node_of(pod), is_leaving=True)
    for pod, name in sorted(store.facts.promised()):
        if not store.pods.is_nominated(pod, name):
            yield Assumed(pod, name, is_leaving=False, is_promise=True)
