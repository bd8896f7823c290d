"""The checker of claims sees each breach of its promises, and nothing else."""

import pytest

from tests.chaos.claim_checker import Claim, ClaimChecker
from tests.chaos.facts import Pod
from tests.chaos.watching import Event

DEVICE = ("driver", "n1", "gpu-0")
USED = Claim("ns/c", "c", (DEVICE,), frozenset({"p"}), is_protected=True)
FREE = Claim("ns/c", "c")
WAITS, BOUND = Pod("ns/p", "p"), Pod("ns/p", "p", "n1")
RUNS = Pod("ns/p", "p", "n1", "Running")
GOOD = (FREE, WAITS, USED, BOUND, RUNS)


def breaches(*facts, gone=()):
    checker = ClaimChecker()
    events = [(it, False) for it in facts] + [(it, True) for it in gone]
    checker.take(
        [
            Event(order, 0.0, "claims" if isinstance(it, Claim) else "pods", is_deleted, it)
            for order, (it, is_deleted) in enumerate(events, 1)
        ]
    )
    return checker.breaches, checker.leaks()


def test_the_life_of_a_pod_and_its_claim_breaks_nothing():
    leaving = Pod("ns/p", "p", "n1", "Running", is_leaving=True)
    assert breaches(*GOOD, leaving, gone=(RUNS, USED)) == ([], [])


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        (
            (*GOOD, Claim("ns/d", "d", (DEVICE,), frozenset({"q"}), is_protected=True)),
            "revision 6: driver/n1/gpu-0 is given to ns/c, ns/d",
        ),
        ((*GOOD, FREE), "revision 6: ns/c is taken from ns/p, which runs"),
        (
            (*GOOD, Claim("ns/c", "c", (DEVICE,), frozenset({"q"}), is_protected=True)),
            "revision 6: ns/c is taken from ns/p, which runs",
        ),
        ((FREE, WAITS, BOUND), "revision 3: ns/p is bound, and no claim is reserved for it"),
        (
            (Claim("ns/c", "c", (DEVICE,), frozenset({"p"})),),
            "revision 1: ns/c has devices and no finalizer",
        ),
        (
            (Claim("ns/c", "c", (DEVICE,), is_protected=True),),
            "revision 1: ns/c has devices and no user",
        ),
        ((USED, WAITS, Pod("ns/p", "p", "n2")), "revision 3: ns/p is on n2, its gpu-0 on n1"),
    ],
)
def test_a_breach_is_told(facts, text):
    assert breaches(*facts)[0] == [text]


def test_what_is_left_is_told():
    assert breaches(*GOOD, gone=(RUNS,))[1] == ["ns/c is left: 1 devices, 1 users"]
