"""What claims of storage demand: a pod waits for its claims, or goes where its volumes are.

The rules are those of kube-scheduler's plugins VolumeBinding and VolumeRestrictions, less what they
say of capacity and of volumes made by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, TypeAlias

from kaisched.cluster.columns import set_or_drop
from kaisched.cluster.pods import PodRow, node_terms
from kaisched.core.axis import TaskState
from kaisched.core.constraints import NodeTerm, Requirement
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

Storage: TypeAlias = PersistentVolumeClaim | PersistentVolume | StorageClass

_CLAIM: Final = int(Refusal.VOLUME_CLAIM)
_UNBOUND: Final = int(Refusal.VOLUME_UNBOUND)
_IN_USE: Final = int(Refusal.VOLUME_IN_USE)
_NAME: Final = "metadata.name"


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
                    for one in _named_by(obj):
                        self._claims_on.setdefault(one, set()).add(obj.key)
            case PersistentVolume():
                set_or_drop(self._volumes, obj.name, None if is_gone else obj)
            case StorageClass():
                set_or_drop(self._classes, obj.name, None if is_gone else obj)
        return self._concerned(obj)

    def _drop_claim(self, key: str) -> None:
        claim = self._claims.pop(key, None)
        for one in () if claim is None else _named_by(claim):
            self._claims_on[one].discard(key)
            if not self._claims_on[one]:
                del self._claims_on[one]

    def _concerned(self, obj: Storage) -> list[str]:
        if isinstance(obj, PersistentVolumeClaim):
            return sorted(self._users.get(obj.key, ()))
        claims = self._claims_on.get((type(obj), obj.name), ())
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
        terms: set[tuple[NodeTerm, ...]] = set()
        wait = None
        if assumed is not None:
            terms, wait = set(assumed.constraints.volume_terms), assumed.constraints.wait
        elif self.is_read:
            for name, is_own in pod.claims:
                try:
                    terms.update(self._demands(pod, name, is_own=is_own))
                except _Waiting as waiting:
                    wait = wait or waiting.wait
        if pod.node:
            wait = None
        constraints = replace(
            pod.constraints,
            volume_terms=() if wait else tuple(sorted(terms, key=repr)),
            wait=wait,
        )
        return replace(pod, constraints=constraints)

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

    def _demands(self, pod: PodRow, name: str, *, is_own: bool) -> Iterator[tuple[NodeTerm, ...]]:
        """Yield terms, of each of which one must hold."""
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
            yield from self._where_to_be_made(claim)

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

    def _where_to_be_made(self, claim: PersistentVolumeClaim) -> Iterator[tuple[NodeTerm, ...]]:
        name = claim.spec.storage_class_name
        of_class = self._classes.get(name)
        if name and of_class is None:
            why = f"claim {claim.name} is not bound, and its class {name} does not exist"
            raise _Waiting(_UNBOUND, why)
        if of_class is None or claim.spec.volume_name or not self._waits_for_pod(claim):
            raise _Waiting(_UNBOUND, f"claim {claim.name} is not bound yet")
        if of_class.provisioner in ("", NO_PROVISIONER):
            why = f"claim {claim.name} is not bound, and its class {name} makes no volumes"
            raise _Waiting(_UNBOUND, why)
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


def _named_by(claim: PersistentVolumeClaim) -> list[tuple[type[Storage], str]]:
    spec = claim.spec
    return [(PersistentVolume, spec.volume_name), (StorageClass, spec.storage_class_name)]
