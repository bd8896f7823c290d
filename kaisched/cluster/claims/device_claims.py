"""Keeps slices, classes and claims, and says what the claims of a pod demand.

A pod whose claims cannot be allocated as things are waits with a reason. A claim that has its
devices, or that several pods name, is known by its key; the others by what they ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, compress
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
from msgspec import structs

from kaisched.cluster.claims.conversion import Specs, place_of, taken_portions, written
from kaisched.cluster.claims.generated import (
    LABEL,
    GeneratedClaims,
    ShareClaims,
    Waiting,
    generated_key,
)
from kaisched.cluster.claims.gpus import (
    OfferedDevices,
    OfferedObject,
    bridge_over,
    depends_on_node,
    pieces,
)
from kaisched.cluster.claims.sent import (
    Leftover,
    Leftovers,
    PodId,
    SentClaim,
    SentClaims,
    Wanted,
)
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.pods import DeviceClaimRef, PodRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import ACTIVE_STATES, GPU_UNIT, TaskState
from kaisched.core.claims.model import MOST_CONSUMERS, Allocation, ClaimError, Identity
from kaisched.core.claims.table import NO_GPUS, Bridge, ClaimTable, Gpus, Held
from kaisched.core.constraints import ClaimUse
from kaisched.core.devices import LEAST_SHARE
from kaisched.core.refusals import Refusal
from kaisched.core.snapshot import Snapshot
from kaisched.objects.devices import (
    ClaimAllocation,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from kaisched.telemetry.metrics import ClaimFigures
from kaisched.units import CLAIMED_GPU

# -- kinds -----------------------------------------------------------------------------------------

ClaimObject: TypeAlias = OfferedObject | ResourceClaim | ResourceClaimTemplate
DEVICE_OBJECTS: Final = (
    ResourceSlice,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
)
"""Templates matter to whoever makes claims of them."""


# -- claims ----------------------------------------------------------------------------------------
# A pod whose claims cannot be allocated as things are waits with a reason. A claim that has its
# devices, or that several pods name, is known by its key; the others by what they ask for.

_GPU: Final = "gpu"
_CLAIM: Final = int(Refusal.DEVICE_CLAIM)
NOTHING_KNOWN: Final = "resourceClaims: no device classes, slices and claims are known here"
"""Why pods with claims wait where nobody says which objects there are, as in a file of pods."""
_NOT_READ: Final = "resourceClaims: the shard does not set resourceClaims: true"
BY_OBJECTS, ON, OFF = "", "on", "off"
"""Whether claims are allocated: once any such object is read; always; never. Any other text is why
pods with claims wait for now."""

_MOST_CONTESTED: Final = 6
"""Of a pod with more claims that several jobs wait for, the others count until the next cycle."""
READ_AGAIN_S: Final = 30.0
"""A claim that shows no allocation which a read has found is read again after so long."""


class DeviceClaims:
    """Slices, classes and claims, and the pods that use claims."""

    def __init__(
        self,
        job_of: Callable[[PodRow], str] = lambda _: "",
        gpu_resources: Sequence[str] = (),
        share_class: str = "",
        least_share: int = LEAST_SHARE,
    ) -> None:
        """Know none, and allocate none.

        Args:
            job_of: names the job of a pod.
            gpu_resources: resource names that count as whole GPUs.
            share_class: the class of devices of which shares of GPUs are claims.
            least_share: thousandths of a GPU that a part of one counts at least in queues.

        """
        self.job_of = job_of
        self.reading = BY_OBJECTS
        self._has_objects = False
        self.gpus = OfferedDevices(least_share)
        """What is offered, which classes count as GPUs, and how many each node has."""
        self.specs = Specs(self.gpus.classes)
        self.sent = SentClaims()
        self.leftovers = Leftovers()
        self.generated = GeneratedClaims(gpu_resources)
        self._bridge: Bridge | None = None
        self.shares = ShareClaims(share_class, self.gpus.shared)
        self._claims: dict[str, ResourceClaim] = {}
        self.held: dict[str, Held] = {}
        self.users: dict[str, dict[str, PodRow]] = {}
        self._shared: set[str] = set()
        """Claims that several pods use."""
        self._keys_of_pod: dict[str, tuple[str, ...]] = {}
        self._uid_of_pod: dict[str, str] = {}
        """Of the pods that use claims, or ask for what a class may back."""

    @property
    def is_read(self) -> bool:
        """Whether these objects are read at all."""
        return self._has_objects if self.reading == BY_OBJECTS else self.reading != OFF

    @property
    def is_off(self) -> bool:
        """Whether the shard says that no claims are allocated."""
        return self.reading == OFF

    @property
    def is_allocated(self) -> bool:
        """Whether claims are allocated, as far as anybody means to say which there are."""
        return self.reading in {BY_OBJECTS, ON}

    def set_reading(self, reading: str) -> list[str]:
        """Set whether claims are allocated; return the pods that it may matter to."""
        if reading == self.reading:
            return []
        self.reading = reading
        return self._pods

    # -- objects ---------------------------------------------------------------------------------

    def update(self, obj: ClaimObject, *, is_gone: bool = False) -> list[str]:
        """Take in an object that came or changed, or drop it; return the pods it may matter to."""
        if self.reading == OFF and not is_gone:
            return []
        was_read, self._has_objects = self.is_read, self._has_objects or not is_gone
        match obj:
            case ResourceClaim() if is_gone:
                return self._remove_claim(obj.key, obj.metadata.uid)
            case ResourceClaim():
                owners = self.generated.update_claim(obj)
                self._note_sent(obj)
                self._claims[obj.key] = obj
                self._hold(obj)
                concerned = self.users_of(obj.key) + owners
            case ResourceClaimTemplate():
                concerned = self.shares.update(obj, is_gone=is_gone)
            case _:
                self.gpus.update(obj, is_gone=is_gone)
                if isinstance(obj, DeviceClass):
                    self.generated.update_class(obj, is_gone=is_gone)
                # More or fewer devices change nothing about what pods ask for.
                concerned = [] if isinstance(obj, ResourceSlice) else self._pods
        return concerned if was_read or is_gone else self._pods

    def _remove_claim(self, key: str, uid: str) -> list[str]:
        """Drop a claim, if it is still that one; a watch tells no more of it than this."""
        known = self._claims.get(key)
        if known is None or uid not in {"", known.metadata.uid}:
            return []
        del self._claims[key]
        self.held.pop(key, None)
        self.sent.drop(key)
        return self.users_of(key) + self.generated.update_claim(known, is_gone=True)

    @property
    def _pods(self) -> list[str]:
        """The pods that use claims, or ask for what a class may back."""
        return sorted(self._keys_of_pod.keys() | self.generated.pods.keys())

    def settle(self) -> tuple[list[NodeRow], list[str]]:
        """Count what nodes offer now.

        Return the nodes that have more or less of them, and the pods that it may matter to.
        """
        counted = self.gpus.count(self._used)
        before, is_other = counted or (None, False)
        for claim in self._claims.values() if is_other else ():
            self._hold(claim)
        concerned = self.generated.count(self.gpus) if self.is_read else []
        nodes = [] if before is None else self.gpus.resized(before)
        is_allocated, known = self.is_read and self.is_allocated, self.generated.bridging
        if self.generated.look(self.gpus, is_allocated=is_allocated):
            bridging = self.generated.bridging
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
        for key, uid in self.generated.keys_of(claim):
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
        return self.generated.unwritten_claim(key) or self._claims.get(key)

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
                    self.generated.changed.update(self.users_of(key))
            if sent is not None:
                sent.pods.add((pod.key, pod.uid))
                generated = self.generated.unwritten.get(key)
                wanted.append(Wanted(key, uid, sent.allocation, is_new=True, generated=generated))
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
        over = self.generated.settle(self.sent, doubtful)
        for key in before:
            if key not in self.sent and (claim := self.claim(key)) is not None:
                self._hold(claim)
        self.generated.drop(over)
        return [Wanted(key, it.uid, None) for key, it in self.sent.items() if key in doubtful]

    def as_sent(self) -> Iterator[ResourceClaim]:
        """Yield the claims to which an allocation was sent that they do not show, with it."""
        for key, sent in self.sent.items():
            claim = self.generated.as_made(key) or self._claims.get(key)
            if claim is not None and claim.status.allocation is None:
                status = structs.replace(claim.status, allocation=sent.allocation)
                yield structs.replace(claim, status=status)

    def was_read(
        self, key: str, uid: str, allocation: ClaimAllocation | None, now_s: float
    ) -> None:
        """Record the allocation of a claim that was read again; None also if it is gone."""
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
        """Return the allocated claims that only waiting pods use, after a cycle."""
        return self.leftovers.found(self._claims, self.users, self.sent, is_waiting)

    # -- pods ------------------------------------------------------------------------------------

    def __contains__(self, pod: str) -> bool:
        """Tell whether a pod of this name was taken in."""
        return pod in self._uid_of_pod

    def noted(self, pod: PodRow) -> tuple[PodRow, list[str]]:
        """Record a pod that uses claims, or that replaces one.

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
            pod = self.generated.noted(pod, is_sent=generated_key(pod.key, pod.uid) in self.sent)
        self.shares.note(pod)
        if not pod.device_claims and pod.key not in self._keys_of_pod:
            return pod, rivals
        rivals += self._note(pod) if pod.device_claims else self._forget_uses(pod.key)
        return self.resolved(pod), rivals

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
            if len(users) > 1:
                self._shared.add(key)
            if len(users) > 1 and (old is None or self._counts_elsewhere(old, pod)):
                found += [it for it in users if it != pod.key]
        return found

    def _counts_elsewhere(self, old: PodRow, pod: PodRow) -> bool:
        """Tell whether a claim that others use too may count with another pod since."""
        return (
            old.node != pod.node
            or ACTIVE_STATES[old.state] != ACTIVE_STATES[pod.state]
            or self.job_of(old) != self.job_of(pod)
        )

    def forget(self, pod: str, uid: str = "") -> list[str]:
        """Drop a pod, with a UID only if it is still that one; return those it may matter to."""
        known = self._uid_of_pod.get(pod)
        if known is None or uid not in {"", known}:
            return []
        del self._uid_of_pod[pod]
        self.generated.forget(pod, self.sent)
        self.shares.forget(pod)
        return self._forget_uses(pod)

    def _forget_uses(self, pod: str) -> list[str]:
        found: list[str] = []
        for key in self._keys_of_pod.pop(pod, ()):
            users = self.users[key]
            users.pop(pod, None)
            found += users
            if len(users) <= 1:
                self._shared.discard(key)
            if not users:
                del self.users[key]
        return found

    @property
    def has_table(self) -> bool:
        """Whether snapshots need a table: pods use claims, or nodes differ in what claims give."""
        return self.is_read and bool(self._keys_of_pod or self._bridge)

    # -- what pods demand -----------------------------------------------------------------------

    def resolved(self, pod: PodRow, given: Collection[str] = ()) -> PodRow:
        """Return a pod with what its claims demand, or with why it waits.

        Claims that are ``given`` count with other pods.
        """
        if not self.is_read:
            why_not = _NOT_READ if self.is_off else NOTHING_KNOWN
            return replace(pod, fault=pod.fault or why_not)
        found: list[tuple[ClaimUse, Gpus]] = []
        wait = None
        try:
            found = list(self._demands(pod, given))
        except Waiting as waiting:
            found, wait = [], None if pod.node else (_CLAIM, str(waiting))
        gpus = NO_GPUS
        for _, of_claim in found:
            gpus = gpus.plus(of_claim)
        request, asked, counted = self._with_gpus(pod, gpus.of_node)
        others = pod.constraints.wait
        if others is not None and others[0] == _CLAIM:
            others = None
        constraints = replace(
            pod.constraints,
            claims=tuple(use for use, _ in found),
            claimed_milli=gpus.in_queue - counted,
            wait=wait or others,
        )
        return replace(
            pod,
            fault="" if pod.fault in {_NOT_READ, NOTHING_KNOWN} else pod.fault,
            request=request,
            asked=asked,
            constraints=constraints,
        )

    def _with_gpus(
        self, pod: PodRow, gpus: int
    ) -> tuple[dict[str, int], Mapping[str, int] | None, int]:
        """Return a pod's request with its GPUs by claim, and the request as it says itself.

        The last is how many thousandths of a GPU these come to in a queue by the request alone.
        """
        own = pod.request if pod.extended or pod.asked is None else pod.asked
        request = {name: amount for name, amount in own.items() if name != CLAIMED_GPU}
        asked, counted = pod.asked if pod.extended else None, gpus
        if gpus and (bridged := self.gpus.bridged):
            # On nodes with devices these are pieces of the bridged resource, for all who want some.
            asked = dict(request) if asked is None else asked
            more = pieces(bridged, gpus)
            request[bridged] = request.get(bridged, 0) + more
            counted = more if bridged == _GPU else more * GPU_UNIT
        if gpus:
            request[CLAIMED_GPU] = gpus
        return request, asked, counted

    def _demands(self, pod: PodRow, given: Collection[str]) -> Iterator[tuple[ClaimUse, Gpus]]:
        """Yield the claims of a pod, and how many GPUs each counts as for this pod."""
        if pod.device_claims and not self.is_allocated:
            raise Waiting(self.reading)
        for ref in pod.device_claims:
            try:
                found = self._demand(pod, ref, given)
            except Waiting:
                if not pod.node:
                    raise
                continue  # its other claims count all the same
            if found is not None:
                yield found

    def _demand(
        self, pod: PodRow, ref: DeviceClaimRef, given: Collection[str]
    ) -> tuple[ClaimUse, Gpus] | None:
        """Return what one claim of a pod demands; None for one that is not needed."""
        if not ref.name:
            if ref.is_needed:
                raise Waiting(self.shares.why_unmade(pod, ref.label))
            return None
        if ref.label == LABEL and not self.generated.is_cleared(pod, self.sent):
            raise Waiting("an earlier claim for its extended resources is being given back")
        key = f"{pod.namespace}/{ref.name}"
        claim = self.claim(key)
        if claim is None:
            raise Waiting(f"claim {ref.name} does not exist")
        if key in self.leftovers.clearing and not pod.node:
            raise Waiting(f"claim {ref.name} is on devices that are being given back")
        check_use(pod, claim, is_own=ref.is_own)
        self.shares.check(pod, ref.label, claim)
        held = self.held.get(key)  # also while the server does not show it yet
        try:
            spec = self.specs.number_of(claim, is_allocated=held is not None)
        except ClaimError as error:
            shown = "for extended resources" if ref.label == LABEL else claim.name
            raise Waiting(f"claim {shown}: {error}") from None
        sent = self.sent.get(key, claim.metadata.uid)
        is_bound = bool(pod.node) or (sent is not None and (pod.key, pod.uid) in sent.pods)
        is_like_others = ref.is_own and (is_bound or held is None)
        gpus = NO_GPUS
        if not ref.unless_plugin and key not in given and self._pays(key, pod):
            asked = self.specs[spec]
            gpus = self.gpus.of(asked, self.specs.selector) if held is None else held.gpus
        return ClaimUse(spec, "" if is_like_others else key, ref.unless_plugin), gpus

    def _pays(self, key: str, pod: PodRow) -> bool:
        """Tell whether the devices of a claim are counted with a pod."""
        return any(it.key == pod.key for it in self._payers(key))

    def _payers(self, key: str) -> list[PodRow]:
        """Return the pods that the devices of a claim are counted with.

        That is the first that has a node. Before, any job may be the one that starts with them: so
        they are counted with the first pod of each, or a job would start beyond its queue's limit.
        """
        if placed := self._placed(key):
            return placed[:1]
        first: dict[str, PodRow] = {}
        for it in sorted(self.users.get(key, {}).values(), key=_by_age):
            first.setdefault(self.job_of(it), it)
        return list(first.values())

    def _placed(self, key: str) -> list[PodRow]:
        """Return the users of a claim that have a node, in the order in which it counts with them.

        Those that stay come first, and of these the one that it has been reserved for longest.
        """
        placed = [it for it in self.users.get(key, {}).values() if it.node]
        if len(placed) < 2:  # noqa: PLR2004 - nothing to order
            return placed
        claim = self.claim(key)
        reserved = claim.status.reserved_for if claim is not None else []
        rank = {it.uid: at for at, it in enumerate(reserved)}
        return sorted(
            placed,
            key=lambda it: (
                not ACTIVE_STATES[it.state],
                rank.get(it.uid, len(rank)),
                *_by_age(it),
            ),
        )

    def uncounted(self, rows: RowStore) -> dict[int, dict[frozenset[str], int]]:
        """Return :attr:`ClaimTable.uncounted`; the shapes are added to the rows."""
        contested: dict[str, tuple[PodRow, set[str]]] = {}
        for key in sorted(self._shared - self.held.keys()):
            payers = self._payers(key)
            if len(payers) > 1:
                for pod in payers:
                    contested.setdefault(pod.key, (pod, set()))[1].add(key)
        alike: dict[tuple[int, frozenset[str]], dict[frozenset[str], int]] = {}
        """By shape of pods, and by what they count: many pods of a workload are equal."""
        found: dict[int, dict[frozenset[str], int]] = {}
        for pod, keys in contested.values():
            task = rows.row_of_task(pod.key)
            if task < 0:
                continue
            shape = int(rows.tasks.shape_of_task.data[task])
            counted = frozenset(sorted(keys)[:_MOST_CONTESTED])
            if (shape, counted) not in alike:
                some = _sets_of(sorted(counted))
                alike[shape, counted] = {it: self._less(pod, shape, it, rows) for it in some}
            found[task] = alike[shape, counted]
        return found

    def _less(self, pod: PodRow, shape: int, given: frozenset[str], rows: RowStore) -> int:
        """Return the shape of a pod less what claims that are given count; it is added."""
        less, request = self.resolved(pod, given), rows.shapes.asked_by(shape)
        for name in filter(None, (CLAIMED_GPU, self.gpus.bridged)):
            request[name] = less.request.get(name, 0)
        constraints = replace(
            rows.shapes.constraints.data[shape], claimed_milli=less.constraints.claimed_milli
        )
        return rows.shape_of(request, constraints)

    # -- the table -------------------------------------------------------------------------------

    def table(
        self,
        row_of_task: Callable[[str], int],
        uncounted: Mapping[int, Mapping[frozenset[str], int]] = MappingProxyType({}),
    ) -> ClaimTable | None:
        """Return the claims of a snapshot; None while no pod uses claims."""
        if not self.has_table:
            return None
        rows = {pod: row_of_task(pod) for pod in self._keys_of_pod}
        keys_of_pod, consumers = self._keys_of_pod.items(), self._claims.items()
        return ClaimTable(
            offer=self.gpus.offer,
            specs=self.specs.all,
            selectors=self.specs.selectors,
            held=MappingProxyType(dict(self.held)),
            consumers=MappingProxyType(
                {key: number for key, it in consumers if (number := len(it.status.reserved_for))}
            ),
            claims_of_task=MappingProxyType(
                {rows[pod]: keys for pod, keys in keys_of_pod if rows[pod] >= 0}
            ),
            users=MappingProxyType(
                {
                    key: tuple(rows[it] for it in self.users.get(key, ()) if rows[it] >= 0)
                    for key in self.held
                }
            ),
            bridge=self._bridge,
            gpu_classes=self.gpus.counting,
            payers=MappingProxyType(
                {
                    key: [rows[it.key] for it in self._placed(key) if rows[it.key] >= 0]
                    for key in self._shared & self.held.keys()
                }
            ),
            uncounted=uncounted,
        )

    def figures(self, snapshot: Snapshot) -> ClaimFigures:
        """Return what claims have now, and those that the pending pods of a snapshot wait for.

        Called by the thread of the store; what it returns is read by others.
        """
        waiting: dict[str, ResourceClaim] = {}
        if snapshot.claims is not None:
            keys_of_row = snapshot.claims.claims_of_task
            rows = np.fromiter(keys_of_row, np.intp, len(keys_of_row))
            is_pending = (snapshot.tasks.state[rows] == int(TaskState.PENDING)).tolist()
            for keys in compress(keys_of_row.values(), is_pending):
                for key in keys:
                    if key not in self.held and (claim := self.claim(key)) is not None:
                        waiting[key] = claim
        held = MappingProxyType(dict(self.held))
        return ClaimFigures(self.gpus.offer, held, tuple(waiting.values()))


def check_use(pod: PodRow, claim: ResourceClaim, *, is_own: bool) -> None:
    """Refuse a claim that a pod may not use now; of one that has a node, what it has counts.

    Raises:
        Waiting: it says why.

    """
    if pod.node:
        return
    meta, status = claim.metadata, claim.status
    if is_own and all(it.uid != pod.uid for it in meta.owner_references):
        raise Waiting(f"claim {claim.name} is not the pod's own, as one of a template must be")
    if meta.deletion_timestamp and status.allocation is None:
        raise Waiting(f"claim {claim.name} is being deleted")
    users = status.reserved_for
    if len(users) >= MOST_CONSUMERS and all(it.uid != pod.uid for it in users):
        raise Waiting(f"claim {claim.name} is used by {len(users)} pods, which is the most")


def _by_age(pod: PodRow) -> tuple[float, str]:
    return pod.created_s, pod.key


def _sets_of(keys: Sequence[str]) -> Iterator[frozenset[str]]:
    """Yield the sets of some claims, without the empty one, the smaller first."""
    for size in range(1, len(keys) + 1):
        yield from map(frozenset, combinations(keys, size))
