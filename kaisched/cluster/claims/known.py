"""Keeps slices, classes and claims, and says what the claims of a pod demand.

A pod whose claims cannot be allocated as things are waits with a reason. A claim that has its
devices, or that several pods name, is known by its key; the others by what they ask for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from kaisched.cluster.claims.gpus import GpuClasses
from kaisched.cluster.claims.reading import claim_of, class_of, slice_of, texts_of
from kaisched.cluster.claims.writing import place_of, taken_portions
from kaisched.core.claims.cel import CelSelector
from kaisched.core.claims.model import MOST_CONSUMERS, MOST_RESULTS, Claim, ClaimError, Slice
from kaisched.core.claims.offer import Offer
from kaisched.core.claims.table import ClaimTable, Held
from kaisched.core.constraints import ClaimUse
from kaisched.core.refusals import Refusal
from kaisched.core.states import TaskState
from kaisched.objects.resource_claims import ResourceClaim, ResourceClaimTemplate
from kaisched.objects.resource_slices import DeviceClass, ResourceSlice
from kaisched.units import CLAIMED_GPU

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.cluster.nodes import NodeRow
    from kaisched.cluster.translate import PodRow

ClaimObject: TypeAlias = ResourceSlice | DeviceClass | ResourceClaim | ResourceClaimTemplate
DEVICE_OBJECTS: Final = (ResourceSlice, DeviceClass, ResourceClaim, ResourceClaimTemplate)
"""Templates matter to whoever makes claims of them."""

_CLAIM: Final = int(Refusal.DEVICE_CLAIM)
_NOT_READ: Final = "resourceClaims: no device classes, slices and claims are known here"


class _Waiting(Exception):  # noqa: N818 - a way out, and no error
    """A claim keeps its pod from every node."""


class DeviceClaims:
    """Slices, classes and claims, and the pods that use claims."""

    def __init__(self) -> None:
        """Know none, and allocate none."""
        self._is_read = False
        """Whether any such object was read; else nobody meant to say which there are."""
        self._slices: dict[str, Slice] = {}
        self._claims: dict[str, ResourceClaim] = {}
        self._held: dict[str, Held] = {}
        self._specs: list[Claim] = []
        self._number: dict[Claim, int] = {}
        self._selectors: dict[str, CelSelector] = {}
        self._users: dict[str, dict[str, PodRow]] = {}
        self._keys_of_pod: dict[str, tuple[str, ...]] = {}
        self._offer: Offer | None = None
        self._is_counted = True
        """Whether GPUs are counted that were offered since."""
        self.gpus = GpuClasses()

    # -- objects ---------------------------------------------------------------------------------

    def put(self, obj: ClaimObject) -> list[str]:
        """Take in an object that came or changed; return the pods that it may matter to."""
        was_read, self._is_read = self._is_read, True
        match obj:
            case ResourceClaim():
                self._claims[obj.key] = obj
                self._hold(obj)
                return sorted(self._users.get(obj.key, ()) if was_read else self._keys_of_pod)
            case DeviceClass():
                self.gpus.classes[obj.name] = class_of(obj)
            case ResourceSlice():
                try:
                    self._slices[obj.name] = slice_of(obj)
                except ClaimError:
                    self._slices.pop(obj.name, None)  # an API server accepts no such slice
                self._offer, self._is_counted = None, False
                return [] if was_read else sorted(self._keys_of_pod)
            case ResourceClaimTemplate():
                return []
        return self._changed()

    def remove(self, obj: ClaimObject) -> list[str]:
        """Drop an object; return the pods that it may matter to."""
        match obj:
            case ResourceClaim():
                self._claims.pop(obj.key, None)
                self._held.pop(obj.key, None)
                return sorted(self._users.get(obj.key, ()))
            case DeviceClass():
                self.gpus.classes.pop(obj.name, None)
            case ResourceSlice():
                self._slices.pop(obj.name, None)
                self._offer, self._is_counted = None, False
                return []
            case ResourceClaimTemplate():
                return []
        return self._changed()

    def _changed(self) -> list[str]:
        self._offer, self._is_counted = None, False
        return sorted(self._keys_of_pod)

    def settle(self) -> tuple[list[NodeRow], list[str]]:
        """Count the GPUs that are offered now.

        Return the nodes that have more or less of them, and the pods that it may matter to.
        """
        if self._is_counted:
            return [], []
        self._is_counted = True
        before = self.gpus.of_node
        is_other = self.gpus.count(self._slices.values())
        return self.gpus.resized(before), sorted(self._keys_of_pod) if is_other else []

    def _hold(self, claim: ResourceClaim) -> None:
        allocation = claim.status.allocation
        if allocation is None:
            self._held.pop(claim.key, None)
            return
        gpus = self.gpus.of_results(claim)
        self._held[claim.key] = Held(taken_portions(allocation), place_of(allocation), gpus)

    def claim(self, key: str) -> ResourceClaim | None:
        """Return a claim; None if there is no such claim."""
        return self._claims.get(key)

    def claims(self) -> list[ResourceClaim]:
        """Return all claims, by name."""
        return [self._claims[key] for key in sorted(self._claims)]

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
            return replace(pod, fault=pod.fault or _NOT_READ)
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
            fault="" if pod.fault == _NOT_READ else pod.fault,
            request=request,
            constraints=replace(pod.constraints, claims=uses, wait=wait or others),
        )

    def _demands(self, pod: PodRow) -> Iterator[tuple[ClaimUse, int]]:
        """Yield the claims of a pod, and how many GPUs each counts as for this pod."""
        for ref in pod.device_claims:
            if not ref.name:
                if ref.is_needed:
                    raise _Waiting(f"claim {ref.label} is not made from its template yet")
                continue
            key = f"{pod.namespace}/{ref.name}"
            claim = self._claims.get(key)
            if claim is None:
                raise _Waiting(f"claim {ref.name} does not exist")
            self._check(pod, claim, is_own=ref.is_own)
            spec = self._number_of(claim)
            held = self._held.get(key)
            is_like_others = ref.is_own and (pod.node or held is None)
            gpus = 0
            if self._payer(key, pod) == pod.key:
                gpus = self.gpus.of(self._specs[spec]) if held is None else held.gpus
            yield ClaimUse(spec, "" if is_like_others else key), gpus

    def _payer(self, key: str, pod: PodRow) -> str:
        """Return the one pod with which the devices of a claim are counted."""
        users = self._users.get(key, {}).values()
        first = min(users, key=lambda it: (not it.node, it.created_s, it.key), default=pod)
        return first.key

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

    def _number_of(self, claim: ResourceClaim) -> int:
        """Return the number of what a claim asks for; check what can be known beforehand."""
        try:
            spec = claim_of(claim.spec)
        except ClaimError as error:
            raise _Waiting(f"claim {claim.name}: {error}") from None
        for text in texts_of(spec):
            if text not in self._selectors:
                self._selectors[text] = CelSelector(text)
        if claim.status.allocation is None:
            self._check_spec(claim.name, spec)
        number = self._number.get(spec)
        if number is None:
            number = self._number[spec] = len(self._specs)
            self._specs.append(spec)
        return number

    def _check_spec(self, name: str, spec: Claim) -> None:
        least = sum(min(max(it.count, 1) for it in each.options) for each in spec.requests)
        if least > MOST_RESULTS:
            raise _Waiting(f"claim {name}: {least} devices are more than {MOST_RESULTS}, the most")
        for ask in (it for request in spec.requests for it in request.options):
            of_class = self.gpus.classes.get(ask.class_name)
            if of_class is None:
                raise _Waiting(f"claim {name}: device class {ask.class_name} does not exist")
            for selector in (*of_class.selectors, *(self._selectors[it] for it in ask.selectors)):
                if selector.fault:
                    raise _Waiting(f"claim {name}: {selector.fault}")

    @property
    def has_pods(self) -> bool:
        """Whether there are pods whose claims are to be allocated."""
        return self._is_read and bool(self._keys_of_pod)

    # -- the table -------------------------------------------------------------------------------

    def table(self, row_of_task: Callable[[str], int]) -> ClaimTable | None:
        """Return the claims of a snapshot; None while no pod uses claims."""
        if not self.has_pods:
            return None
        if self._offer is None:
            self._offer = Offer(self._slices.values(), dict(self.gpus.classes))
        rows = {pod: row_of_task(pod) for pod in self._keys_of_pod}
        return ClaimTable(
            offer=self._offer,
            specs=tuple(self._specs),
            selectors=MappingProxyType(dict(self._selectors)),
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
