"""Families about the victims of one claim: a whole cycle in which nothing else waits."""

from collections.abc import Mapping
from typing import Any, Final

from tests.conformance.kueue.cycles import one_cycle, preempted
from tests.conformance.outcome import NotBuiltError

_LOCAL_QUEUE: Final = "incoming"
_TIE_S: Final = 1e-4


def fair_preemption(case: dict[str, Any]) -> str:
    """Compare victims and why each goes."""
    return _differs(case, victims(case, is_compatible=True))


def counterexamples(case: dict[str, Any]) -> str:
    """Compare what each of the two modes decides: as Kueue does, and what lasts."""
    told = _differs(case, victims(case, is_compatible=True))
    got = sorted(key for key, _ in victims(case, is_compatible=False))
    if got != sorted(case["expected"]["strict"]):
        told += f"; default mode: expected {case['expected']['strict']}, got {got}"
    return told


def _differs(case: Mapping[str, Any], got: set[tuple[str, str]]) -> str:
    wanted = {(it["workload"], it["reason"]) for it in case["expected"]["preempted"]}
    return "" if got == wanted else f"expected {sorted(wanted)}, got {sorted(got)}"


def victims(case: Mapping[str, Any], *, is_compatible: bool) -> set[tuple[str, str]]:
    """Return the workloads that a cycle evicts for the incoming one, with Kueue's reasons.

    Raises:
        NotBuiltError: flavors are chosen in the case.

    """
    whole = as_cycle(case)
    arguments = {"isCompatible": is_compatible, "preemptionStrategies": case["strategies"]}
    return preempted(one_cycle(whole, arguments))


def as_cycle(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return a case of one claim as that of a cycle: the incoming workload waits in its queue.

    Of workloads that are equal in everything else Kueue takes the one with the lower UID first,
    here the newer one goes first. So the lower UID is made the newer one.

    Raises:
        NotBuiltError: the claim lacks only a part of what it asks for.

    """
    if any(each["mode"] != "Preempt" for each in case["assignment"]):
        raise NotBuiltError("a claim that lacks only a part of what it asks for")
    rank = {uid: at for at, uid in enumerate(sorted(work["uid"] for work in case["admitted"]))}
    admitted = [
        {**work, "created_at": (work.get("created_at") or 0) - _TIE_S * rank[work["uid"]]}
        for work in case["admitted"]
    ]
    incoming = {**case["incoming"], "queue": _LOCAL_QUEUE}
    local_queue = {
        "name": _LOCAL_QUEUE,
        "namespace": incoming["namespace"],
        "cluster_queue": case["incoming_cluster_queue"],
    }
    return {**case, "workloads": [*admitted, incoming], "local_queues": [local_queue]}
