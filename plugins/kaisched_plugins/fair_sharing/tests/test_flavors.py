"""The choice of a flavor, by amounts: what fits, what borrows, and what evictions could give."""

from fractions import Fraction

import numpy as np
import pytest

from kaisched import UNLIMITED
from kaisched_plugins.fair_sharing.flavors import (
    Chooser,
    Fungibility,
    Group,
    Held,
    Hindrance,
    Mode,
    Request,
    Way,
)
from kaisched_plugins.fair_sharing.quotas import Holdings, Quotas

PARENT = np.array([-1, 0, 1, 0])
"""A root, a department with one team, and a team beside it."""
TEAM = 2
AS_IS = Fungibility()
STOPS_TO_PREEMPT = Fungibility(stops_to_preempt=True)
GOES_ON_TO_BORROW = Fungibility(stops_to_borrow=False)


def choose(nominal, used, asked, rules=AS_IS, simulated=Mode.PREEMPT, **request):
    """Choose for the team of the department; both flavors are of resource 0."""
    nominal = np.array(nominal, np.int64)
    none = np.full(nominal.shape, UNLIMITED)
    resource = np.zeros(len(nominal), np.int64)
    quotas = Quotas(PARENT, nominal, none, none, [Fraction(1)] * 4, resource)
    chooser = Chooser(
        Holdings(quotas, np.array(used, np.int64)),
        TEAM,
        [Group([0], [0, 1])],
        {(0, 0): 0, (1, 0): 1},
        rules,
        lambda at, amount: Way(simulated, 0),
        may_borrow_after_evictions=True,
    )
    return chooser.choose_one(Request({0: asked}, **request), {})


@pytest.mark.parametrize(
    ("used", "rules", "flavor", "way"),
    [
        ([[0, 0, 0, 0], [0, 0, 0, 0]], AS_IS, 0, Way(Mode.FIT, 0)),
        ([[0, 0, 4, 0], [0, 0, 0, 0]], AS_IS, 0, Way(Mode.FIT, 2)),
        ([[0, 0, 4, 0], [0, 0, 0, 0]], GOES_ON_TO_BORROW, 1, Way(Mode.FIT, 0)),
        ([[0, 0, 4, 4], [0, 0, 0, 0]], AS_IS, 1, Way(Mode.FIT, 0)),
        ([[0, 0, 4, 4], [0, 0, 0, 0]], STOPS_TO_PREEMPT, 0, Way(Mode.PREEMPT, 0)),
        ([[0, 0, 4, 4], [0, 0, 4, 4]], AS_IS, 0, Way(Mode.PREEMPT, 0)),
    ],
)
def test_the_first_flavor_that_fits_is_taken_as_the_settings_say(used, rules, flavor, way):
    chosen = choose([[0, 0, 4, 4], [0, 0, 4, 4]], used, 2, rules)
    assert (chosen.flavors[0].flavor, chosen.flavors[0].way) == (flavor, way)
    assert chosen.mode == way.mode


def test_a_flavor_without_candidates_is_taken_only_if_no_other_could_fit():
    full, half = [0, 0, 4, 4], [0, 0, 4, 3]
    nominal = [[0, 0, 4, 4], [0, 0, 4, 4]]
    chosen = choose(nominal, [full, half], 1, STOPS_TO_PREEMPT, Mode.NO_CANDIDATES)
    assert (chosen.flavors[0].flavor, chosen.mode) == (1, Mode.FIT)
    chosen = choose(nominal, [full, full], 1, STOPS_TO_PREEMPT, Mode.NO_CANDIDATES)
    assert (chosen.flavors[0].flavor, chosen.mode) == (0, Mode.NO_CANDIDATES)


def test_why_no_flavor_fits():
    nominal, used = [[0, 0, 4, 4], [0, 0, 4, 4]], [[0] * 4, [0] * 4]
    assert choose(nominal, used, 9).hindrance == Hindrance.TOO_LARGE
    assert choose(nominal, used, 1, accepts=()).hindrance == Hindrance.NO_MATCH
    assert choose(nominal, used, 9, accepts=(1,)).hindrance == Hindrance.TOO_LARGE
    assert choose(nominal, used, 1, accepts=(1,)).flavors[0].flavor == 1


def test_work_that_grows_stays_in_its_flavor_and_asks_for_the_difference():
    nominal, used = [[0, 0, 4, 0], [0, 0, 9, 0]], [[0, 0, 3, 0], [0] * 4]
    chosen = choose(nominal, used, 4, held={0: Held(0, 3)})
    assert (chosen.flavors[0].flavor, chosen.mode) == (0, Mode.FIT)
    chosen = choose(nominal, used, 8, held={0: Held(0, 3)})
    assert (chosen.flavors, chosen.hindrance) == ({}, Hindrance.TOO_LARGE)
