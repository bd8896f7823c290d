"""A score by which pods fill the same domains first where nodes are equally good (U1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kaisched import FloatVec, NodeStatics, Session, TopologyLevel
from kaisched_plugins.topology.domains import tree_of

_HINT: Final = "topology.packing"
_TIE: Final = 1e-6
"""The highest score: below the difference that a thousandth of a GPU or of a CPU makes to binpack
(3.5e-5 of 256 CPUs), so that it decides between equal nodes only."""


class _Kept(NamedTuple):
    statics: NodeStatics
    topologies: Mapping[str, tuple[TopologyLevel, ...]]
    score: FloatVec | None


def packing_score(session: Session) -> FloatVec | None:
    """``(N,)`` scores by the place of each node's domain, kept while no label changes.

    Of several topologies the first by name that any node takes part in counts; None without one.
    """
    nodes = session.nodes
    kept: _Kept | None = session.hints.get(_HINT)
    if kept is None or kept.statics is not nodes.statics or kept.topologies != nodes.topologies:
        score = _score(session)
        kept = session.hints[_HINT] = _Kept(nodes.statics, nodes.topologies, score)
    return kept.score


def _score(session: Session) -> FloatVec | None:
    for _, levels in sorted(session.nodes.topologies.items()):
        tree = tree_of(session, levels)
        if tree.is_member.any():
            place = tree.domain_of_node[-1] + 1  # 0: no gang that asks for a domain needs the node
            score: FloatVec = _TIE * (1.0 - place / (len(tree.parent[-1]) + 1))
            return score
    return None
