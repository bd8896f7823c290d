"""The sets of nodes on which plugins let a job be placed, asked for one job at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaisched.core.axis import Amounts
    from kaisched.framework.session.claims import NodeSet
    from kaisched.framework.session.session import Session


def node_sets(session: Session, action: str, job: int, ask: Amounts) -> list[NodeSet] | None:
    """Return the sets to try for a job, the best first; None if it may be placed on all nodes."""
    asker = session.ask.node_sets(session)
    return None if asker is None else asker(session, action, job, ask)


def sets_or_all(
    session: Session, action: str, job: int, ask: Amounts
) -> Sequence[NodeSet] | tuple[None]:
    """Return :func:`node_sets`, or None as the only entry for all nodes."""
    sets = node_sets(session, action, job, ask)
    return (None,) if sets is None else sets


def keys_of(sets: Sequence[NodeSet] | None) -> list[tuple[str, bytes]] | None:
    """Return what lists of sets are compared by."""
    return None if sets is None else [each.key for each in sets]
