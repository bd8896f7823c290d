"""Checks of a plugin's promises about itself, which save the host questions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from kaisched.framework.memory import Memory
from kaisched.framework.plugins.plugin import Plugin
from kaisched.framework.session.session import Session

_DAY_S: Final = 86400.0
_HUGE: Final = 1 << 40


def broken_promises(plugin: Plugin, session: Session) -> Iterator[str]:
    """Yield each promise of the plugin that its answers in this session break."""
    if plugin.is_score_rising:
        yield from _falling_scores(plugin, session)
    for action in ("allocate", "reclaim", "preempt"):
        if not plugin.has_gates(session, action):
            yield from _closed_gates(plugin, session, action)
    if plugin.is_job_bound:
        yield from _answers_of_the_hour(plugin, session)
    if plugin.is_class_bound:
        yield from _unequal_claims(plugin, session)


def _falling_scores(plugin: Plugin, session: Session) -> Iterator[str]:
    """Check the promise of rising scores while pods are added as long as they fit."""
    if getattr(plugin, "node_score", None) is None:
        return  # it has none, or has taken it away
    rows = np.arange(len(session.nodes))
    for shape in range(session.shapes.request.shape[1]):
        request = session.shapes.request[:, shape][:, None]
        last: Any = None
        for extra in range(4):
            fits = (request * (extra + 1) <= session.capacity.idle).all(axis=0)
            more = np.full(len(rows), extra, np.int64)
            score: Any = plugin.node_score(session, shape, rows, more)
            if last is not None and score is not None and (score < last)[fits].any():
                yield "node_score: it promises rising scores, but they fall as pods are added"
                return
            last = score


def _closed_gates(plugin: Plugin, session: Session, action: str) -> Iterator[str]:
    """Check the promise of open gates by requests far above any bound."""
    job = np.flatnonzero(session.jobs.queue_of_job >= 0)
    queue = session.jobs.queue_of_job[job]
    much = np.full((len(session.axis), len(job)), _HUGE, np.int64)
    codes: Any = plugin.queue_gate(session, action, queue, job, much, much, much)
    if codes is not None and np.asarray(codes).any():
        yield f"queue_gate: has_gates is False for {action}, but a gate is closed"


def _answers_of_the_hour(plugin: Plugin, session: Session) -> Iterator[str]:
    """Check the promise to read only a job's own row: another time must change nothing."""
    later = Session(
        session.snapshot,
        session.usage,
        session.policy,
        session.now_s + _DAY_S,
        Memory(),
        session.ask,
    )
    session.ask.open(later)
    if session.has_moved:
        later.__dict__.update(ledger=session.ledger, capacity=session.capacity)
    job = np.arange(len(session.jobs.name))
    answers: dict[str, tuple[Any, Any]] = {
        "job_order": (plugin.job_order(session, job), plugin.job_order(later, job)),
        "job_gate": (
            plugin.job_gate(session, "allocate", job),
            plugin.job_gate(later, "allocate", job),
        ),
        "batch_size": (plugin.batch_size(session, job), plugin.batch_size(later, job)),
    }
    for question, (now, then) in answers.items():
        if not np.array_equal(np.asarray(now), np.asarray(then)):
            yield f"{question}: it promises to look at the job's own row only, but the time matters"


def _unequal_claims(plugin: Plugin, session: Session) -> Iterator[str]:
    """Check the promise to treat equal jobs of a queue alike: ask once for little, once for much.

    The promise to treat a job alike in every action is checked too.
    """
    every = np.arange(len(session.jobs.name))
    alike = [plugin.job_gate(session, action, every) for action in ("allocate", "reclaim")]
    if not np.array_equal(np.asarray(alike[0]), np.asarray(alike[1])):
        yield "job_gate: it promises to answer every action alike, but the action matters"
    jobs = session.jobs
    job = np.flatnonzero(jobs.queue_of_job >= 0)
    columns = (jobs.queue_of_job, jobs.priority, jobs.is_preemptible)
    classes = list(zip(*(column[job].tolist() for column in columns), strict=True))
    for action in ("reclaim", "preempt"):
        for amount in (1, _HUGE):
            ask = np.full((len(session.axis), len(job)), amount, np.int64)
            codes: Any = plugin.claim_gate(session, action, job, ask)
            told = [0] * len(job) if codes is None else np.asarray(codes).tolist()
            if len(set(zip(classes, told, strict=True))) > len(set(classes)):
                yield (
                    "claim_gate: it promises to look at queue, ask, priority and preemptibility"
                    " only, but it tells equal claims apart"
                )
                return
