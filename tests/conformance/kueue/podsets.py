"""Pod sets as Kueue's tables build them, and the flavors whose nodes their pods accept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kaisched.units import parse_quantity

_SPOT: Final = {"key": "instance", "value": "spot", "effect": "NoSchedule"}
_LABELS: Final[Mapping[str, Mapping[str, str]]] = {
    "one": {"type": "one"},
    "two": {"type": "two"},
    "b_one": {"b_type": "one"},
    "b_two": {"b_type": "two"},
    "label-x-a": {"x": "a"},
    "label-xy-b": {"x": "b", "y": "b"},
}
"""Node labels of the flavors that the tables share; all others have none."""
_TAINTED: Final = ("tainted",)
"""Flavors with a taint that they do not tolerate themselves."""


@dataclass(frozen=True)
class PodSet:
    """Equal pods of a workload."""

    name: str
    count: int
    amounts: Mapping[str, int] = field(default_factory=dict)
    """All pods together."""
    group: str = ""
    """Pod sets of one group get the same flavors."""
    selector: Mapping[str, str] = field(default_factory=dict)
    terms: Sequence[Mapping[str, Any]] = ()
    """Node selector terms: one must match."""
    tolerations: Sequence[Mapping[str, str]] = ()

    def with_pods(self) -> "PodSet":
        """Return the pod set with its number of pods as a resource."""
        return replace(self, amounts={**self.amounts, "pods": self.count})


def podset_of(made: Mapping[str, Any], done: Mapping[str, int]) -> PodSet:
    """Return a pod set from the calls that build it; ``done`` are pods that need nothing more."""
    name, count = made["args"]
    count -= done.get(name, 0)
    podset = PodSet(name, count)
    for call, arguments in made["calls"]:
        if call == "Request":
            amounts = {arguments[0]: _amount(*arguments) * count}
            podset = replace(podset, amounts={**podset.amounts, **amounts})
        elif call == "Containers":
            asked = {key: it for each in arguments for key, it in each["requests"].items()}
            amounts = {key: _amount(key, it) * count for key, it in asked.items()}
            podset = replace(podset, amounts=amounts)
        elif call == "PodSetGroup":
            podset = replace(podset, group=arguments[0])
        elif call == "NodeSelector":
            podset = replace(podset, selector=arguments[0])
        elif call == "RequiredDuringSchedulingIgnoredDuringExecution":
            podset = replace(podset, terms=arguments[0])
        elif call == "Toleration":
            podset = replace(podset, tolerations=[*podset.tolerations, arguments[0]])
        else:
            raise ValueError(f"unknown call {call}")
    return podset


def _amount(resource: str, text: Any) -> int:
    return parse_quantity(text).times(1000 if resource == "cpu" else 1, 1, round_up=True)


def accepts(podset: PodSet, flavor: str) -> bool:
    """Tell whether pods tolerate a flavor's taint and select its labels.

    What is selected by keys that the flavor does not label says nothing about the flavor.
    """
    if flavor in _TAINTED and not any(_tolerates(each) for each in podset.tolerations):
        return False
    labels = _LABELS.get(flavor, {})
    for key, value in podset.selector.items():
        if labels.get(key, value) != value:
            return False
    terms = [
        [it for it in each["MatchExpressions"] if it["Key"] in labels] for each in podset.terms
    ]
    if not all(terms):  # one says nothing about the flavor, and one is enough
        return True
    return not terms or any(all(_matches(labels, it) for it in term) for term in terms)


def _tolerates(toleration: Mapping[str, str]) -> bool:
    if toleration.get("Key", _SPOT["key"]) != _SPOT["key"]:
        return False
    if toleration.get("Effect", _SPOT["effect"]) != _SPOT["effect"]:
        return False
    return toleration.get("Operator") == "Exists" or toleration.get("Value") == _SPOT["value"]


def _matches(labels: Mapping[str, str], expression: Mapping[str, Any]) -> bool:
    """Tell whether a label that is there is as an expression says."""
    value, operator = labels[expression["Key"]], expression["Operator"]
    if operator in ("In", "NotIn"):
        return (value in expression["Values"]) == (operator == "In")
    return bool(operator == "Exists")
