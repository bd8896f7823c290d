"""Volume claims: a pod waits for its claims, or needs a node that reaches its volumes.

The rules are those of kube-scheduler's plugins VolumeBinding, VolumeZone and VolumeRestrictions,
less what they say of the capacity that provisioners have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from kaisched.cluster.columns import set_or_drop
from kaisched.cluster.disruptions import selects
from kaisched.cluster.pods import PodRow, node_terms
from kaisched.core.axis import TaskState
from kaisched.core.claims.model import Place, Site
from kaisched.core.claims.offer import matches
from kaisched.core.constraints import NodeTerm, Requirement, UnboundClaim
from kaisched.core.refusals import Refusal
from kaisched.objects.pod import (
    NO_PROVISIONER,
    ONE_POD,
    SELECTED_NODE,
    WAITS_FOR_POD,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from kaisched.objects.wire import Amounts
from kaisched.units import UnitError, count

Storage: TypeAlias = PersistentVolumeClaim | PersistentVolume | StorageClass

_CLAIM: Final = int(Refusal.VOLUME_CLAIM)
_UNBOUND: Final = int(Refusal.VOLUME_UNBOUND)
_IN_USE: Final = int(Refusal.VOLUME_IN_USE)
_NAME: Final = "metadata.name"
_FREE: Final = "Available"


_ZONE: Final = "topology.kubernetes.io/zone"
_REGION: Final = "topology.kubernetes.io/region"
_NEWER: Final = {
    "failure-domain.beta.kubernetes.io/zone": _ZONE,
    "failure-domain.beta.kubernetes.io/region": _REGION,
    _ZONE: _ZONE,
    _REGION: _REGION,
}
"""Labels that say where a volume is, with the labels of nodes that say the same today."""


class Given(NamedTuple):
    """What a claim gets on the node of its pod."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume | None
    """None for one that is to be made."""
    can_be_made: bool


