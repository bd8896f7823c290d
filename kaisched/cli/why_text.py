"""Why a job waits, as text, CSV and names; of ``kaisched.io/why/v1``, whoever made it.

Nothing of the scheduler is imported here, so that a running one is asked at once.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from kaisched.core.refusals import Refusal, RefusalText, text_of
from kaisched.framework.advice.advice import DOES_NOT
from kaisched.framework.report.records import Because
from kaisched.units import format_amount

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

GATED: Final = "gated"
"""The state of a pod that has a scheduling gate."""
_MOST_PODS: Final = 5


def print_text(document: Mapping[str, Any], more: Sequence[str] = ()) -> None:
    """Print everything about a job, the answer first, and then more lines."""
    print("\n".join([*_lines(document), *more]))  # noqa: T201


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    name, pending = document["podGroup"], document["pending"]
    gate = _gate(document)
    if gate is not None:
        yield f"job {name} is pending: {gate.name}"
        yield f"  {gate.sentence}"
    elif pending is None:
        yield f"job {name} does not wait"
    else:
        # What would help is the next step, below.
        yield f"job {name} is pending: {pending['reason']}"
        if document["because"]:
            yield f"  {document['because']}"
        elif not document.get("complete", True):
            yield "  the numbers and the place are told between two cycles; none ended in time"
    yield from _pod_lines(document["pods"])
    for it in document["evictions"]:
        whom = f" for {it['beneficiary']}" if it["beneficiary"] else ""
        yield f"  evicted by {it['action']}{whom}: {it['reason']}"
    if pending is not None:
        yield from _turn_lines(pending)
    yield from (f"  {_queue_line(entry)}" for entry in document["queues"])
    if pending is not None:
        yield from _next_lines(pending["advice"], document["cure"])
        if "complete" in document and not pending["advice"]:
            yield "    in general: nothing that the scheduler tried for this job is at hand"
    elif gate is not None:
        yield f"  next: {gate.cure}"


def _gate(document: Mapping[str, Any]) -> RefusalText | None:
    """Return why a job waits of which all pods are gated: no action knows of it, as of no pod."""
    states = {it["state"] for it in document["pods"]}
    is_gated = document["pending"] is None and states == {GATED}
    return text_of(Refusal.SCHEDULING_GATED) if is_gated else None


def _next_lines(advice: Sequence[Mapping[str, Any]], cure: str) -> Iterator[str]:
    """Yield the next step: a change that was tried and helps, else what helps in general."""
    helpful = [each["text"] for each in advice if each["helps"]]
    if helpful:
        yield f"  next: {'; or '.join(helpful)}"
        yield "    tried on a copy: the job starts, or is promised room"
        return
    yield f"  next: {cure}"
    if advice:
        useless = "; ".join(each["text"] for each in advice)
        yield f"    tried on a copy: {DOES_NOT}: {useless}"


def _turn_lines(pending: Mapping[str, Any]) -> Iterator[str]:
    turn = pending["turn"]
    if turn is None:
        return
    yield f"  position {turn['position']} of {turn['of']} in queue {pending['queue']}"
    ahead = turn["ahead"]
    if ahead is None:
        yield "  no job is ahead of it"
        return
    because = Because(ahead["plugin"] or "", ahead["key"], ahead["own"], ahead["other"])
    whose = ahead["podGroup"] or f"a job of queue {ahead['queue']}"
    behind = pending["podGroup"]
    if ahead["queue"] != pending["queue"]:  # the first of its queue: the queues are compared
        behind = next(f"queue {it['queue']}" for it in turn["levels"] if it["ahead"] == ahead)
    yield f"  directly ahead: {whose}, because {because.text(behind)}"


def _pod_lines(pods: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if len(pods) <= _MOST_PODS:
        for it in pods:
            yield f"  pod {it['pod']}: {it['state']}{f' on {at}' if (at := it['node']) else ''}"
        return
    counts = Counter(it["state"] for it in pods)
    yield f"  {len(pods)} pods: " + ", ".join(f"{it} {state}" for state, it in counts.items())


def _queue_line(queue: Mapping[str, Any]) -> str:
    def shown(amounts: Mapping[str, Any]) -> str:
        gpus = amounts.get("gpu", 0)
        return "unlimited" if gpus is None else format_amount("gpu", round(gpus * 1000))

    left_out = (queue["unschedulable"] or {}).get("amounts", {})
    more = f", and {shown(left_out)} that could never start" if left_out.get("gpu") else ""
    return (
        f"queue {queue['name']}: {shown(queue['allocated'])} GPUs allocated, fair share"
        f" {shown(queue['fairShare'])}, quota {shown(queue['deserved'])}, requested"
        f" {shown(queue['requested'])}{more}"
    )


def rows(document: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """Yield the rows of CSV: the pods of a job, each with why the job waits."""
    yield ("podGroup", "queue", "reason", "because", "position", "pod", "state", "node")
    pending = document["pending"] or {}
    turn = pending.get("turn") or {}
    queue = document["queues"][0]["name"] if document["queues"] else pending.get("queue")
    for it in document["pods"]:
        yield (
            document["podGroup"],
            queue,
            pending.get("reason"),
            document["because"],
            turn.get("position"),
            it["pod"],
            it["state"],
            it["node"],
        )


def names(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the pods of a job as kubectl reads them."""
    for it in document["pods"]:
        yield f"pod/{it['pod'].partition('/')[2]}"
