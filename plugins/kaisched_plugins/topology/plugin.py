"""Topology: places the pods of a job, or of a subgroup, in one domain, or in few.

The rules are in docs/explanation/topology.md.
"""
# ruff: noqa: ARG002 - a question's arguments are the same for all who answer it

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pydantic import Field

from kaisched import (
    Amounts,
    Arguments,
    Change,
    FloatVec,
    IntVec,
    Kind,
    Moves,
    NodeSet,
    Plugin,
    Proposal,
    Reason,
    RowVec,
    Session,
    SubGroup,
    hookimpl,
    more_nodes,
)
from kaisched_plugins.topology import refusals
from kaisched_plugins.topology.answers import Answers, end_s
from kaisched_plugins.topology.demands import asking, tree_of
from kaisched_plugins.topology.invariants import broken
from kaisched_plugins.topology.podsets import Style
from kaisched_plugins.topology.reasons import reason_of


class TopologyArguments(Arguments):
    """How pod sets with Kueue's annotations are placed where several choices are good."""

    least_free: bool = Field(
        default=True,
        description="Pods with no level in their annotations fill the fullest hosts first, as in"
        " Kueue; `false`: as few hosts as possible.",
    )
    even_shares: bool = Field(
        default=False,
        description="Pods with a preferred level are divided evenly, as with Kueue's balanced"
        " placement; `false`: one domain is filled after the other.",
    )
    pack_unconstrained: bool = Field(
        default=False,
        description="Of equally good nodes pods take those of the first domains by name, so that"
        " other domains stay whole; `false`: the first nodes by name.",
    )


# A score by which pods fill the same domains first where nodes are equally good (U1).


_PACKING: Final = "topology.packing"
_TIE: Final = 1e-6
"""The highest score: below the difference that a thousandth of a GPU or of a CPU makes to binpack
(3.5e-5 of 256 CPUs), so that it decides between equal nodes only."""


def packing_score(session: Session) -> FloatVec | None:
    """``(N,)`` scores by the place of each node's domain, worked out once in a cycle.

    Of several topologies the first by name that any node takes part in counts; None without one.
    """
    if _PACKING not in session.found:
        session.found[_PACKING] = _score(session)
    score: FloatVec | None = session.found[_PACKING]
    return score


def _score(session: Session) -> FloatVec | None:
    for _, levels in sorted(session.nodes.topologies.items()):
        tree = tree_of(session, levels)
        if tree.is_member.any():
            place = tree.domain_of_node[-1] + 1  # 0: no gang that asks for a domain needs the node
            score: FloatVec = _TIE * (1.0 - place / (len(tree.parent[-1]) + 1))
            return score
    return None


_SETS = frozenset({"node_sets", "subgroup_sets"})


class Topology(Plugin):
    """Keeps pods together in one domain of a required level, and in few of a preferred one."""

    name = "topology"
    Arguments = TopologyArguments
    refusals = refusals.ALL
    honors_topology = True
    is_score_rising = True  # it is the same for every pod on a node

    def __init__(self, arguments: TopologyArguments) -> None:
        """Answer no scores unless asked to: they would cost every placement something."""
        super().__init__(arguments)
        self._style = Style(arguments.least_free, arguments.even_shares)
        if not arguments.pack_unconstrained:
            self.node_score = None  # type: ignore[method-assign, assignment]

    @hookimpl
    def session_open(self, session: Session) -> object:
        """Return the answers of the cycle, of which there are none yet."""
        return Answers(self._style)

    def is_silent(self, session: Session, question: str) -> bool:
        """Promise it while no job, or no subgroup, has a constraint."""
        if question not in _SETS:
            return False
        found = asking(session)
        return not (found.is_any if question == "node_sets" else found.is_below)

    @hookimpl
    def node_sets(
        self,
        session: Session,
        action: str,
        job: int,
        ask: Amounts,
        shapes: Sequence[tuple[int, int]],
    ) -> Sequence[NodeSet] | int | None:
        """Return the domains with room for the batch, in the order of the job's constraint."""
        root = session.jobs.structure.get(job)
        if root is None:
            return None
        answers = self._answers(session)
        part = answers.limits.part(session, job, root) if root.children else None
        if part is not None:
            return part.code
        if root.topology is None:
            return None
        return answers.sets(session, action, job, root, shapes)

    @hookimpl
    def subgroup_sets(
        self,
        session: Session,
        job: int,
        group: SubGroup,
        shapes: Sequence[tuple[int, int]],
    ) -> Sequence[NodeSet] | int | None:
        """Return the domains with room for the subgroup, in the order of its constraint."""
        wish = group.topology
        if wish is None or (group is session.jobs.structure.get(job) and not wish.is_pod_set):
            return None
        return self._answers(session).sets(session, "", job, group, shapes)

    @hookimpl
    def node_score(
        self, session: Session, shape: int, rows: RowVec, extra: IntVec
    ) -> FloatVec | None:
        """Return a little more for nodes of domains that come first by name."""
        score = packing_score(session)
        return None if score is None else score.take(rows)

    @hookimpl
    def refusal_reason(self, session: Session, action: str, job: int, code: int) -> Reason | None:
        """Name what is missing: a topology, a level, or room in the domain that has most."""
        if job not in session.jobs.structure:
            return None
        limits = self._answers(session).limits
        return reason_of(session, action, job, code, self._style, limits)

    @hookimpl
    def proposals(self, session: Session, job: int, code: int) -> Iterable[Proposal]:
        """Propose more nodes, or to wait until a job is not patient any more."""
        if code in (refusals.NO_DOMAIN, refusals.OUT_OF_REACH, refusals.TOO_LARGE):
            yield from more_nodes(session, job)
        root = session.jobs.structure.get(job)
        if code != refusals.PATIENT or root is None or root.topology is None:
            return
        left_s = end_s(session, job, root.topology) - session.now_s
        yield Kind.TIME, (Change(session.jobs.name[job], amount=int(left_s) + 1),)

    @hookimpl
    def broken_rules(self, moves: Moves) -> Iterable[str]:
        """Return the groups whose pods a cycle has spread over domains of their required level."""
        return broken(moves)

    def _answers(self, session: Session) -> Answers:
        answers: Answers = session.state[self.name]
        return answers