class _Waiting(Exception):  # noqa: N818 - a way out, and no error
    """A claim keeps its pod from every node."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.wait = (code, why)


class Volumes:
    """Claims, volumes and classes, and the pods that use claims."""

    def __init__(self) -> None:
        """Know none."""
        self.is_read = False
        """Whether all three kinds are known; else no pod is held up for its storage."""
        self._claims: dict[str, PersistentVolumeClaim] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self._classes: dict[str, StorageClass] = {}
        self._users: dict[str, dict[str, PodRow]] = {}
        """By claim, its pods."""
        self._claims_of_pod: dict[str, list[str]] = {}
        self._claims_on: dict[tuple[type[Storage], str], set[str]] = {}
        """By volume and by class, the claims that name it."""
        self._open: dict[str, set[str]] = {}
        """By class, the claims without a volume."""
        self._volumes_of: dict[str, set[str]] = {}
        """By class, the names of its volumes."""
        self._given: dict[str, tuple[str, str]] = {}
        """By claim, the volume that it is about to get, and the pod with which."""
        self._news: set[str] = set()
        """Classes of which a volume was taken or is free again."""

    def set_read(self, *, is_read: bool) -> list[str]:
        """Let pods wait for their claims or not; return those that it matters to."""
        if self.is_read == is_read:
            return []
        self.is_read = is_read
        return sorted(self._claims_of_pod)

    # -- objects ---------------------------------------------------------------------------------

    def update(self, obj: Storage, *, is_gone: bool = False) -> list[str]:
        """Take in an object that came or changed, or drop it; return the pods it may matter to."""
        match obj:
            case PersistentVolumeClaim():
                self._drop_claim(obj.key)
                if not is_gone:
                    self._claims[obj.key] = obj
                    is_open = not obj.spec.volume_name
                    _list(self._open, obj.spec.storage_class_name, obj.key, is_in=is_open)
                    for one in _named_by(obj):
                        self._claims_on.setdefault(one, set()).add(obj.key)
                if is_gone or obj.spec.volume_name:
                    self._drop_given(obj.key)
            case PersistentVolume():
                self._update_volume(obj.name, None if is_gone else obj)
            case StorageClass():
                set_or_drop(self._classes, obj.name, None if is_gone else obj)
        return self._concerned(obj)

    def _update_volume(self, name: str, new: PersistentVolume | None) -> None:
        old = self._volumes.get(name)
        for one in (old, new):
            if one is not None:
                of_class = one.spec.storage_class_name
                _list(self._volumes_of, of_class, name, is_in=one is new)
                if one.status.phase == _FREE or one.spec.claim_ref is None:
                    self._news.add(of_class)
        set_or_drop(self._volumes, name, new)

    def _drop_claim(self, key: str) -> None:
        claim = self._claims.pop(key, None)
        if claim is not None:
            _list(self._open, claim.spec.storage_class_name, key, is_in=False)
        for one in () if claim is None else _named_by(claim):
            self._claims_on[one].discard(key)
            if not self._claims_on[one]:
                del self._claims_on[one]

    def _concerned(self, obj: Storage) -> list[str]:
        if isinstance(obj, PersistentVolumeClaim):
            return sorted(self._users.get(obj.key, ()))
        return self._concerned_by(self._claims_on.get((type(obj), obj.name), ()))

    def _concerned_by(self, claims: Iterable[str]) -> list[str]:
        return sorted({pod for key in claims for pod in self._users.get(key, ())})

    # -- pods ------------------------------------------------------------------------------------

    def __contains__(self, pod: str) -> bool:
        """Tell whether a pod of this name uses claims."""
        return pod in self._claims_of_pod

    def note(self, pod: PodRow) -> list[str]:
        """Take in a pod that uses claims, or one in its place; return those it may matter to."""
        keys = [f"{pod.namespace}/{name}" for name, _ in pod.claims]
        if pod.state == TaskState.GONE or not keys:
            return self.forget(pod.key)
        found = [] if self._claims_of_pod.get(pod.key, keys) == keys else self.forget(pod.key)
        self._claims_of_pod[pod.key] = keys
        for key in keys:
            users = self._users.setdefault(key, {})
            old = users.get(pod.key)
            users[pod.key] = pod
            if old is None or old.node != pod.node:
                found += self._rivals(key, pod.key)
        return found

    def forget(self, pod: str, uid: str = "") -> list[str]:
        """Drop a pod, with a UID only if it is still that one; return those it may matter to."""
        keys, found = self._claims_of_pod.get(pod, []), list[str]()
        if not keys or uid not in {"", self._users[keys[0]][pod].uid}:
            return found
        self.take_back(pod)
        for key in self._claims_of_pod.pop(pod):
            found += self._rivals(key, pod)
            users = self._users[key]
            users.pop(pod, None)
            if not users:
                del self._users[key]
        return found

    def _rivals(self, claim: str, pod: str) -> list[str]:
        known = self._claims.get(claim)
        is_for_one = known is not None and ONE_POD in known.spec.access_modes
        return [it for it in self._users[claim] if it != pod] if is_for_one else []

    def resolved(self, pod: PodRow, assumed: PodRow | None) -> PodRow:
        """Return a pod with what its claims demand.

        One on its node waits for nothing, but could only move where its volumes are. One of which
        a bind is ``assumed`` keeps what that was decided by.
        """
        found: set[tuple[NodeTerm, ...] | UnboundClaim] = set()
        wait = None
        if assumed is not None:
            known = assumed.constraints
            found, wait = {*known.volume_terms, *known.unbound}, known.wait
        elif self.is_read:
            if not pod.node:
                self.take_back(pod.key)
            for name, is_own in pod.claims:
                try:
                    found.update(self._demands(pod, name, is_own=is_own))
                except _Waiting as waiting:
                    wait = wait or waiting.wait
        if pod.node:
            wait = None
        unbound = sorted(it for it in found if isinstance(it, UnboundClaim))
        terms = sorted((it for it in found if not isinstance(it, UnboundClaim)), key=repr)
        constraints = replace(
            pod.constraints,
            volume_terms=() if wait else tuple(terms),
            unbound=() if wait or pod.node else tuple(unbound),
            wait=wait,
        )
        return replace(pod, constraints=constraints)

    def give(self, pod: PodRow, site: Site) -> list[Given]:
        """Choose the volumes that a pod's claims get on its node; they are no longer free."""
        found = []
        for it in pod.constraints.unbound:
            taken = {name for name, _ in self._given.values()}
            name, user = self._given.get(it.key, ("", ""))
            if not user:
                places = ((name, terms) for name, terms in it.volumes if name not in taken)
                name = next((name for name, terms in places if _is_there(terms, site)), "")
            if name and not user:
                self._given[it.key] = name, pod.key
                self._news.add(self._volumes[name].spec.storage_class_name)
            found.append(Given(self._claims[it.key], self._volumes.get(name), it.made is not None))
        return found

    def take_back(self, pod: str) -> None:
        """Let the volumes that a pod's claims were to get be free again."""
        for key in [key for key, (_, user) in self._given.items() if user == pod]:
            self._drop_given(key)

    def _drop_given(self, claim: str) -> None:
        name, _ = self._given.pop(claim, ("", ""))
        if (volume := self._volumes.get(name)) is not None:
            self._news.add(volume.spec.storage_class_name)

    def settle(self) -> list[str]:
        """Return the pods whose claims choose from volumes of which some were taken or are free."""
        claims = [key for it in self._news for key in self._open.get(it, ())]
        self._news.clear()
        return self._concerned_by(claims)

    def to_select(self, pod: PodRow | None) -> list[str]:
        """Return the keys of those of a pod's claims that wait for its node to be named."""
        if pod is None:
            return []
        known = (self._claims.get(f"{pod.namespace}/{name}") for name, _ in pod.claims)
        return [
            claim.key
            for claim in known
            if claim is not None and not claim.is_bound and self._waits_for_pod(claim)
        ]

    def _waits_for_pod(self, claim: PersistentVolumeClaim) -> bool:
        of_class = self._classes.get(claim.spec.storage_class_name)
        return of_class is not None and of_class.volume_binding_mode == WAITS_FOR_POD

    def _demands(
        self, pod: PodRow, name: str, *, is_own: bool
    ) -> Iterator[tuple[NodeTerm, ...] | UnboundClaim]:
        """Yield terms, of each of which one must hold, or the claim if volumes are free for it."""
        claim = self._claims.get(f"{pod.namespace}/{name}")
        if claim is None:
            raise _Waiting(_CLAIM, f"claim {name} does not exist")
        if claim.metadata.deletion_timestamp:
            raise _Waiting(_CLAIM, f"claim {name} is being deleted")
        if claim.status.phase == "Lost":
            raise _Waiting(_CLAIM, f"claim {name} has lost its volume")
        if is_own and all(it.uid != pod.uid for it in claim.metadata.owner_references):
            raise _Waiting(_CLAIM, f"claim {name} is not the pod's own, as its volume must be")
        self._check_user(pod, claim)
        if claim.is_bound:
            yield from self._where_bound(claim)
        else:
            yield from self._where_unbound(pod, claim)

    def _check_user(self, pod: PodRow, claim: PersistentVolumeClaim) -> None:
        if pod.node or ONE_POD not in claim.spec.access_modes:
            return
        users = self._users.get(claim.key, {}).values()
        first = min(users, key=lambda it: (not it.node, it.created_s, it.key), default=pod)
        if first.key != pod.key:
            why = f"claim {claim.name} is for one pod, and pod {first.meta.name} comes first"
            raise _Waiting(_IN_USE, why)

    def _where_bound(self, claim: PersistentVolumeClaim) -> Iterator[tuple[NodeTerm, ...]]:
        volume = self._volumes.get(claim.spec.volume_name)
        if volume is None:
            why = f"volume {claim.spec.volume_name} of claim {claim.name} does not exist"
            raise _Waiting(_CLAIM, why)
        required = volume.spec.node_affinity.required
        if required is not None:
            yield node_terms(required)
        yield from _zones_of(volume)

    def _where_unbound(
        self, pod: PodRow, claim: PersistentVolumeClaim
    ) -> Iterator[tuple[NodeTerm, ...] | UnboundClaim]:
        name = claim.spec.storage_class_name
        of_class = self._classes.get(name)
        if name and of_class is None:
            why = f"claim {claim.name} is not bound, and its class {name} does not exist"
            raise _Waiting(_UNBOUND, why)
        if of_class is None or claim.spec.volume_name or not self._waits_for_pod(claim):
            raise _Waiting(_UNBOUND, f"claim {claim.name} is not bound yet")
        is_made = of_class.provisioner not in ("", NO_PROVISIONER)
        made = tuple(_where_made(claim, of_class)) if is_made else None
        node = claim.metadata.annotations.get(SELECTED_NODE)
        volumes = () if node and is_made else tuple(self._free_for(claim))
        if volumes:
            yield UnboundClaim(
                _bytes(claim.spec.resources.requests), claim.key, pod.key, volumes, made
            )
        elif made is None:
            why = f"claim {claim.name} is not bound, its class {name} makes no volumes, and "
            raise _Waiting(_UNBOUND, f"{why}none that fits is free")
        else:
            yield from made

    def _free_for(
        self, claim: PersistentVolumeClaim
    ) -> Iterator[tuple[str, tuple[NodeTerm, ...] | None]]:
        """Yield the volumes that a claim may take, and where: its own, or the smallest first."""
        given, _ = self._given.get(claim.key, ("", ""))
        taken = {name for name, _ in self._given.values()} - {given}
        of_class = self._volumes_of.get(claim.spec.storage_class_name, set())
        fits = [self._volumes[it] for it in of_class - taken if _fits(self._volumes[it], claim)]
        own = [it for it in fits if it.name == given or it.is_for(claim)]
        for it in sorted(own or fits, key=lambda it: (_bytes(it.spec.capacity), it.name)):
            required = it.spec.node_affinity.required
            yield it.name, None if required is None else node_terms(required)


