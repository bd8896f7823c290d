"""Writes into the row of a pod what its claims on devices demand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kaisched.core.claims.parts import NO_GPUS, Gpus
from kaisched.core.refusals import Refusal
from kaisched.units import CLAIMED_GPU

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kaisched.cluster.translate import PodRow
    from kaisched.core.constraints import ClaimUse

_CLAIM: Final = int(Refusal.DEVICE_CLAIM)


def demanding(
    pod: PodRow,
    found: Sequence[tuple[ClaimUse, Gpus]],
    why_waiting: str | None,
    cured: Collection[str],
) -> PodRow:
    """Return a pod with what its claims demand.

    Args:
        pod: as it was.
        found: its claims, and how many GPUs each counts as for this pod.
        why_waiting: what keeps it from every node; None if nothing does.
        cured: faults that it may have from before, and that no longer hold.

    """
    gpus = NO_GPUS
    for _, of_claim in found:
        gpus = gpus.plus(of_claim)
    request = {name: amount for name, amount in pod.request.items() if name != CLAIMED_GPU}
    if gpus.of_node:
        request[CLAIMED_GPU] = gpus.of_node
    wait = pod.constraints.wait
    if wait is not None and wait[0] == _CLAIM:
        wait = None
    constraints = replace(
        pod.constraints,
        claims=tuple(use for use, _ in found),
        claimed_milli=gpus.in_queue - gpus.of_node,
        wait=wait if why_waiting is None else (_CLAIM, why_waiting),
    )
    fault = "" if pod.fault in cured else pod.fault
    return replace(pod, fault=fault, request=request, constraints=constraints)
