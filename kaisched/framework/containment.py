"""Failures of actions: the job that it failed on is refused, and the cycle goes on.

An exception in an action is a bug, and the same cluster raises it in every cycle. If it ended the
cycle, one odd job would keep all other jobs waiting until the bug is fixed. So the action's commits
stay, its open moves are dropped, and it begins again without the job.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from kaisched.core.refusals import Refusal
from kaisched.framework.plugins.combine import CycleAbandonedError
from kaisched.framework.report.records import RUN, PluginFailure
from kaisched.framework.session.cards import Given

if TYPE_CHECKING:
    from kaisched.framework.policy import Action
    from kaisched.framework.session.session import Session

MOST: Final = 8
"""After so many failures in a cycle an action is left out: each costs a new ledger."""
_NOBODY: tuple[int, ...] = ()


def run_contained(session: Session, action: Action) -> None:
    """Run an action; it begins again without the job that it fails on.

    If it fails on several jobs at once, it tries them one by one. If it fails on no job in
    particular, it ends. CycleAbandonedError passes.
    """
    for _ in range(MOST):
        session.trying, session.action = _NOBODY, action.name
        try:
            action.run(session)
        except CycleAbandonedError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a bug raises
            tried = session.trying
            session.failures.append(PluginFailure(action.name, RUN, _told(session, error)))
            start_over(session)
            if not tried or tried[0] in session.barred:
                break
            if len(tried) > 1:
                session.is_careful = True
            else:
                session.barred.add(tried[0])
                session.outcome.refusal[tried[0]] = Refusal.ACTION_FAILED
        else:
            return
    session.left_out.add(action.name)


def _told(session: Session, error: Exception) -> str:
    """Describe an exception, its place and its job: a stack would not fit into a result."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = []
    if trace is not None:
        code = trace.tb_frame.f_code
        where.append(f"in {code.co_qualname}, line {trace.tb_lineno}")
    if len(session.trying) == 1:
        where.append(f"on {session.jobs.title[session.trying[0]]}")
    return f"{type(error).__name__}: {error}"[:400] + f" ({' '.join(where)})"


def start_over(session: Session) -> None:
    """Bring the session back to its state after the last commit."""
    outcome = session.outcome
    outcome.take_back()
    session.trying = _NOBODY
    for made in ("ledger", "placement"):
        session.__dict__.pop(made, None)
    devices = session.__dict__.pop("devices", None)
    before, session.capacity = session.capacity.cards, session.initial_capacity()
    for kept in (session.state, session.found, session.hints):
        kept.clear()
    session.has_kept_promises = False
    session.ask.open(session)
    if not (len(outcome.binds()[0]) or outcome.nominations or outcome.evictions):
        return
    cards = session.capacity.cards
    with ExitStack() as again:
        if before is not None and cards is not None:
            again.enter_context(cards.giving(Given(before.chosen, before.promised)))
        if devices is not None and session.devices is not None:
            again.enter_context(session.devices.giving(devices.given_to(devices.granted)))
        _make_again(session)


def _make_again(session: Session) -> None:
    """Make the committed moves again."""
    outcome, statement = session.outcome, session.statement()
    evicted = [eviction.task for eviction in outcome.evictions]
    for task in evicted:
        statement.evict(task)
    moved = set(evicted)
    for task, node in outcome.nominations:
        (statement.relocate if task in moved else statement.pipeline)(task, node)
    tasks, nodes = outcome.binds()
    for task, node in zip(tasks.tolist(), nodes.tolist(), strict=True):
        statement.allocate(task, node)
