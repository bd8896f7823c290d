"""Documents for programs: what a cycle decided, and what all documents share.

A plan is ``kaisched.io/plan/v1``, as docs/reference/plan-json.md describes it; what a live view
serves is ``kaisched.io/view/v1``, as :mod:`kaisched.view.api` does.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kaisched.core.axis import GPU_UNIT
from kaisched.core.titles import workload_document
from kaisched.errors import ABSENT, ObjectError, show
from kaisched.framework.advice.search import BUDGET, Adviser
from kaisched.framework.report.records import QueueShare
from kaisched.framework.report.result import devices_for
from kaisched.framework.report.turns import Turns
from kaisched.units import IN_THOUSANDTHS, MEMORY_UNIT, UNLIMITED, is_in_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kaisched.framework.advice.advice import Advice
    from kaisched.framework.intents import Bind, Nominate
    from kaisched.framework.report.records import DecisionRecord
    from kaisched.framework.report.result import CycleResult, ShardCycle
    from kaisched.view.live import LiveView

SCHEMA: Final = "kaisched.io/view/v1"


def plan_document(
    steps: Sequence[ShardCycle], problems: Iterable[ObjectError], warnings: Iterable[str]
) -> dict[str, Any]:
    """Return the document of a plan."""
    last = {step.shard: at for at, step in enumerate(steps)}
    return {
        "schemaVersion": "kaisched.io/plan/v1",
        "cycles": [
            {
                "shard": step.shard,
                "nodePool": step.pool,
                **cycle_document(step.result, BUDGET if at == last[step.shard] else 0),
                "passedOn": [
                    {"podGroup": job, "nodePool": pool}
                    for job, pool in sorted(step.passed_on.items())
                ],
            }
            for at, step in enumerate(steps)
        ],
        "problems": [_problem(problem) for problem in problems],
        "warnings": list(warnings),
    }


def cycle_document(result: CycleResult, budget: int = BUDGET) -> dict[str, Any]:
    """Return what one cycle decided; binds, evictions and nominations in the order decided.

    ``budget`` bounds the cost of the advice for pending jobs.
    """
    return {
        "abandoned": result.stats.abandoned or None,
        "binds": [_placed(result, bind) for bind in result.binds],
        "evictions": [
            {
                "pod": evict.pod,
                "podGroup": evict.pod_group,
                "workload": workload_document(evict.top_owner),
                "node": evict.node,
                "action": evict.action,
                "beneficiary": evict.beneficiary,
                "beneficiaryWorkload": workload_document(evict.beneficiary_owner),
                "reason": evict.reason,
            }
            for evict in result.evictions
        ],
        "nominations": [_placed(result, it) for it in result.nominations],
        "pending": _pending(result, budget),
        "queues": [queue_document(share) for share in result.shares],
        "failures": [
            {"plugin": fault.plugin, "question": fault.question, "error": fault.error}
            for fault in result.failures
        ],
    }


def _placed(result: CycleResult, intent: Bind | Nominate) -> dict[str, Any]:
    """Return where a pod goes, with its cards if it has a share, and devices that it gets."""
    placed: dict[str, Any] = {"pod": intent.pod, "node": intent.node}
    if devices := devices_for(result, intent.task):
        placed["devices"] = list(devices)
    if (slots := result.bind_cards.get(intent.task)) is not None:
        placed["cards"] = list(slots)
    if (told := result.nominate_cards.get(intent.task)) is not None:
        placed |= {"cards": list(told.opened), "wholeCards": len(told.later)}
    return placed


def _pending(result: CycleResult, budget: int) -> list[dict[str, Any]]:
    adviser, turns = Adviser(result, budget), Turns(result)
    return [pending_job(record, turns.document(job)) for job, record in adviser.records_by_row()]


def pending_job(record: DecisionRecord, turn: dict[str, Any] | None) -> dict[str, Any]:
    """Return a pending pod group, with its place in the order."""
    return {
        "podGroup": record.pod_group,
        "workload": workload_document(record.top_owner),
        "queue": record.queue,
        "reason": record.reason,
        "message": record.message,
        "advice": [_advice(advice) for advice in record.advice],
        "turn": turn,
    }


def _advice(advice: Advice) -> dict[str, Any]:
    return {
        "kind": advice.kind.value,
        "helps": advice.helps,
        "isLeast": advice.is_least if advice.helps else None,
        "othersFirst": advice.others_first,
        "text": str(advice),
        "changes": [
            {
                "kind": (it.kind or advice.kind).value,
                "on": it.on,
                "resource": it.resource or None,
                "amount": _amount(it.resource, it.amount) if it.amount or it.resource else None,
            }
            for it in advice.changes
        ],
    }


def queue_document(share: QueueShare) -> dict[str, Any]:
    """Return a queue with its amounts, and the demand that counts for no share."""
    left_out = share.unschedulable
    return {
        "name": share.name,
        "parent": share.parent,
        "fairShare": amounts(share.fair_share),
        "allocated": amounts(share.allocated),
        "requested": amounts(share.requested),
        "deserved": amounts(share.deserved),
        "unschedulable": left_out
        and {
            "amounts": amounts(left_out.amounts),
            "reason": left_out.reason,
            "message": left_out.message,
        },
    }


def amounts(base: Mapping[str, int]) -> dict[str, float | int | None]:
    """Return amounts for people: GPUs, cores, bytes and pieces; None for unlimited."""
    return {name: _amount(name, value) for name, value in base.items() if name != "pods"}


def _amount(name: str, base: int) -> float | int | None:
    if base < 0:
        return None
    if is_in_bytes(name):
        return base * MEMORY_UNIT
    if name in IN_THOUSANDTHS:
        return base // 1000 if base % 1000 == 0 else base / 1000
    return base


def _problem(problem: ObjectError) -> dict[str, Any]:
    return {
        "file": problem.file,
        "document": problem.document,
        "kind": problem.kind,
        "name": problem.name,
        "path": problem.path,
        "message": problem.message,
        "value": None if problem.value is ABSENT else show(problem.value),
        "fix": problem.fix,
    }


def envelope(view: LiveView) -> dict[str, Any]:
    """Return what every document of a view begins with."""
    return {
        "schemaVersion": SCHEMA,
        "shard": view.shard,
        "revision": view.revision,
        "since": stamp(view.since_s),
    }


def stamp(seconds: float) -> str | None:
    """Return a time as RFC 3339 in UTC; None for none."""
    if not math.isfinite(seconds):
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def gpus(base: int) -> float | int:
    """Return thousandths of GPUs as GPUs."""
    return base // GPU_UNIT if base % GPU_UNIT == 0 else base / GPU_UNIT


def by_name(names: Sequence[str], column: Iterable[int]) -> dict[str, float | int | None]:
    """Return amounts ``(R,)`` in base units for people."""
    pairs = zip(names, column, strict=True)
    return amounts({name: -1 if base >= UNLIMITED else base for name, base in pairs})
