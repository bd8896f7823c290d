"""Topology constraints in a shard without a plugin that honors them: a condition is not ignored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kaisched.core.refusals import Refusal
from kaisched.framework.session.node_sets import NodeSets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaisched.core.tables import SubGroup
    from kaisched.framework.session.session import Session

_HINT: Final = "unserved.requires_level"


def requires_level(session: Session) -> bool:
    """Tell whether any job requires a level of a topology; kept while no structure changes."""
    structure = session.jobs.structure
    if not structure:
        return False
    known: tuple[Mapping[int, SubGroup], bool] | None = session.hints.get(_HINT)
    if known is None or known[0] is not structure:
        found = any(_requires(root) for root in structure.values())
        known = session.hints[_HINT] = structure, found
    return known[1]


def without_topology(
    asker: Callable[..., NodeSets | None] | None,
) -> Callable[..., NodeSets | None]:
    """Return the question about sets of nodes with none for jobs that require a level."""

    def ask(session: Session, action: str, job: int, *more: Any) -> NodeSets | None:
        root = session.jobs.structure.get(job)
        if root is not None and _requires(root):
            return NodeSets(code=Refusal.UNSUPPORTED)
        return None if asker is None else asker(session, action, job, *more)

    return ask


def _requires(group: SubGroup) -> bool:
    own = group.topology is not None and group.topology.is_condition
    return own or any(_requires(child) for child in group.children)
