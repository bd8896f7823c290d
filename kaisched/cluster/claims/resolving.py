"""Says what the claims of a pod demand, or why it waits for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from kaisched.cluster.claims.checks import Waiting, check_use
from kaisched.cluster.claims.drafts import LABEL
from kaisched.cluster.claims.gpus import pieces
from kaisched.core.axis import GPU_UNIT
from kaisched.core.claims.model import ClaimError
from kaisched.core.claims.parts import NO_GPUS, Gpus
from kaisched.core.constraints import ClaimUse
from kaisched.core.refusals import Refusal
from kaisched.units import CLAIMED_GPU

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.cluster.claims.gpus import GpuClasses
    from kaisched.cluster.claims.leftovers import Leftovers
    from kaisched.cluster.claims.sent import SentClaims
    from kaisched.cluster.claims.shares import ShareClaims
    from kaisched.cluster.claims.special import SpecialClaims
    from kaisched.cluster.claims.specs import Specs
    from kaisched.cluster.pods import DeviceClaimRef, PodRow
    from kaisched.core.claims.table import Held
    from kaisched.objects.devices import ResourceClaim

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
