"""Checks of the node affinity of queues."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from kaisched.objects.faults import Fault, Path
from kaisched.objects.labels import LABEL_KEY, LABEL_VALUE
from kaisched.objects.queue import NodeLabelRequirement, QueueNodeAffinity

_WHOLE: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_WITHOUT: Final = ("Exists", "DoesNotExist")
_COMPARE: Final = ("Gt", "Lt")


def affinity_faults(entries: Iterable[QueueNodeAffinity]) -> Iterator[Fault]:
    """Yield what is wrong with the node affinity of a queue."""
    for at, entry in enumerate(entries):
        path: Path = ("spec", "nodeAffinity", at, "terms")
        if not entry.terms:
            fix = "write a term, or leave the entry out to allow all nodes"
            yield Fault(path, "no term, so no node could be used", [], fix)
        for number, term in enumerate(entry.terms):
            here: Path = (*path, number, "matchExpressions")
            if not term.match_expressions:
                yield Fault(
                    here,
                    "a term without requirements matches no node",
                    [],
                    "write a requirement on a label, or remove the term",
                )
            for place, requirement in enumerate(term.match_expressions):
                yield from _requirement_faults((*here, place), requirement)


def _requirement_faults(path: Path, one: NodeLabelRequirement) -> Iterator[Fault]:
    key, values = one.key, one.values
    if not LABEL_KEY.fullmatch(key):
        yield Fault((*path, "key"), "no name of a label", key, "write one such as run.ai/type")
    if one.operator in _WITHOUT:
        if values:
            fix = "leave the values out, or write In or NotIn"
            yield Fault((*path, "values"), f"{one.operator} takes no values", values, fix)
    elif one.operator in _COMPARE:
        if len(values) != 1 or not _WHOLE.fullmatch(values[0]):
            fix = 'write one whole number, such as ["80"]'
            yield Fault((*path, "values"), f"{one.operator} compares numbers", values, fix)
    elif not values:
        fix = "list the values of the label"
        yield Fault((*path, "values"), f"{one.operator} needs values", values, fix)
    else:
        for at, value in enumerate(values):
            if not LABEL_VALUE.fullmatch(value):
                fix = "write letters, digits, hyphens, dots and underscores, at most 63"
                yield Fault((*path, "values", at), "no value of a label", value, fix)
