"""The reason of a search without a plan: which refusal of units it names."""

import numpy as np

from kaisched.actions.eviction.search import RefusedUnits
from kaisched.core.refusals import PluginRefusal

RARE = PluginRefusal("RareUnit", "a unit is rare", cure="wait", is_retried=True)
MANY, FEW, ALSO = (
    PluginRefusal(f"{name}Units", "units are like this", cure="wait")
    for name in ("Many", "Few", "Also")
)


def said(*codes: int) -> int:
    refused = RefusedUnits()
    refused.note_all(np.array(codes, np.int16))
    return refused.most_said()


def test_the_most_frequent_refusal_is_said():
    assert said(MANY, ALSO, 0, ALSO, 0, 0) == ALSO
    assert said(0, 0) == 0
    refused = RefusedUnits()
    for code, times in ((ALSO, 1), (MANY, 2), (ALSO, 2)):
        refused.note(code, times)
    assert refused.most_said() == ALSO


def test_what_the_next_pass_may_lift_comes_first():
    assert said(MANY, MANY, RARE) == RARE


def test_names_break_ties():
    """Codes depend on the order in which a process has loaded its plugins."""
    assert said(MANY, ALSO) == said(ALSO, MANY) == MANY
    assert said(MANY, FEW) == MANY
