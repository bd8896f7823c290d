"""Keeps slices, classes and claims, and says what the claims of a pod demand.

A pod whose claims cannot be allocated as things are waits with a reason. A claim that has its
devices, or that several pods name, is known by its key; the others by what they ask for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import structs

from kaisched.cluster.claims.bridging import bridge_over
from kaisched.cluster.claims.drafts import draft_key
from kaisched.cluster.claims.gpus import GpuClasses, depends_on_node
from kaisched.cluster.claims.kinds import ClaimObject
from kaisched.cluster.claims.leftovers import Leftover, Leftovers
from kaisched.cluster.claims.offered import Offered
from kaisched.cluster.claims.resolving import resolved
from kaisched.cluster.claims.sent import PodId, SentClaim, SentClaims, Wanted
from kaisched.cluster.claims.shares import ShareClaims
from kaisched.cluster.claims.special import SpecialClaims
from kaisched.cluster.claims.specs import Specs
from kaisched.cluster.claims.tables import table_of
from kaisched.cluster.claims.writing import place_of, taken_portions, written
from kaisched.core.axis import TaskState
from kaisched.core.claims.model import Allocation, Identity
from kaisched.core.claims.table import Bridge, ClaimTable, Held
from kaisched.objects.devices import (
    ClaimAllocation,
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.cluster.nodes import NodeRow
    from kaisched.cluster.pods import PodRow

BY_OBJECTS, ON, OFF = "", "on", "off"
"""Whether claims are allocated: once any such object is read; always; never. Any other text is why
pods with claims wait for now."""

READ_AGAIN_S: Final = 30.0
"""A claim that shows no allocation which a read has found is read again after so long."""


class DeviceClaims:
    """Slices, classes and claims, and the pods that use claims."""

    def __init__(
        self,
        job_of: Callable[[PodRow], str] = lambda _: "",
        gpu_resources: Sequence[str] = (),
        share_class: str = "",
    ) -> None:
        """Know none, and allocate none.

        Args:
            job_of: names the job of a pod.
            gpu_resources: resource names that count as whole GPUs.
            share_class: the class of devices of which shares of GPUs are claims.

        """
        self.job_of = job_of
        self.reading = BY_OBJECTS
        self._has_objects = False
        self.offered = Offered()
        self.specs = Specs(self.gpus.classes)
        self.sent = SentClaims()
        self.leftovers = Leftovers()
        self.special = SpecialClaims(gpu_resources)
        self._bridge: Bridge | None = None
        self.shares = ShareClaims(share_class, self.gpus.shared)
        self._claims: dict[str, ResourceClaim] = {}
        self.held: dict[str, Held] = {}
        self.users: dict[str, dict[str, PodRow]] = {}
        self._keys_of_pod: dict[str, tuple[str, ...]] = {}
        self._uid_of_pod: dict[str, str] = {}
        """Of the pods that use claims, or ask for what a class may back."""

    @property
    def gpus(self) -> GpuClasses:
        """Which classes count as GPUs, and how many each node has."""
        return self.offered.gpus

    @property
    def is_read(self) -> bool:
        """Whether anybody means to say which such objects there are."""
        return self._has_objects if self.reading == BY_OBJECTS else self.reading != OFF

    @property
    def is_off(self) -> bool:
        """Whether the shard says that no claims are allocated."""
        return self.reading == OFF

    @property
    def is_allocated(self) -> bool:
        """Whether claims are allocated, as far as anybody means to say which there are."""
        return self.reading in {BY_OBJECTS, ON}

    def heed(self, reading: str) -> list[str]:
        """Set whether claims are allocated; return the pods that it may matter to."""
        if reading == self.reading:
            return []
        self.reading = reading
        return self._pods

    # -- objects ---------------------------------------------------------------------------------

    def put(self, obj: ClaimObject) -> list[str]:
        """Take in an object that came or changed; return the pods that it may matter to."""
        if self.reading == OFF:
            return []
        was_read, self._has_objects = self.is_read, True
        match obj:
            case ResourceClaim():
                owners = self.special.put_claim(obj)
                self._note_sent(obj)
                self._claims[obj.key] = obj
                self._hold(obj)
                return self.users_of(obj.key) + owners if was_read else self._pods
            case ResourceClaimTemplate():
                concerned = self.shares.put(obj)
                return concerned if was_read else self._pods
            case _:
                self.offered.put(obj)
        if was_read and isinstance(obj, ResourceSlice):
            return []  # more or fewer devices change nothing about what pods ask for
        if isinstance(obj, DeviceClass):
            self.special.put_class(obj)
        return self._pods

    def remove(self, obj: ClaimObject) -> list[str]:
        """Drop an object; return the pods that it may matter to."""
        match obj:
            case ResourceClaim():
                return self._remove_claim(obj.key, obj.metadata.uid)
            case ResourceClaimTemplate():
                return self.shares.remove(obj)
            case _:
                self.offered.remove(obj)
        if isinstance(obj, DeviceClass):
            self.special.remove_class(obj.name)
        return [] if isinstance(obj, ResourceSlice) else self._pods

    def _remove_claim(self, key: str, uid: str) -> list[str]:
        """Drop a claim, if it is still that one; a watch tells no more of it than this."""
        known = self._claims.get(key)
        if known is None or uid not in {"", known.metadata.uid}:
            return []
        del self._claims[key]
        self.held.pop(key, None)
        self.sent.drop(key)
        return self.users_of(key) + self.special.remove_claim(known)

    @property
    def _pods(self) -> list[str]:
        """The pods that use claims, or ask for what a class may back."""
        return sorted(self._keys_of_pod.keys() | self.special.pods.keys())

    def settle(self) -> tuple[list[NodeRow], list[str]]:
        """Count what nodes offer now.

        Return the nodes that have more or less of them, and the pods that it may matter to.
        """
        counted = self.offered.count(self._used)
        before, is_other = counted or (None, False)
        for claim in self._claims.values() if is_other else ():
            self._hold(claim)
        concerned = self.special.count(self.gpus) if self.is_read else []
        nodes = [] if before is None else self.gpus.resized(before)
        is_allocated, known = self.is_read and self.is_allocated, self.special.bridging
        if self.special.look(self.gpus, is_allocated=is_allocated):
            bridging = self.special.bridging
            self._bridge = bridge_over(self.gpus, bridging)
            is_other |= bridging != known
            if bridging.resource != self.gpus.bridged:
                gone = [it for it in nodes if not self.gpus.of_node[it.name]]
                nodes = [*gone, *self.gpus.bridge(bridging.resource)]
        return nodes, self._pods if is_other else concerned

    def _used(self) -> set[Identity]:
        """Return the devices that claims have, or have parts of."""
        return {identity for it in self.held.values() for identity, _ in it.portions}

    def _note_sent(self, claim: ResourceClaim) -> None:
        """Note that a claim shows an allocation, or is another than the one that got one."""
        for key, uid in self.special.drafts_of(claim):
            made = self.sent.get(key, uid)
            if made is not None and claim.status.allocation is not None:
                made.is_seen = True
        sent = self.sent.get(claim.key, claim.metadata.uid)
        if sent is None:
            self.sent.drop(claim.key)
        elif claim.status.allocation is not None:
            sent.is_seen = True

    def _hold(self, claim: ResourceClaim) -> None:
        sent = self.sent.get(claim.key, claim.metadata.uid)
        allocation = claim.status.allocation
        if allocation is None and sent is not None:
            allocation = sent.allocation
        if allocation is None:
            self.held.pop(claim.key, None)
            return
        self.leftovers.suspect(claim.key)
        gpus = self.gpus.of_results(claim, allocation)
        self.held[claim.key] = Held(taken_portions(allocation), place_of(allocation), gpus)

    def claim(self, key: str) -> ResourceClaim | None:
        """Return a claim, also one that no server has yet; None if there is none."""
        return self.special.drafted(key) or self._claims.get(key)

    def users_of(self, key: str) -> list[str]:
        """Return the pods that use a claim, by name."""
        return sorted(self.users.get(key, ()))

    def claims(self) -> list[ResourceClaim]:
        """Return all claims, by name."""
        return [self._claims[key] for key in sorted(self._claims)]

    # -- what is sent ----------------------------------------------------------------------------

    def assume(
        self, pod: PodRow, granted: Mapping[str, Allocation], new_share: Callable[[], str]
    ) -> list[Wanted]:
        """Count the devices that a bind of a pod takes as taken, and return what is to be written.

        Args:
            pod: who is bound.
            granted: what its claims get with it.
            new_share: gives a new UUID for each part of a shared device.

        """
        wanted = []
        for key in self._keys_of_pod.get(pod.key, ()):
            claim = self.claim(key)
            uid = "" if claim is None else claim.metadata.uid
            sent = self.sent.get(key, uid)
            if key not in granted and self._is_by_plugin(pod, key):
                if sent is not None:
                    wanted.append(Wanted(key, uid, None))  # nobody knows yet: decided again
                continue
            if claim is not None and key in granted:
                if sent is not None:
                    # Chosen as if nothing were on its way: the step refuses, and the pod is decided
                    # again by what is known then.
                    wanted.append(Wanted(key, uid, None))
                    continue
                sent = SentClaim(uid, written(granted[key], new_share))
                self.sent.put(key, sent)
                self._hold(claim)
                if depends_on_node(claim, sent.allocation):
                    self.special.changed.update(self.users_of(key))
            if sent is not None:
                sent.pods.add((pod.key, pod.uid))
                draft = self.special.drafts.get(key)
                wanted.append(Wanted(key, uid, sent.allocation, is_new=True, draft=draft))
            else:
                wanted.append(Wanted(key, uid, None if claim is None else claim.status.allocation))
        return wanted

    def _is_by_plugin(self, pod: PodRow, key: str) -> bool:
        """Tell whether a claim is one that a pod does without on a node with a device plugin."""
        name = key.partition("/")[2]
        return any(it.name == name and it.unless_plugin for it in pod.device_claims)

    def settle_sent(self, is_open: Callable[[PodId], bool], now_s: float) -> list[Wanted]:
        """Forget what was sent and is seen; return the claims to be read, since nothing is known.

        Args:
            is_open: tells whether the bind of a pod is under way or not confirmed yet.
            now_s: the present on the monotonic clock.

        """
        before = [key for key, _ in self.sent.items()]
        doubtful = self.sent.settled(is_open, now_s)
        over = self.special.settle(self.sent, doubtful)
        for key in before:
            if key not in self.sent and (claim := self.claim(key)) is not None:
                self._hold(claim)
        self.special.drop(over)
        return [Wanted(key, it.uid, None) for key, it in self.sent.items() if key in doubtful]

    def as_sent(self) -> Iterator[ResourceClaim]:
        """Yield the claims to which an allocation was sent that they do not show, with it."""
        for key, sent in self.sent.items():
            claim = self.special.as_made(key) or self._claims.get(key)
            if claim is not None and claim.status.allocation is None:
                status = structs.replace(claim.status, allocation=sent.allocation)
                yield structs.replace(claim, status=status)

    def was_read(
        self, key: str, uid: str, allocation: ClaimAllocation | None, now_s: float
    ) -> None:
        """Take in what a claim has that was read since nobody knew; None also if it is gone."""
        sent = self.sent.get(key, uid)
        if sent is None or sent.pods:
            return
        if allocation is not None:
            # It stays taken until the watch shows it, or another read that it is free.
            sent.allocation, sent.read_s = allocation, now_s + READ_AGAIN_S
            return
        self.sent.drop(key)
        if key in self._claims:
            self._hold(self._claims[key])

    def left_over(self, is_waiting: Callable[[PodRow], bool]) -> list[Leftover]:
        """Return claims whose devices only pods have that wait, after a cycle."""
        return self.leftovers.found(self._claims, self.users, self.sent, is_waiting)

    # -- pods ------------------------------------------------------------------------------------

    def __contains__(self, pod: str) -> bool:
        """Tell whether a pod of this name was taken in."""
        return pod in self._uid_of_pod

    def noted(self, pod: PodRow) -> tuple[PodRow, list[str]]:
        """Take in a pod that uses claims, or that has come in the place of one.

        Return it with what its claims demand, and the others that it may matter to.
        """
        rivals: list[str] = []
        is_over = pod.state == TaskState.GONE or not (pod.device_claims or pod.extended)
        if is_over or self._uid_of_pod.get(pod.key, pod.uid) != pod.uid:
            rivals = self.forget(pod.key)
        if is_over:
            return pod, rivals
        self._uid_of_pod[pod.key] = pod.uid
        if pod.extended and self.reading != OFF:
            pod = self.special.noted(pod, is_sent=draft_key(pod.key, pod.uid) in self.sent)
        self.shares.note(pod)
        if not pod.device_claims and pod.key not in self._keys_of_pod:
            return pod, rivals
        rivals += self._note(pod) if pod.device_claims else self._forget_uses(pod.key)
        return resolved(self, pod), rivals

    def _note(self, pod: PodRow) -> list[str]:
        keys = tuple(f"{pod.namespace}/{it.name}" for it in pod.device_claims if it.name)
        found = []
        if self._keys_of_pod.get(pod.key, keys) != keys:
            found += self._forget_uses(pod.key)
        self._keys_of_pod[pod.key] = keys
        for key in keys:
            if not pod.node and key in self.held:
                self.leftovers.suspect(key)
            users = self.users.setdefault(key, {})
            old = users.get(pod.key)
            users[pod.key] = pod
            if len(users) > 1 and (old is None or self._counts_elsewhere(old, pod)):
                found += [it for it in users if it != pod.key]
        return found

    def _counts_elsewhere(self, old: PodRow, pod: PodRow) -> bool:
        """Tell whether a claim that others use too may count with another pod since."""
        return old.node != pod.node or self.job_of(old) != self.job_of(pod)

    def forget(self, pod: str, uid: str = "") -> list[str]:
        """Drop a pod, with a UID only if it is still that one; return those it may matter to."""
        known = self._uid_of_pod.get(pod)
        if known is None or uid not in {"", known}:
            return []
        del self._uid_of_pod[pod]
        self.special.forget(pod, self.sent)
        self.shares.forget(pod)
        return self._forget_uses(pod)

    def _forget_uses(self, pod: str) -> list[str]:
        found: list[str] = []
        for key in self._keys_of_pod.pop(pod, ()):
            users = self.users[key]
            users.pop(pod, None)
            found += users
            if not users:
                del self.users[key]
        return found

    @property
    def has_table(self) -> bool:
        """Whether snapshots need a table: pods use claims, or nodes differ in what claims give."""
        return self.is_read and bool(self._keys_of_pod or self._bridge)

    # -- the table -------------------------------------------------------------------------------

    def table(self, row_of_task: Callable[[str], int]) -> ClaimTable | None:
        """Return the claims of a snapshot; None while no pod uses claims."""
        if not self.has_table:
            return None
        return table_of(
            self.offered,
            self.specs,
            self.held,
            {key: len(it.status.reserved_for) for key, it in self._claims.items()},
            self._keys_of_pod,
            self.users,
            row_of_task,
            self._bridge,
        )
