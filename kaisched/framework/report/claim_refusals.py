"""What the devices of nodes lack for the claims of a pod: by class and request, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.claims.model import ALL
from kaisched.core.refusals import TEXTS, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaisched.core.axis import BoolVec, IntVec, RowVec
    from kaisched.core.claims.model import Ask, Claim
    from kaisched.core.constraints import ClaimUse
    from kaisched.framework.session.session import Session


def claim_refusals(session: Session, shape: int, short: BoolVec) -> Iterator[tuple[str, BoolVec]]:
    """Yield texts, each with the nodes ``(N,)`` of ``short`` that it holds for."""
    devices = session.devices
    if devices is None or not short.any():
        return
    claims = devices.open_claims(shape)
    if not claims:
        return
    rows = short.nonzero()[0]
    found = devices.numbers(shape, rows.tolist())
    if found is None:
        yield _in_general(claims), short
        return
    ask, every, free = found
    of_class, whom = f"of class {ask.class_name}", _for(ask, claims[0][0])
    few = (every > 0) & (every < ask.count)
    # Where more is free the pods of a shared claim are to go elsewhere, together.
    taken = (every >= ask.count) & (free < ask.count)
    if (none := every == 0).any():
        yield f"no device {of_class} suits {whom}", _mask(short, rows[none])
    for what, numbers, where in (
        ("too few devices suit its claims", every, few),
        (TEXTS[Refusal.DEVICES].sentence, free, taken),
    ):
        if where.any():
            has = _at_most(numbers[where], session.nodes.name, rows[where])
            text = f"{what}: {has} {of_class} for {whom}, {ask.count} asked"
            yield text, _mask(short, rows[where])


def _at_most(numbers: IntVec, names: Sequence[str], rows: RowVec) -> str:
    most = int(numbers.max())
    if len(rows) == 1:
        return f"node {names[rows[0]]} has {most or 'none'}"
    return f"at most {most}" if most else "none"


def _for(ask: Ask, use: ClaimUse) -> str:
    whose = f" of claim {use.key.partition('/')[2]}" if use.key else ""
    return f"request {ask.name}{whose}"


def _in_general(claims: Sequence[tuple[ClaimUse, Claim]]) -> str:
    """Say what claims ask for that are more than one plain request."""
    texts = []
    for _, claim in claims:
        texts += [" or ".join(map(_asked, it.options)) for it in claim.requests]
        texts += [
            f"{'different' if it.is_distinct else 'the same'} {it.attribute}"
            for it in claim.constraints
        ]
    return f"{TEXTS[Refusal.DEVICES].sentence}: {', '.join(texts)}"


def _asked(ask: Ask) -> str:
    number = "all" if ask.count == ALL else str(ask.count)
    return f"{number} of {ask.class_name}" + (" that match" if ask.selectors else "")


def _mask(like: BoolVec, rows: RowVec) -> BoolVec:
    mask: BoolVec = np.zeros_like(like)
    mask[rows] = True
    return mask
