"""Whether a constraint makes a gang of unequal pods, or of subgroups, start that waits without it.

``python -m tests.laws.constrained_starts --runs 1000`` places so many gangs of each kind with a
constraint and without. To find out whether such a gang fits at all is hard in general: without a
constraint all choices are tried as far as the steps go. For the gangs drawn here they suffice, so
none that starts with a constraint may wait without, and none that fits.
"""

import argparse
import sys
from random import Random
from typing import NamedTuple

from kaisched import TopologyConstraint
from tests.laws.fewest_racks import IN_A_RACK, KINDS, drawn, fits, placed, pods_of

LEVELS = (("zone", ""), ("rack", ""), ("", "rack"), ("zone", "rack"), ("", "zone"))
"""(required, preferred) of the whole gang."""


class Tried(NamedTuple):
    """One gang, placed in two ways."""

    with_it: bool
    without: bool
    fits: bool
    """By trying all choices, without a constraint."""


def tried(seed, kind):
    """Place a gang with a constraint and without."""
    case = drawn(seed, kind)
    wish = TopologyConstraint("t", *Random(seed).choice(LEVELS))
    rooms = (node for nodes in case.rooms.values() for node in nodes)
    return Tried(
        bool(placed(case, wish, IN_A_RACK)),
        bool(placed(case, None, None)),
        fits(tuple(sorted(rooms)), pods_of(case.parts)),
    )


def counted(kind, seeds):
    """Return how many gangs start with a constraint, and the seeds of those that wait without.

    And the same of gangs that fit by trying all choices.
    """
    found = {seed: tried(seed, kind) for seed in seeds}
    return (
        sum(it.with_it for it in found.values()),
        [seed for seed, it in found.items() if it.with_it and not it.without],
        sum(it.fits for it in found.values()),
        [seed for seed, it in found.items() if it.fits and not it.without],
    )


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.laws.constrained_starts")
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args()
    is_any = False
    for kind in KINDS:
        seeds = range(asked.first, asked.first + asked.runs)
        starts, only, fit, missed = counted(kind, seeds)
        is_any |= bool(only or missed)
        print(
            f"{kind}: {len(only)} of {starts} starts wait without, seeds {only[:8]};"
            f" of {fit} that fit {len(missed)} wait, seeds {missed[:8]}",
            flush=True,
        )
    sys.exit(is_any)


if __name__ == "__main__":
    main()