def _where_made(
    claim: PersistentVolumeClaim, of_class: StorageClass
) -> Iterator[tuple[NodeTerm, ...]]:
    """Yield terms, of each of which one must hold where a volume can be made."""
    node = claim.metadata.annotations.get(SELECTED_NODE)
    if node:
        yield (((), (Requirement(_NAME, "In", (node,)),)),)
    if of_class.allowed_topologies:
        yield tuple(
            (
                tuple(
                    Requirement(it.key, "In", tuple(sorted(set(it.values))))
                    for it in term.match_label_expressions
                ),
                (),
            )
            for term in of_class.allowed_topologies
        )


def _list(lists: dict[str, set[str]], of_class: str, name: str, *, is_in: bool) -> None:
    """Put a name on the list of a class, or take it off; a list of none is no list."""
    names = lists.setdefault(of_class, set())
    (names.add if is_in else names.discard)(name)
    if not names:
        del lists[of_class]


def _fits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Tell whether a claim may take a volume, wherever its pod goes."""
    spec, wants = volume.spec, claim.spec
    has_room = _bytes(spec.capacity) >= _bytes(wants.resources.requests)
    if (
        not has_room
        or volume.metadata.deletion_timestamp
        or spec.volume_mode != wants.volume_mode
        or spec.volume_attributes_class_name != wants.volume_attributes_class_name
    ):
        return False
    if volume.is_for(claim):
        return True
    return (
        spec.claim_ref is None
        and volume.status.phase == _FREE
        and set(wants.access_modes) <= set(spec.access_modes)
        and (wants.selector is None or selects(wants.selector, volume.metadata.labels))
    )


def _bytes(amounts: Amounts) -> int:
    """Return an amount of storage; that of no sense fits no claim and no volume."""
    try:
        return count(amounts.get("storage", 0))
    except UnitError:
        return -1


def _is_there(terms: tuple[NodeTerm, ...] | None, site: Site) -> bool:
    return terms is None or any(matches(Place(term=term), site) for term in terms)


def _zones_of(volume: PersistentVolume) -> Iterator[tuple[NodeTerm, ...]]:
    """Yield what the zone and region labels of a volume demand; nothing of nodes without any."""
    nowhere = (tuple(Requirement(key, "DoesNotExist", ()) for key in sorted(_NEWER)), ())
    for key, newer in _NEWER.items():
        zones = [it.strip() for it in volume.metadata.labels.get(key, "").split("__")]
        if all(zones):
            here = Requirement(newer, "In", tuple(sorted(set(zones))))
            terms: list[NodeTerm] = [nowhere, ((replace(here, key=key),), ())]
            if newer != key:
                terms.append(((Requirement(key, "DoesNotExist", ()), here), ()))
            yield tuple(sorted(terms, key=repr))


def _named_by(claim: PersistentVolumeClaim) -> list[tuple[type[Storage], str]]:
    spec = claim.spec
    return [(PersistentVolume, spec.volume_name), (StorageClass, spec.storage_class_name)]
