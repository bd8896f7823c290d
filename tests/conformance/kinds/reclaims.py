"""Unit cases of reclaim: who may, from whom, and into what units running jobs fall apart."""

from typing import Any

import numpy as np

from kaisched.core.axis import TaskState
from kaisched.core.refusals import text_of
from kaisched.framework.session.session import Session
from kaisched.framework.session.units import Claim, Units, units_of
from kaisched.testing.builder import Group, Job, Task
from kaisched_plugins.proportion.reclaim import (
    Bounds,
    is_fair_share_victim,
    is_quota_victim,
    is_within,
)
from kaisched_plugins.proportion.standing import Standing
from tests.conformance.amounts import Scale
from tests.conformance.asking import ELSEWHERE, queue_row, session_of, store_of
from tests.conformance.kinds.gates import request_of

QUEUE = "queue"
SIDES = ("reclaimer_queue", "reclaimee_queue")


def can_reclaim(case: dict[str, Any]) -> str:
    """Tell whether a job may reclaim at all, whoever might have to give way."""
    asked = case["input"]
    scale = Scale.of(asked)
    session = _session(scale, asked["queues"], asked["reclaimer"])
    got = _refused(session, "reclaim", _ask(scale, asked))
    return _compare(case["expected"]["can_reclaim"], got)


def reclaimable(case: dict[str, Any]) -> str:
    """Tell whether a job may have these parts, by queue, of what others hold.

    Only asked of those who may reclaim at all, so that the fair share of its leaf is taken for
    granted; the quotas of non-preemptible jobs are not.
    """
    asked = case["input"]
    scale = Scale.of(asked)
    session = _session(scale, asked["queues"], asked["reclaimer"], asked["saturation_multiplier"])
    ask = _ask(scale, asked)
    row = session.queues.row_of_name
    given = [
        (row[name], part) for name, parts in asked["reclaimed_by_queue"].items() for part in parts
    ]
    units = Units(
        job=np.zeros(len(given), np.int64),
        queue=np.array([queue for queue, _ in given], np.int64),
        amounts=np.array([scale.column(part) for _, part in given], np.int64).reshape(-1, 4).T,
        is_core=np.ones(len(given), np.bool_),
        tasks=((),) * len(given),
    )
    # KAI does not prefer victims that leave their queue what it deserves: all it allows is what is
    # allowed at last.
    claim = Claim("reclaim", 0, row[asked["reclaimer"]["queue"]], ask, pass_number=1)
    got = _refused(session, "preempt", ask) or _names(
        session.ask.scenario_gate(session, claim, units)
    )
    return _compare(case["expected"]["reclaimable"], got)


def reclaim_strategy(case: dict[str, Any]) -> str:
    """Tell whether one of the two reasons to take from a queue holds on its own."""
    asked = case["input"]
    scale = Scale.of(asked)
    mine, theirs = (asked[side] for side in SIDES)
    session = _session(scale, [mine, theirs], None)
    bounds = Bounds(session, Standing.of(session), 1.0)
    left = scale.column(asked["reclaimee_remaining"]).tolist()
    deserved, _, enough, _ = bounds.row(session.queues.row_of_name[theirs["id"]])
    if asked["strategy"] == "maintain_fair_share":
        nothing = [0] * len(left)  # KAI asks about the queue alone
        got = is_fair_share_victim(left, enough, nothing, nothing, is_taker_over=False)
    else:
        own = session.queues.row_of_name[mine["id"]]
        ask = scale.column(asked["reclaimer_resources"])
        after = (session.held[:, own] + ask).tolist()
        is_within_quota = is_within(after, bounds.row(own)[0])
        got = is_quota_victim(is_within_quota, left, deserved, ask.tolist())
    expected = case["expected"]["reclaimable"]
    return "" if got == expected else f"expected {expected}, got {got}"


def victim_resources(case: dict[str, Any]) -> str:
    """Tell into how many units a running job falls apart, and what each holds.

    The tasks of the cases are pending, which no victim is: here they run.
    """
    asked = case["input"]
    scale = Scale.of(asked)
    tasks = [
        Task(
            f"task-{at}",
            request_of(scale, {"request": task["accepted"]}),
            podset=task["pod_set"],
            state=TaskState.RUNNING,
            node=ELSEWHERE,
        )
        for at, task in enumerate(asked["tasks"])
    ]
    groups = tuple(Group(name, least) for name, least in asked["min_available"].items())
    root = groups[0] if len(groups) == 1 else Group("job", None, groups)
    row = queue_row(scale, {"id": QUEUE, "parent": None})
    session = session_of(store_of([row], [Job("job", QUEUE, tasks, root=root)]))
    parts = [part.tasks for part in units_of(session, 0)]
    cpu = scale.column({"cpu_millis": case["expected"]["cpu_millis_each"]})[0]
    request = session.shapes.request[0, session.tasks.shape_of_task]
    got = [int(request[list(members)].sum()) for members in parts]
    expected = [int(cpu)] * case["expected"]["parts"]
    return "" if got == expected else f"expected parts of {expected} millicores, got {got}"


def _session(
    scale: Scale,
    queues: list[dict[str, Any]],
    reclaimer: dict[str, Any] | None,
    multiplier: float = 1.0,
) -> Session:
    """Open a session in which queues have and hold what is stated, whatever its sum.

    The claim's job is row 0; it is there for its preemptibility, and asks for nothing itself.
    """
    jobs = []
    if reclaimer is not None:
        job = Job("job", reclaimer["queue"], [], is_preemptible=reclaimer["preemptible"])
        jobs.append(job)
    shares = scale.shares(queues, "fair_share")
    session = session_of(
        store_of([queue_row(scale, queue) for queue in queues], jobs),
        {queue["id"]: shares[:, at] for at, queue in enumerate(queues)},
        {"proportion": {"relcaimerSaturationMultiplier": multiplier}},
    )
    rows = [session.queues.row_of_name[queue["id"]] for queue in queues]
    for name in ("held", "held_non_preemptible"):
        held = np.zeros((len(session.axis), len(session.queues)), np.int64)
        held[:, rows] = scale.shares(queues, name.replace("held", "allocated"))
        setattr(session, name, held)
    return session


def _ask(scale: Scale, asked: dict[str, Any]) -> np.ndarray:
    return scale.column(asked["reclaimer"]["required"])


def _refused(session: Session, action: str, ask: np.ndarray) -> list[str]:
    job = np.zeros(1, np.int64)
    return _names(session.ask.claim_gate(session, action, job, ask[:, None]))


def _names(codes: np.ndarray | None) -> list[str]:
    return [] if codes is None else [text_of(code).name for code in codes.tolist() if code]


def _compare(expected: bool, refusals: list[str]) -> str:
    return f"expected {expected}, refusals {refusals}" if expected == bool(refusals) else ""
