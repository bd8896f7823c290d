"""Says what the claims of a pod demand, or why it waits for them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kaisched.cluster.claims.conversion import claim_of, texts_of
from kaisched.cluster.claims.generated import LABEL, Draft
from kaisched.cluster.claims.gpus import pieces
from kaisched.core.axis import GPU_UNIT
from kaisched.core.claims.cel import CelSelector
from kaisched.core.claims.model import MOST_CONSUMERS, MOST_RESULTS, Claim, ClaimError, DeviceClass
from kaisched.core.claims.table import NO_GPUS, Gpus
from kaisched.core.constraints import ClaimUse
from kaisched.core.refusals import Refusal
from kaisched.objects.resource_claims import ClaimAllocation, ResourceClaim
from kaisched.units import CLAIMED_GPU

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaisched.cluster.claims.generated import ShareClaims, SpecialClaims
    from kaisched.cluster.claims.gpus import GpuClasses
    from kaisched.cluster.demands import DeviceClaimRef
    from kaisched.cluster.translate import PodRow
    from kaisched.core.claims.table import Held


# -- checks ----------------------------------------------------------------------------------------


class Waiting(Exception):  # noqa: N818 - a way out, and no error
    """A claim keeps its pod from every node."""


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


# -- allocations on their way ----------------------------------------------------------------------
# Several pods may wait for one claim: all their binds carry the same allocation, and whichever
# comes first writes it.

PodId = tuple[str, str]
"""``namespace/name`` and UID of a pod."""


class Wanted(NamedTuple):
    """What a claim is to have when a pod is bound that uses it."""

    key: str
    uid: str
    """Of the claim; empty if there is none."""
    allocation: ClaimAllocation | None
    is_new: bool = False
    """Whether the allocation is to be written; else the claim has it already."""
    draft: Draft | None = None
    """The claim that is to be made first."""


@dataclass(slots=True)
class SentClaim:
    """An allocation that is on its way into a claim."""

    uid: str
    """Of the claim: another of its name has nothing to do with it."""
    allocation: ClaimAllocation
    pods: set[PodId] = field(default_factory=set)
    """Whose binds write it, and may be under way."""
    is_seen: bool = False
    """Whether the claim has shown an allocation since."""
    read_s: float = 0.0
    """When the claim is to be read, on the monotonic clock; 0 for at once."""


class SentClaims:
    """Allocations by claim, until the claim shows them or they are known to have failed."""

    def __init__(self) -> None:
        """Nothing was sent."""
        self._sent: dict[str, SentClaim] = {}

    def __contains__(self, key: str) -> bool:
        """Tell whether an allocation is on its way into a claim."""
        return key in self._sent

    def get(self, key: str, uid: str) -> SentClaim | None:
        """Return what is on its way into a claim, if it is still that claim."""
        found = self._sent.get(key)
        return found if found is not None and found.uid == uid else None

    def items(self) -> Iterator[tuple[str, SentClaim]]:
        """Yield (claim, allocation on its way)."""
        yield from list(self._sent.items())

    def put(self, key: str, sent: SentClaim) -> None:
        """Note an allocation that is about to be sent."""
        self._sent[key] = sent

    def take_back(self, pod: str, uid: str) -> None:
        """Forget that the bind of a pod writes allocations; without a UID of any pod of the name.

        What it may have written still counts, until a claim shows or a read has found what it has.
        """
        for sent in self._sent.values():
            sent.pods = {it for it in sent.pods if it[0] != pod or uid not in {"", it[1]}}

    def drop(self, key: str) -> None:
        """Forget an allocation: the claim shows what there is."""
        self._sent.pop(key, None)

    def settled(self, is_open: Callable[[PodId], bool], now_s: float) -> list[str]:
        """Forget what claims show and nobody writes any more.

        Return the claims to be read, since it is not known what became of their allocation.
        """
        doubtful = []
        for key, sent in self.items():
            sent.pods = {it for it in sent.pods if is_open(it)}
            if sent.pods:
                continue
            if sent.is_seen:
                self.drop(key)
            elif sent.read_s <= now_s:
                doubtful.append(key)
        return doubtful


# -- left-over claims ------------------------------------------------------------------------------
# Given back, the devices can be chosen anew: the pods may no longer fit where these are.


class Leftover(NamedTuple):
    """A claim to be given back."""

    key: str
    uid: str
    pods: frozenset[str]
    """UIDs of the pods that use it, all of which wait."""


class Leftovers:
    """Finds such claims among those that may be."""

    def __init__(self) -> None:
        """Know none."""
        self.clearing: set[str] = set()
        """Claims whose devices are being given back: who uses them waits."""
        self._suspects: set[str] = set()

    def suspect(self, key: str) -> None:
        """Note a claim with devices that has changed, or that a pod without a node uses."""
        self._suspects.add(key)

    def found(
        self,
        claims: Mapping[str, ResourceClaim],
        users: Mapping[str, Mapping[str, PodRow]],
        sent: SentClaims,
        is_waiting: Callable[[PodRow], bool],
    ) -> list[Leftover]:
        """Return the claims to be given back, after a cycle has left their pods waiting."""
        found = []
        for key in sorted(self._suspects):
            claim, pods = claims.get(key), users.get(key, {})
            if claim is None or claim.status.allocation is None or not pods:
                self._suspects.discard(key)
            elif key not in sent and key not in self.clearing:
                waiting = {it.uid for it in pods.values() if is_waiting(it)}
                reserved = {it.uid for it in claim.status.reserved_for}
                if len(waiting) == len(pods) and reserved <= waiting:
                    found.append(Leftover(key, claim.metadata.uid, frozenset(waiting)))
                elif not waiting:
                    self._suspects.discard(key)
        return found


# -- specs -----------------------------------------------------------------------------------------

_NOTHING: Final = Claim(())


class Specs:
    """The different things that claims ask for, and the expressions in them."""

    def __init__(self, classes: Mapping[str, DeviceClass]) -> None:
        """Know none; ``classes`` are those that there are, by name."""
        self._classes = classes
        self._specs: list[Claim] = []
        self._number: dict[Claim, int] = {}
        self._selectors: dict[str, CelSelector] = {}

    def __getitem__(self, number: int) -> Claim:
        """Return what has a number."""
        return self._specs[number]

    @property
    def all(self) -> tuple[Claim, ...]:
        """All of them, by number."""
        return tuple(self._specs)

    @property
    def selectors(self) -> Mapping[str, CelSelector]:
        """The expressions, by text."""
        return MappingProxyType(dict(self._selectors))

    def selector(self, text: str) -> CelSelector:
        """Return the expression with a text."""
        return self._selectors[text]

    def number_of(self, claim: ResourceClaim, *, is_allocated: bool) -> int:
        """Return the number of what a claim asks for; check what can be known beforehand.

        Raises:
            ClaimError: it cannot be allocated as things are.

        """
        spec = claim_of(claim.spec)
        for text in texts_of(spec):
            if text not in self._selectors:
                self._selectors[text] = CelSelector(text)
        if not is_allocated:
            self._check(spec)
        number = self._number.get(spec)
        if number is None:
            number = self._number[spec] = len(self._specs)
            self._specs.append(spec)
        return number

    def keep(self, numbers: Container[int]) -> None:
        """Keep only what has one of these numbers; no number is given twice."""
        for spec, number in list(self._number.items()):
            if number not in numbers:
                del self._number[spec]
                self._specs[number] = _NOTHING

    def _check(self, spec: Claim) -> None:
        least = sum(min(max(it.count, 1) for it in each.options) for each in spec.requests)
        if least > MOST_RESULTS:
            raise ClaimError(f"{least} devices are more than {MOST_RESULTS}, the most")
        for ask in (it for request in spec.requests for it in request.options):
            of_class = self._classes.get(ask.class_name)
            if of_class is None:
                raise ClaimError(f"device class {ask.class_name} does not exist")
            for selector in (*of_class.selectors, *(self._selectors[it] for it in ask.selectors)):
                if selector.fault:
                    raise ClaimError(selector.fault)


# -- what pods demand ------------------------------------------------------------------------------

_GPU: Final = "gpu"
_CLAIM: Final = int(Refusal.DEVICE_CLAIM)
NOTHING_KNOWN: Final = "resourceClaims: no device classes, slices and claims are known here"
"""Why pods with claims wait where nobody says which objects there are, as in a file of pods."""
_NOT_READ: Final = "resourceClaims: the shard does not set resourceClaims: true"


class KnownClaims(Protocol):
    """What is asked about claims."""

    reading: str
    special: SpecialClaims
    shares: ShareClaims
    leftovers: Leftovers
    sent: SentClaims
    specs: Specs
    held: dict[str, Held]
    users: dict[str, dict[str, PodRow]]
    job_of: Callable[[PodRow], str]

    @property
    def gpus(self) -> GpuClasses:
        """Which classes count as GPUs."""
        ...

    @property
    def is_read(self) -> bool:
        """Whether anybody means to say which objects there are."""
        ...

    @property
    def is_off(self) -> bool:
        """Whether the shard says that no claims are allocated."""
        ...

    @property
    def is_allocated(self) -> bool:
        """Whether claims are allocated."""
        ...

    def claim(self, key: str) -> ResourceClaim | None:
        """Return a claim, also one that no server has yet."""
        ...


def resolved(claims: KnownClaims, pod: PodRow) -> PodRow:
    """Return a pod with what its claims demand, or with why it waits."""
    if not claims.is_read:
        why_not = _NOT_READ if claims.is_off else NOTHING_KNOWN
        return replace(pod, fault=pod.fault or why_not)
    found: list[tuple[ClaimUse, Gpus]] = []
    wait = None
    try:
        found = list(_demands(claims, pod))
    except Waiting as waiting:
        found, wait = [], None if pod.node else (_CLAIM, str(waiting))
    gpus = NO_GPUS
    for _, of_claim in found:
        gpus = gpus.plus(of_claim)
    request, asked, counted = _with_gpus(claims, pod, gpus.of_node)
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
    claims: KnownClaims, pod: PodRow, gpus: int
) -> tuple[dict[str, int], Mapping[str, int] | None, int]:
    """Return a pod's request with its GPUs by claim, and the request as it says itself.

    The last is how many thousandths of a GPU these come to in a queue by the request alone.
    """
    own = pod.request if pod.extended or pod.asked is None else pod.asked
    request = {name: amount for name, amount in own.items() if name != CLAIMED_GPU}
    asked, counted = pod.asked if pod.extended else None, gpus
    if gpus and (bridged := claims.gpus.bridged):
        # On nodes with devices these are pieces of the bridged resource, for all who want some.
        asked = dict(request) if asked is None else asked
        more = pieces(bridged, gpus)
        request[bridged] = request.get(bridged, 0) + more
        counted = more if bridged == _GPU else more * GPU_UNIT
    if gpus:
        request[CLAIMED_GPU] = gpus
    return request, asked, counted


def _demands(claims: KnownClaims, pod: PodRow) -> Iterator[tuple[ClaimUse, Gpus]]:
    """Yield the claims of a pod, and how many GPUs each counts as for this pod."""
    if pod.device_claims and not claims.is_allocated:
        raise Waiting(claims.reading)
    for ref in pod.device_claims:
        try:
            found = _demand(claims, pod, ref)
        except Waiting:
            if not pod.node:
                raise
            continue  # its other claims count all the same
        if found is not None:
            yield found


def _demand(claims: KnownClaims, pod: PodRow, ref: DeviceClaimRef) -> tuple[ClaimUse, Gpus] | None:
    """Return what one claim of a pod demands; None for one that is not needed."""
    if not ref.name:
        if ref.is_needed:
            raise Waiting(claims.shares.why_unmade(pod, ref.label))
        return None
    if ref.label == LABEL and not claims.special.is_cleared(pod, claims.sent):
        raise Waiting("an earlier claim for its extended resources is being given back")
    key = f"{pod.namespace}/{ref.name}"
    claim = claims.claim(key)
    if claim is None:
        raise Waiting(f"claim {ref.name} does not exist")
    if key in claims.leftovers.clearing and not pod.node:
        raise Waiting(f"claim {ref.name} is on devices that are being given back")
    check_use(pod, claim, is_own=ref.is_own)
    claims.shares.check(pod, ref.label, claim)
    held = claims.held.get(key)  # also while the server does not show it yet
    try:
        spec = claims.specs.number_of(claim, is_allocated=held is not None)
    except ClaimError as error:
        shown = "for extended resources" if ref.label == LABEL else claim.name
        raise Waiting(f"claim {shown}: {error}") from None
    sent = claims.sent.get(key, claim.metadata.uid)
    is_bound = bool(pod.node) or (sent is not None and (pod.key, pod.uid) in sent.pods)
    is_like_others = ref.is_own and (is_bound or held is None)
    gpus = NO_GPUS
    if not ref.unless_plugin and _pays(claims, key, pod):
        asked = claims.specs[spec]
        gpus = claims.gpus.of(asked, claims.specs.selector) if held is None else held.gpus
    return ClaimUse(spec, "" if is_like_others else key, ref.unless_plugin), gpus


def _pays(claims: KnownClaims, key: str, pod: PodRow) -> bool:
    """Tell whether the devices of a claim are counted with a pod.

    That is the first that has a node. Before, any job may be the one that starts with them: so
    they are counted with the first pod of each, or a job would start beyond its queue's limit.
    """
    users = claims.users.get(key, {}).values()
    rivals = [it for it in users if it.node]
    if not rivals:
        job = claims.job_of(pod)
        rivals = [it for it in users if claims.job_of(it) == job]
    return min(rivals, key=lambda it: (it.created_s, it.key), default=pod).key == pod.key
