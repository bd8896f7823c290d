"""What the default mode decides otherwise than the compatible one, and by which rule.

The modes differ in two rules of docs/explanation/fair-sharing.md, which F17 names: victims of equal
priority go by their size before their age (F12), and no victim would come first again (F16). Cases
of amounts, of shares and of the order of heads ask for neither: both modes have one answer.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from kaisched import BoolVec, Claim, CodeVec, Plugin, Session, Units, hookimpl
from kaisched_plugins.fair_sharing import FairSharing
from kaisched_plugins.fair_sharing.victims import Rules
from tests.conformance.kueue.classical import as_cycle as as_classical
from tests.conformance.kueue.cycles import arguments_of, check_built, one_cycle, preempted
from tests.conformance.kueue.judges import queues_in_order, victims_in_order
from tests.conformance.kueue.preemptions import as_cycle
from tests.conformance.outcome import NotBuiltError

BY_SIZE: Final = "F12"
GUARDED: Final = "F16"
"""Without fair sharing F25, its counterpart."""
_CLAIMS: Final = ("fair_preemption", "counterexamples")
_CYCLES: Final = ("schedule_cycle_fair", "schedule_cycle_recompute", "schedule_cycle_classical")
_ORDERS: Final = {
    "candidate_order": victims_in_order,
    "target_queue_order": queues_in_order,
}
_HEADER: Final = (
    "| case | compatible mode, as Kueue | default mode | rule |",
    "|---|---|---|---|",
)

Decision: TypeAlias = tuple[list[str], list[tuple[str, str]]]
"""The workloads that start, and those that are preempted with the reasons."""


class _BySize(Rules):
    """The rules of the compatible mode, but for the order of victims (F12)."""

    by_size = True


class Unguarded(FairSharing):
    """The policy of the compatible mode with the victims' order of the default mode."""

    name = "fair-sharing"

    @property
    def _rules(self) -> Rules:
        arguments = self.arguments
        return _BySize(arguments.preemption_strategies, True, arguments.high_priority_from)

    @hookimpl
    def scenario_gate(
        self, session: Session, claim: Claim, units: Units, taken: BoolVec
    ) -> CodeVec | None:
        """Object to no set."""
        del session, claim, units, taken

    @hookimpl
    def plan_gate(self, session: Session, claim: Claim, units: Units) -> CodeVec | None:
        """Object to no plan."""
        del session, claim, units


class Difference(NamedTuple):
    """A case that the default mode decides otherwise, with both decisions in words."""

    id: str
    compatible: str
    default: str
    rule: str


def differences(cases: Iterable[Mapping[str, Any]]) -> Iterator[Difference]:
    """Yield the differences between the modes."""
    for case in cases:
        try:
            found = difference(case)
        except NotBuiltError:
            continue
        if found is not None:
            yield found


def difference(case: Mapping[str, Any]) -> Difference | None:
    """Return what the default mode decides otherwise in a case, None if nothing.

    Raises:
        NotBuiltError: the case needs what the policy does not offer.

    """
    kind = case.get("kind")
    ordered = _ORDERS.get(str(kind))
    if ordered is not None:
        by_age, by_size = (ordered(case, by_size=each) for each in (False, True))
        words = ", ".join(by_age), ", ".join(by_size)
        return None if by_age == by_size else Difference(case["id"], *words, BY_SIZE)
    arguments: dict[str, Any] = {}
    if kind in _CLAIMS:
        arguments["preemptionStrategies"] = case["strategies"]
        case = as_cycle(case)
    elif kind == "classical_preemption":
        arguments, case = arguments_of(case), as_classical(case)
    elif kind in _CYCLES:
        check_built(case)
        arguments = arguments_of(case)
    else:
        return None
    compatible = _decision(case, {**arguments, "isCompatible": True})
    default = _decision(case, arguments)
    if compatible == default:
        return None
    unguarded = _decision(case, arguments, [Unguarded])
    rules = [BY_SIZE] if unguarded != compatible else []
    rules += [GUARDED] if unguarded != default else []
    return Difference(case["id"], _words(compatible), _words(default), ", ".join(rules))


def _decision(
    case: Mapping[str, Any], arguments: Mapping[str, Any], plugins: Sequence[type[Plugin]] = ()
) -> Decision:
    result = one_cycle(case, arguments, plugins)
    starts = sorted(bind.pod_group for bind in result.binds)
    return starts, sorted(preempted(result))


def table(found: Iterable[Difference]) -> list[str]:
    """Return the lines of a table of differences, by id."""
    rows = (f"| `{it.id}` | {it.compatible} | {it.default} | {it.rule} |" for it in sorted(found))
    return [*_HEADER, *rows]


def _words(decision: Decision) -> str:
    starts, gone = decision
    told = [f"`{key.removeprefix('/')}` goes ({reason})" for key, reason in gone]
    told += [f"`{key.removeprefix('/')}` starts" for key in starts]
    return ", ".join(told) or "nothing goes"
