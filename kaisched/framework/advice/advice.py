"""Advice for a pending job as values: changes of the cluster, and whether they are enough.

Sentences for people are made from these values; programs read the values themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from kaisched.units import format_amount

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Kind(StrEnum):
    """What is changed."""

    QUOTA = "quota"
    LIMIT = "limit"
    NODES = "nodes"
    MINIMUM = "minimum"
    SELECTOR = "selector"
    TOLERATIONS = "tolerations"
    PREEMPTIBLE = "preemptible"
    END = "end"
    TIME = "time"
    SEVERAL = "several"


MEANINGS: Final[dict[Kind, str]] = {
    Kind.QUOTA: "these queues have the amounts as quota",
    Kind.LIMIT: "the limit of these queues is raised to the amounts",
    Kind.NODES: "so many nodes are added that are like this one, with larger amounts where named",
    Kind.MINIMUM: "the gang's minimum is lowered to so many pods",
    Kind.SELECTOR: "the pods select nodes neither by labels nor by affinity",
    Kind.TOLERATIONS: "the pods tolerate all taints",
    Kind.PREEMPTIBLE: "the job may be evicted",
    Kind.END: "this other job ends",
    Kind.TIME: "so many seconds pass",
    Kind.SEVERAL: "all of this, each change of its own kind",
}


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a queue, a node or a pod group."""

    on: str
    """Name of the queue, the node or the pod group that is changed."""
    resource: str = ""
    """The resource of the amount; empty for a number."""
    amount: int = 0
    """In base units if a resource is named, else a number of nodes, pods or seconds."""
    title: str = ""
    """What people call it, where that is another name."""
    kind: Kind | None = None
    """Its own kind where changes of several kinds are needed; None for that of the advice."""


Proposal = tuple[Kind, tuple[Change, ...]]
"""Changes to try for a pending job."""


def parts(kind: Kind, changes: Sequence[Change]) -> list[Proposal]:
    """Return the changes of each kind."""
    found: dict[Kind, list[Change]] = {}
    for each in changes:
        found.setdefault(each.kind or kind, []).append(replace(each, kind=None))
    return [(own, tuple(some)) for own, some in found.items()]


def together(*proposals: Proposal) -> Proposal:
    """Return some proposals as one; of two amounts of one thing the later counts."""
    found: dict[tuple[Kind, object], tuple[Change, ...]] = {}
    for kind, changes in (part for each in proposals for part in parts(*each)):
        if kind in (Kind.QUOTA, Kind.LIMIT):
            found |= {(kind, (it.on, it.resource)): (it,) for it in changes}
        else:
            found[kind, None] = changes
    kinds = list(dict.fromkeys(kind for kind, _ in found))
    if len(kinds) == 1:
        return kinds[0], tuple(it for some in found.values() for it in some)
    several = [replace(it, kind=key[0]) for key, some in found.items() for it in some]
    return Kind.SEVERAL, tuple(sorted(several, key=lambda it: kinds.index(it.kind or kinds[0])))


@dataclass(frozen=True, slots=True)
class Advice:
    """A change that was tried on a copy of the cluster for one pending job."""

    kind: Kind
    changes: tuple[Change, ...]
    helps: bool
    """True when the same cycle with the change starts the job or promises it room."""
    is_least: bool = True
    """Whether less was tried and does not help."""
    others_first: bool = False
    """True when the change starts other waiting jobs, and not this one."""

    def __str__(self) -> str:
        """Name the change, for a sentence that begins with *would help*."""
        named = TOGETHER.join(_named(*part) for part in parts(self.kind, self.changes))
        return named if self.is_least or not self.helps else f"{named} {_NOT_LEAST}"


TOGETHER: Final = " together with "
_NOT_LEAST: Final = "(less was not tried)"


def _named(kind: Kind, changes: Sequence[Change]) -> str:
    first = changes[0]
    if kind in (Kind.QUOTA, Kind.LIMIT):
        return " and ".join(f"a {kind} of {_amount(it)} for queue {it.on}" for it in changes)
    if kind is Kind.NODES:
        number = "1 more node" if first.amount == 1 else f"{first.amount} more nodes"
        larger = " and ".join(_amount(it) for it in changes[1:])
        return f"{number} like {first.on}" + (f" but with {larger}" if larger else "")
    if kind is Kind.MINIMUM:
        return f"a minimum of {first.amount}"
    if kind is Kind.END:
        return f"the end of {first.title or first.on}"
    return f"{first.amount} s of waiting" if kind is Kind.TIME else _WORDS[kind]


_WORDS: Final = {
    Kind.SELECTOR: "no node selector or node affinity of its own",
    Kind.TOLERATIONS: "tolerating the taints of the nodes",
    Kind.PREEMPTIBLE: "being preemptible",
}


def sentence_of(
    advice: Sequence[Advice],
    when: str = "",
    words: Callable[[Advice], str] = str,
    ahead: Callable[[], str] = str,
) -> str:
    """Return what would help; if no tried change does, the job ahead or what is not enough.

    Args:
        advice: the changes that were tried.
        when: the time of the trial, shown in brackets; empty for now.
        words: names a change.
        ahead: returns who is ahead; asked where a change starts others first.

    """
    tried = f" ({when})" if when else ""
    helpful = [words(each) for each in advice if each.helps]
    if helpful:
        return f"{_HELPS}{tried}: {'; or '.join(helpful)}"
    if any(it.others_first for it in advice) and (others := ahead()):
        return f"{_AHEAD}{tried}: {others}"
    useless = [words(each) for each in advice]
    return f"{DOES_NOT}{tried}: {'; '.join(useless)}" if useless else ""


def is_sentence(text: str) -> bool:
    """Tell whether a text is a sentence of advice with the time of its trial."""
    return text.startswith((f"{_HELPS} (", f"{DOES_NOT} (", f"{_AHEAD} ("))


def is_same(sentence: str, other: str) -> bool:
    """Tell whether two sentences are equal except for the time of the trial."""
    said, of_other = (
        (text.partition(" (")[0], text.partition("): ")[2]) for text in (sentence, other)
    )
    return said == of_other


_HELPS: Final = "would help"
_AHEAD: Final = "others are ahead"
DOES_NOT: Final = "would not be enough by itself"


def _amount(change: Change) -> str:
    return f"{change.resource} {format_amount(change.resource, change.amount)}"
