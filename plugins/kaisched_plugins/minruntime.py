"""Minruntime: protects running jobs until they have run for their minimum."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import numpy as np
from pydantic import Field, field_validator

from kaisched import (
    Arguments,
    BoolVec,
    Change,
    Claim,
    CodeVec,
    FloatVec,
    Kind,
    Plugin,
    PluginRefusal,
    Proposal,
    RowVec,
    Session,
    Units,
    hookimpl,
    parse_duration,
    shard_setting,
)

Method = Literal["lca", "queue"]


class MinRuntimeArguments(Arguments):
    """Defaults for queues without a minimum; a shard's ``minRuntime`` sets the first two."""

    default_reclaim_min_runtime: str = Field(
        default="0s",
        description="How long a job is safe from reclaim where no queue says so.",
        json_schema_extra=shard_setting("minRuntime.reclaimMinRuntime"),
    )
    default_preempt_min_runtime: str = Field(
        default="0s",
        description="How long a job is safe from preempt where no queue says so.",
        json_schema_extra=shard_setting("minRuntime.preemptMinRuntime"),
    )
    reclaim_resolve_method: Method = Field(
        default="lca",
        description="Whose value counts for reclaim: the branch that is taken from, or the leaf.",
    )

    @field_validator("default_reclaim_min_runtime", "default_preempt_min_runtime", mode="before")
    @classmethod
    def _is_duration(cls, value: object) -> str:
        try:
            parse_duration(value)
        except ValueError as error:
            fix = getattr(error, "fix", "")
            raise ValueError(f"{error}; {fix}" if fix else str(error)) from None
        return str(value)


# The minimum runtime that holds for each queue, as columns over all queues at once.
#
# A value of -1 is unset. Every column has one more entry than there are queues, the default, which
# an unknown queue (row -1) gets.


def inherited(tree: Any, own_s: FloatVec, default_s: float) -> FloatVec:
    """Return ``(Q + 1,)`` the value of each queue, or of the nearest queue above that has one."""
    resolved = np.append(own_s, default_s)
    for level in tree.levels:
        above = resolved[tree.parent_of_queue[level]]  # -1 above a root: the default
        resolved[level] = np.where(own_s[level] >= 0, own_s[level], above)
    return resolved


def seen_from(tree: Any, leaf: int, resolved_s: FloatVec) -> FloatVec:
    """Return ``(Q + 1,)`` the minimum that protects each queue from a claim of ``leaf``.

    It is the value of the victim's branch: of the queue directly below the lowest common queue of
    both. Without a common queue it is the value of the victim's root.
    """
    parent = tree.parent_of_queue
    is_common = np.zeros(len(parent) + 1, np.bool_)
    is_common[-1] = True
    queue = leaf
    while queue >= 0:
        is_common[queue] = True
        queue = int(parent[queue])
    start = np.arange(len(parent) + 1)
    for level in tree.levels:
        above = parent[level]
        start[level] = np.where(is_common[above], level, start[above])
    return resolved_s[start]


def is_protected(start_s: FloatVec, minimum_s: FloatVec, now_s: float) -> BoolVec:
    """Tell ``(K,)`` which jobs started less than their minimum ago; NaN means never started."""
    return np.asarray(now_s < start_s + minimum_s)


MIN_RUNTIME: Final = PluginRefusal(
    "MinRuntime",
    "it has not run for its minimum runtime",
    cure="Wait for the minimum runtime to pass, or lower it on the queue.",
    is_freeable=True,
    tried=("time",),
)
_CODE: Final = np.int16(MIN_RUNTIME)


class MinRuntime(Plugin):
    """A job that has just started is safe from reclaim and preempt for a while."""

    name = "minruntime"
    refusals = (MIN_RUNTIME,)

    Arguments = MinRuntimeArguments

    @hookimpl
    def victim_filter(self, session: Session, claim: Claim, job: RowVec) -> CodeVec | None:
        """Refuse protected jobs that have no pod beyond their minimum to give."""
        minimum_s = self.minimums(session, claim)
        if minimum_s is None:
            return None
        of_job = minimum_s[session.jobs.queue_of_job[job]]
        is_safe = is_protected(session.jobs.last_start_s[job], of_job, session.now_s)
        if is_safe.any():
            safe = np.flatnonzero(is_safe)
            is_safe[safe] = ~_is_elastic(session, job[safe])
        return is_safe * _CODE if is_safe.any() else None

    @hookimpl
    def scenario_gate(
        self, session: Session, claim: Claim, units: Units, taken: BoolVec
    ) -> CodeVec | None:
        """Refuse to break up the core of a protected job; its elastic pods may go."""
        minimum_s = self.minimums(session, claim)
        if minimum_s is None:
            return None
        start_s = session.jobs.last_start_s[units.job]
        is_safe = is_protected(start_s, minimum_s[units.queue], session.now_s)
        is_safe &= units.is_core
        is_safe &= taken
        return is_safe * _CODE if is_safe.any() else None

    @hookimpl
    def proposals(self, session: Session, job: int, code: int) -> Iterator[Proposal]:
        """Propose to wait until no job is protected any more."""
        del code
        queues = session.queues
        both = np.concatenate([queues.preempt_min_runtime_s, queues.reclaim_min_runtime_s])
        yield Kind.TIME, (Change(session.jobs.name[job], amount=int(max(both.max(), 0)) + 1),)

    def minimums(self, session: Session, claim: Claim) -> FloatVec | None:
        """Return ``(Q + 1,)`` seconds by queue of the victim, or None if no job is protected."""
        if claim.action not in {"reclaim", "preempt"}:
            return None
        found: dict[tuple[str, int], FloatVec | None] = session.found.setdefault(self.name, {})
        by_branch = claim.action == "reclaim" and self.arguments.reclaim_resolve_method == "lca"
        key = claim.action, claim.queue if by_branch else -1
        if key not in found:
            found[key] = self._resolved(session, *key)
        return found[key]

    def _resolved(self, session: Session, action: str, leaf: int) -> FloatVec | None:
        queues, arguments = session.queues, self.arguments
        own_s, text = queues.reclaim_min_runtime_s, arguments.default_reclaim_min_runtime
        if action == "preempt":
            own_s, text = queues.preempt_min_runtime_s, arguments.default_preempt_min_runtime
        resolved_s = inherited(queues.tree, own_s, parse_duration(text))
        if not resolved_s.any():
            return None
        return resolved_s if leaf < 0 else seen_from(queues.tree, leaf, resolved_s)


def _is_elastic(session: Session, job: RowVec) -> BoolVec:
    """Tell ``(K,)`` which jobs run more pods than they need."""
    podsets, jobs = session.podsets, session.jobs
    active = session.podset_active_now
    is_surplus = active > podsets.minimum
    elastic: BoolVec = is_surplus[jobs.first_podset[job]]
    if jobs.structure:
        for at, row in enumerate(job.tolist()):
            tree = jobs.structure.get(row)
            if tree is not None:
                elastic[at] = tree.needs_some or is_surplus[tree.podsets].any()
    return elastic
