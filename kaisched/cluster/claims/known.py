"""Keeps slices, classes and claims, and says what the claims of a pod demand.

A pod whose claims cannot be allocated as things are waits with a reason. A claim that has its
devices, or that several pods name, is known by its key; the others by what they ask for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from msgspec import structs

from kaisched.cluster.claims.gpus import GpuClasses
from kaisched.cluster.claims.kinds import ClaimObject
from kaisched.cluster.claims.leftovers import Leftover, Leftovers
from kaisched.cluster.claims.offered import Offered
from kaisched.cluster.claims.sent import PodId, SentClaim, SentClaims, Wanted
from kaisched.cluster.claims.specs import Specs
from kaisched.cluster.claims.writing import place_of, taken_portions, written
from kaisched.core.claims.model import MOST_CONSUMERS, Allocation, ClaimError
from kaisched.core.claims.table import ClaimTable, Held
from kaisched.core.constraints import ClaimUse
from kaisched.core.refusals import Refusal
from kaisched.core.states import TaskState
from kaisched.objects.resource_claims import ClaimAllocation, ResourceClaim, ResourceClaimTemplate
from kaisched.objects.resource_slices import ResourceSlice
from kaisched.units import CLAIMED_GPU

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.cluster.nodes import NodeRow
    from kaisched.cluster.translate import PodRow

BY_OBJECTS, ON, OFF = "", "on", "off"
"""Whether claims are allocated: once any such object is read; always; never. Any other text is why
pods with claims wait for now."""

READ_AGAIN_S: Final = 30.0
"""A claim that shows no allocation which a read has found is read again after so long."""
_CLAIM: Final = int(Refusal.DEVICE_CLAIM)
_UNKNOWN: Final = "resourceClaims: no device classes, slices and claims are known here"
_NOT_READ: Final = "resourceClaims: the shard does not set resourceClaims: true"


class _Waiting(Exception):  # noqa: N818 - a way out, and no error
    """A claim keeps its pod from every node."""


class DeviceClaims:
    """Slices, classes and claims, and the pods that use claims."""

    def __init__(self, job_of: Callable[[PodRow], str] = lambda _: "") -> None:
        """Know none, and allocate none; ``job_of`` names the job of a pod."""
        self._job_of = job_of
        self.reading = BY_OBJECTS
        self._has_objects = False
        self.offered = Offered()
        self._specs = Specs(self.gpus.classes)
        self.sent = SentClaims()
        self.leftovers = Leftovers()
        self._claims: dict[str, ResourceClaim] = {}
        self._held: dict[str, Held] = {}
        self._users: dict[str, dict[str, PodRow]] = {}
        self._keys_of_pod: dict[str, tuple[str, ...]] = {}

    @property
    def gpus(self) -> GpuClasses:
        """Which classes count as GPUs, and how many each node has."""
        return self.offered.gpus

    @property
    def _is_read(self) -> bool:
        """Whether anybody means to say which such objects there are."""
        return self._has_objects if self.reading == BY_OBJECTS else self.reading != OFF

    def heed(self, reading: str) -> list[str]:
        """Set whether claims are allocated; return the pods that it may matter to."""
        if reading == self.reading:
            return []
        self.reading = reading
        return sorted(self._keys_of_pod)

    # -- objects ---------------------------------------------------------------------------------

    def put(self, obj: ClaimObject) -> list[str]:
        """Take in an object that came or changed; return the pods that it may matter to."""
        if self.reading == OFF:
            return []
        was_read, self._has_objects = self._is_read, True
        match obj:
            case ResourceClaim():
                self._note_sent(obj)
                self._claims[obj.key] = obj
                self._hold(obj)
                return self.users_of(obj.key) if was_read else sorted(self._keys_of_pod)
            case ResourceClaimTemplate():
                return []
            case _:
                self.offered.put(obj)
        if was_read and isinstance(obj, ResourceSlice):
            return []  # more or fewer devices change nothing about what pods ask for
        return sorted(self._keys_of_pod)

    def remove(self, obj: ClaimObject) -> list[str]:
        """Drop an object; return the pods that it may matter to."""
        match obj:
            case ResourceClaim():
                self._claims.pop(obj.key, None)
                self._held.pop(obj.key, None)
                self.sent.drop(obj.key)
                return self.users_of(obj.key)
            case ResourceClaimTemplate():
                return []
            case _:
                self.offered.remove(obj)
        return [] if isinstance(obj, ResourceSlice) else sorted(self._keys_of_pod)

    def settle(self) -> tuple[list[NodeRow], list[str]]:
        """Count the GPUs that are offered now.

        Return the nodes that have more or less of them, and the pods that it may matter to.
        """
        counted = self.offered.count()
        if counted is None:
            return [], []
        before, is_other = counted
        return self.gpus.resized(before), sorted(self._keys_of_pod) if is_other else []

    def _note_sent(self, claim: ResourceClaim) -> None:
        """Note that a claim shows an allocation, or is another than the one that got one."""
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
            self._held.pop(claim.key, None)
            return
        self.leftovers.suspect(claim.key)
        gpus = self.gpus.of_results(claim, allocation)
        self._held[claim.key] = Held(taken_portions(allocation), place_of(allocation), gpus)

    def claim(self, key: str) -> ResourceClaim | None:
        """Return a claim; None if there is no such claim."""
        return self._claims.get(key)

    def users_of(self, key: str) -> list[str]:
        """Return the pods that use a claim, by name."""
        return sorted(self._users.get(key, ()))

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
            claim = self._claims.get(key)
            uid = "" if claim is None else claim.metadata.uid
            sent = self.sent.get(key, uid)
            if claim is not None and key in granted:
                if sent is not None:
                    # Chosen as if nothing were on its way: the step refuses, and the pod is decided
                    # again by what is known then.
                    wanted.append(Wanted(key, uid, None))
                    continue
                sent = SentClaim(uid, written(granted[key], new_share))
                self.sent.put(key, sent)
                self._hold(claim)
            if sent is not None:
                sent.pods.add((pod.key, pod.uid))
                wanted.append(Wanted(key, uid, sent.allocation, is_new=True))
            else:
                wanted.append(Wanted(key, uid, None if claim is None else claim.status.allocation))
        return wanted

    def settle_sent(self, is_open: Callable[[PodId], bool], now_s: float) -> list[Wanted]:
        """Forget what was sent and is seen; return the claims to be read, since nothing is known.

        Args:
            is_open: tells whether the bind of a pod is under way or not confirmed yet.
            now_s: the present on the monotonic clock.

        """
        before = [key for key, _ in self.sent.items()]
        doubtful = self.sent.settled(is_open, now_s)
        for key in before:
            if key not in self.sent and key in self._claims:
                self._hold(self._claims[key])
        found = ((key, sent) for key, sent in self.sent.items() if key in doubtful)
        return [Wanted(key, sent.uid, None) for key, sent in found]

    def as_sent(self) -> Iterator[ResourceClaim]:
        """Yield the claims to which an allocation was sent that they do not show, with it."""
        for key, sent in self.sent.items():
            claim = self._claims.get(key)
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
        return self.leftovers.found(self._claims, self._users, self.sent, is_waiting)

    # -- pods ------------------------------------------------------------------------------------

    def noted(self, pod: PodRow) -> tuple[PodRow, list[str]]:
        """Take in a pod that uses claims.

        Return it with what its claims demand, and the others that it may matter to.
        """
        rivals = self._note(pod)
        return self._resolved(pod), rivals

    def _note(self, pod: PodRow) -> list[str]:
        if pod.state == TaskState.GONE:
            return self.forget(pod.key)
        keys = tuple(f"{pod.namespace}/{it.name}" for it in pod.device_claims if it.name)
        found = []
        if self._keys_of_pod.get(pod.key, keys) != keys:
            found += self.forget(pod.key)
        self._keys_of_pod[pod.key] = keys
        for key in keys:
            if not pod.node and key in self._held:
                self.leftovers.suspect(key)
            users = self._users.setdefault(key, {})
            old = users.get(pod.key)
            users[pod.key] = pod
            if old is None or old.node != pod.node:
                found += [it for it in users if it != pod.key]
        return found

    def forget(self, pod: str) -> list[str]:
        """Drop a pod; return the others that it may matter to."""
        found: list[str] = []
        for key in self._keys_of_pod.pop(pod, ()):
            users = self._users[key]
            users.pop(pod, None)
            found += users
            if not users:
                del self._users[key]
        return found

    def _resolved(self, pod: PodRow) -> PodRow:
        if not self._is_read:
            return replace(pod, fault=pod.fault or self._why_not)
        uses: tuple[ClaimUse, ...] = ()
        gpus, wait = 0, None
        try:
            found = list(self._demands(pod))
            uses = tuple(use for use, _ in found)
            gpus = sum(it for _, it in found)
        except _Waiting as waiting:
            wait = None if pod.node else (_CLAIM, str(waiting))
        request = {name: amount for name, amount in pod.request.items() if name != CLAIMED_GPU}
        if gpus:
            request[CLAIMED_GPU] = gpus
        others = pod.constraints.wait
        if others is not None and others[0] == _CLAIM:
            others = None
        return replace(
            pod,
            fault="" if pod.fault in {_NOT_READ, _UNKNOWN} else pod.fault,
            request=request,
            constraints=replace(pod.constraints, claims=uses, wait=wait or others),
        )

    @property
    def _why_not(self) -> str:
        return _NOT_READ if self.reading == OFF else _UNKNOWN

    def _demands(self, pod: PodRow) -> Iterator[tuple[ClaimUse, int]]:
        """Yield the claims of a pod, and how many GPUs each counts as for this pod."""
        if self.reading not in {BY_OBJECTS, ON}:
            raise _Waiting(self.reading)
        for ref in pod.device_claims:
            if not ref.name:
                if ref.is_needed:
                    raise _Waiting(f"claim {ref.label} is not made from its template yet")
                continue
            key = f"{pod.namespace}/{ref.name}"
            claim = self._claims.get(key)
            if claim is None:
                raise _Waiting(f"claim {ref.name} does not exist")
            if key in self.leftovers.clearing and not pod.node:
                raise _Waiting(f"claim {ref.name} is on devices that are being given back")
            self._check(pod, claim, is_own=ref.is_own)
            try:
                is_allocated = claim.status.allocation is not None
                spec = self._specs.number_of(claim, is_allocated=is_allocated)
            except ClaimError as error:
                raise _Waiting(f"claim {claim.name}: {error}") from None
            held = self._held.get(key)
            sent = self.sent.get(key, claim.metadata.uid)
            is_bound = bool(pod.node) or (sent is not None and (pod.key, pod.uid) in sent.pods)
            is_like_others = ref.is_own and (is_bound or held is None)
            gpus = 0
            if self._pays(key, pod):
                gpus = self.gpus.of(self._specs[spec]) if held is None else held.gpus
            yield ClaimUse(spec, "" if is_like_others else key), gpus

    def _pays(self, key: str, pod: PodRow) -> bool:
        """Tell whether the devices of a claim are counted with a pod.

        That is the first that has a node. Before, any job may be the one that starts with them: so
        they are counted with the first pod of each, or a job would start beyond its queue's limit.
        """
        users = self._users.get(key, {}).values()
        rivals = [it for it in users if it.node]
        if not rivals:
            job = self._job_of(pod)
            rivals = [it for it in users if it.key == pod.key or self._job_of(it) == job]
        return min(rivals, key=lambda it: (it.created_s, it.key), default=pod).key == pod.key

    def _check(self, pod: PodRow, claim: ResourceClaim, *, is_own: bool) -> None:
        meta, status = claim.metadata, claim.status
        if is_own and all(it.uid != pod.uid for it in meta.owner_references):
            raise _Waiting(f"claim {claim.name} is not the pod's own, as one of a template must be")
        if pod.node:
            return
        if meta.deletion_timestamp and status.allocation is None:
            raise _Waiting(f"claim {claim.name} is being deleted")
        users = status.reserved_for
        if len(users) >= MOST_CONSUMERS and all(it.uid != pod.uid for it in users):
            raise _Waiting(f"claim {claim.name} is used by {len(users)} pods, which is the most")

    @property
    def has_pods(self) -> bool:
        """Whether there are pods whose claims are to be allocated."""
        return self._is_read and bool(self._keys_of_pod)

    # -- the table -------------------------------------------------------------------------------

    def table(self, row_of_task: Callable[[str], int]) -> ClaimTable | None:
        """Return the claims of a snapshot; None while no pod uses claims."""
        if not self.has_pods:
            return None
        rows = {pod: row_of_task(pod) for pod in self._keys_of_pod}
        return ClaimTable(
            offer=self.offered.offer,
            specs=self._specs.all,
            selectors=self._specs.selectors,
            held=MappingProxyType(dict(self._held)),
            consumers=MappingProxyType(
                {
                    key: len(it.status.reserved_for)
                    for key, it in self._claims.items()
                    if it.status.reserved_for
                }
            ),
            claims_of_task=MappingProxyType(
                {rows[pod]: keys for pod, keys in self._keys_of_pod.items() if rows[pod] >= 0}
            ),
            users=MappingProxyType(
                {key: _rows(rows, self._users.get(key, ())) for key in self._held}
            ),
        )


def _rows(rows: dict[str, int], pods: Iterable[str]) -> tuple[int, ...]:
    return tuple(row for pod in pods if (row := rows[pod]) >= 0)
