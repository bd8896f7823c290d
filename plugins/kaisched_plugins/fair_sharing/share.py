"""The share of a queue: what it borrows of what can be lent, in its dominant resource, by weight.

Rules F5 to F7 of docs/explanation/fair-sharing.md. Shares are compared exactly. A quotient of whole
numbers is rounded to the nearest double, which never turns an order round; so doubles are compared
first, and only where they are equal the products across. Numbers of Python have no bound: no
product overflows, however large amounts and weights are.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from kaisched_plugins.fair_sharing.quotas import Row, Rows


class Ratio:
    """A quotient of whole numbers, compared by products."""

    __slots__ = ("of", "part")

    def __init__(self, part: int, of: int) -> None:
        """Keep the numbers as they are."""
        self.part = part
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ratio) and self.part * other.of == other.part * self.of

    __hash__ = None  # type: ignore[assignment]

    def __lt__(self, other: Ratio) -> bool:
        return self.part * other.of < other.part * self.of

    def __le__(self, other: Ratio) -> bool:
        return self.part * other.of <= other.part * self.of

    def __gt__(self, other: Ratio) -> bool:
        return self.part * other.of > other.part * self.of

    def __ge__(self, other: Ratio) -> bool:
        return self.part * other.of >= other.part * self.of


class Share(NamedTuple):
    """A share as it is compared: infinite ones last, by their quotient before the weight."""

    is_infinite: bool
    near: float
    exact: Ratio

    def doubles(self) -> tuple[float, float]:
        """Return the nearest double, and the nearest to what it lacks."""
        rest = Fraction(self.exact.part, self.exact.of) - Fraction(self.near)
        return self.near, rest.numerator / rest.denominator

    def text(self) -> str:
        """Return it for people, as a multiple of what can be lent."""
        return "infinite" if self.is_infinite else f"{self.near:.4g}"


NOTHING = Share(False, 0.0, Ratio(0, 1))


@dataclass(frozen=True, slots=True)
class Terms:
    """A share with what it is made of."""

    share: Share
    is_borrowing: bool
    resource: int = -1
    """The dominant resource; -1 while the share is nothing."""
    borrowed: int = 0
    lendable: int = 0


WITHIN = Terms(NOTHING, is_borrowing=False)


def terms_of(rows: Rows, queue: int, used: Row) -> Terms:
    """Return the share of a queue that has ``used``; a root borrows from nobody."""
    if rows.parent[queue] < 0:
        return WITHIN
    over: dict[int, int] = {}
    for at, (has, quota) in enumerate(zip(used, rows.subtree[queue], strict=True)):
        if has > quota:
            resource = rows.resource[at]
            over[resource] = over.get(resource, 0) + has - quota
    if not over:
        return WITHIN
    best, part, of = -1, 0, 1
    lendable = rows.lendable[queue]
    for resource in sorted(over):
        if lendable[resource] > 0 and over[resource] * of > part * lendable[resource]:
            best, part, of = resource, over[resource], lendable[resource]
    numerator, denominator = rows.weight[queue]
    if not numerator:
        share = Share(True, part / of, Ratio(part, of))
    else:
        part_by, of_by = part * denominator, of * numerator
        share = Share(False, part_by / of_by, Ratio(part_by, of_by))
    return Terms(share, True, best, part, of if best >= 0 else 0)
