"""Required anti-affinity of other pods: pods of one class must all match it, or none."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from kaisched.core.axis import TaskState

if TYPE_CHECKING:
    from kaisched.cluster.pods import PodRow
    from kaisched.cluster.rows import LabelRows
    from kaisched.core.constraints import PodTerm

_Pair: TypeAlias = tuple[str, str]
_ANY: Final = ("", "")


class Aversion:
    """The anti-affinity terms of all pods, and the pods that they select."""

    def __init__(self) -> None:
        """Know no terms."""
        self._terms: Counter[PodTerm] = Counter()
        """By term without its domains, how many pods have it."""
        self._of_value: dict[_Pair, dict[PodTerm, None]] = {}
        """By label, the terms whose pods have it, or another one that the term names."""
        self._of_pod: dict[str, tuple[PodTerm, ...]] = {}
        self._news: dict[PodTerm, None] = {}

    def record(self, pod: PodRow) -> None:
        """Take in the terms of a pod, in place of what it had."""
        asked = pod.constraints.pod_anti_affinity if pod.state != TaskState.GONE else ()
        if not asked and pod.key not in self._of_pod:
            return
        counting = filter(None, (it.for_others for it in asked))
        terms = tuple({replace(it, topology_key=""): None for it in counting})
        if self._of_pod.get(pod.key, ()) == terms:
            return
        for term in terms:
            if term not in self._terms:
                self._news[term] = None
                for pair in _pairs_of(term):
                    self._of_value.setdefault(pair, {})[term] = None
            self._terms[term] += 1
        self.forget(pod.key)
        self._of_pod[pod.key] = terms

    def forget(self, pod: str) -> None:
        """Drop the terms of a pod."""
        for term in self._of_pod.pop(pod, ()):
            self._terms[term] -= 1
            if self._terms[term]:
                continue
            del self._terms[term]
            self._news.pop(term, None)
            for pair in _pairs_of(term):
                del self._of_value[pair][term]
                if not self._of_value[pair]:
                    del self._of_value[pair]

    def against(self, pod: PodRow) -> tuple[PodTerm, ...]:
        """Return the terms that select a pod, in one canonical form."""
        if not self._terms:
            return ()
        pairs = (*pod.meta.labels.items(), _ANY)
        terms = {it: None for pair in pairs for it in self._of_value.get(pair, ())}
        found = [it for it in terms if it.selects(pod.namespace, pod.meta.labels)]
        return tuple(sorted(found, key=repr))

    def settle(self, labels: LabelRows) -> list[int]:
        """Return the label sets that terms select which are new since the last call."""
        news = list(self._news)
        self._news.clear()
        if not news:
            return []
        pairs = zip(labels.namespace.data, labels.labels.data, strict=True)
        return [
            number
            for number, (namespace, of) in enumerate(pairs)
            if any(term.selects(namespace, of) for term in news)
        ]


def _pairs_of(term: PodTerm) -> list[_Pair]:
    """Return labels of which every pod that a term selects has one; else what stands for any."""
    for one in term.selector:
        if one.operator == "In":
            return [(one.key, value) for value in one.values]
    return [_ANY]
