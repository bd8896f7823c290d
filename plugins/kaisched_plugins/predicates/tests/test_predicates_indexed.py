"""What is looked up or indexed is what asking label by label would say."""

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kaisched import Constraints, NodeStatics, PodTerm, Requirement, Taint
from kaisched_plugins.predicates.neighbours import Holders, PodTerms
from kaisched_plugins.predicates.statics import StaticMasks

pytestmark = pytest.mark.fault("I123")
SEEDS = pytest.mark.parametrize("seed", range(5))
KEYS, VALUES = ("zone", "rack", "size"), ("a", "b", "7", "12", "-3")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Nonsense")


def labels(rng):
    return {key: rng.choice(VALUES) for key in KEYS if rng.random() < 0.7}


def requirement(rng):
    values = tuple(rng.sample(VALUES, rng.randint(0, 3)))
    return Requirement(rng.choice(KEYS), rng.choice(OPERATORS), values)


def nodes(rng, count=8):
    taint = Taint("odd", "", "NoSchedule")
    return NodeStatics(
        name=[f"n{row}" for row in range(count)],
        labels=[labels(rng) for _ in range(count)],
        taints=[(taint,) if rng.random() < 0.2 else () for _ in range(count)],
        is_ready=np.array([rng.random() < 0.9 for _ in range(count)]),
        is_unschedulable=np.zeros(count, np.bool_),
        has_pressure=np.zeros(count, np.bool_),
    )


def said(codes, count):
    return [0] * count if codes is None else codes.tolist()


@SEEDS
def test_requirements_are_met_where_their_labels_say_so(seed):
    rng = random.Random(seed)
    statics = nodes(rng)
    masks = StaticMasks(statics)
    for _ in range(200):
        asked = requirement(rng)
        found = masks.standing(Constraints(node_terms=(((asked,), ()),)))
        blank = masks.standing(Constraints())
        met = [asked.is_met(each.get(asked.key)) for each in statics.labels]
        refused = [
            before or (0 if ok else 54) for before, ok in zip(said(blank, 8), met, strict=True)
        ]
        assert said(found, 8) == refused


def pod_term(rng):
    return PodTerm(
        topology_key=rng.choice(("zone", "rack")),
        namespaces=(rng.choice("xy"),),
        all_namespaces=rng.random() < 0.3,
        selector=tuple(requirement(rng) for _ in range(rng.randint(0, 2))),
        match_none=rng.random() < 0.1,
    )


def speaks_of(term, namespace, those):
    if term.match_none or not (term.all_namespaces or namespace in term.namespaces):
        return False
    return all(each.is_met(those.get(each.key)) for each in term.selector)


@SEEDS
def test_terms_and_labels_find_each_other_as_they_come(seed):
    rng = random.Random(seed)
    sets = SimpleNamespace(namespace=[], labels=[])
    session: Any = SimpleNamespace(label_sets=sets)
    index, holders = PodTerms(0), Holders()
    held: list[tuple[PodTerm, int]] = []
    for shape in range(40):
        sets.namespace.append(rng.choice("xy"))
        sets.labels.append(labels(rng))
        term = rng.choice(held)[0] if held and rng.random() < 0.2 else pod_term(rng)
        held.append((term, shape))
        holders.add(term, shape)
        pairs = list(zip(sets.namespace, sets.labels, strict=True))
        for asked, _ in rng.sample(held, min(5, len(held))):
            found = index.matches(session, (asked,)).tolist()
            assert found == [speaks_of(asked, *pair) for pair in pairs] + [False]
        number = rng.randrange(len(pairs))
        expected: dict[str, set[int]] = {}
        for asked, holder in held:
            if speaks_of(asked, *pairs[number]):
                expected.setdefault(asked.topology_key, set()).add(holder)
        found = holders.against(session, number)
        assert {key: set(shapes) for key, shapes in found.items()} == expected
