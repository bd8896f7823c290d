"""What claims ask for: each in a form that can be decided by, once, with a number."""

from __future__ import annotations

from collections.abc import Container, Mapping
from types import MappingProxyType
from typing import Final

from kaisched.cluster.claims.reading import claim_of, texts_of
from kaisched.core.claims.cel import CelSelector
from kaisched.core.claims.model import MOST_RESULTS, Claim, ClaimError, DeviceClass
from kaisched.objects.devices import ResourceClaim

_NOTHING: Final = Claim(())


class Specs:
    """The different things that claims ask for, and the expressions in them."""

    def __init__(self, classes: Mapping[str, DeviceClass]) -> None:
        """Know none; ``classes`` are those that there are, by name."""
        self._classes = classes
        self._specs: list[Claim] = []
        self._number: dict[Claim, int] = {}
        self._selectors: dict[str, CelSelector] = {}

    def __getitem__(self, number: int) -> Claim:
        """Return what has a number."""
        return self._specs[number]

    @property
    def all(self) -> tuple[Claim, ...]:
        """All of them, by number."""
        return tuple(self._specs)

    @property
    def selectors(self) -> Mapping[str, CelSelector]:
        """The expressions, by text."""
        return MappingProxyType(dict(self._selectors))

    def selector(self, text: str) -> CelSelector:
        """Return the expression with a text."""
        return self._selectors[text]

    def number_of(self, claim: ResourceClaim, *, is_allocated: bool) -> int:
        """Return the number of what a claim asks for; check what can be known beforehand.

        Raises:
            ClaimError: it cannot be allocated as things are.

        """
        spec = claim_of(claim.spec)
        for text in texts_of(spec):
            if text not in self._selectors:
                self._selectors[text] = CelSelector(text)
        if not is_allocated:
            self._check(spec)
        number = self._number.get(spec)
        if number is None:
            number = self._number[spec] = len(self._specs)
            self._specs.append(spec)
        return number

    def keep(self, numbers: Container[int]) -> None:
        """Keep only what has one of these numbers; no number is given twice."""
        for spec, number in list(self._number.items()):
            if number not in numbers:
                del self._number[spec]
                self._specs[number] = _NOTHING

    def _check(self, spec: Claim) -> None:
        least = sum(min(max(it.count, 1) for it in each.options) for each in spec.requests)
        if least > MOST_RESULTS:
            raise ClaimError(f"{least} devices are more than {MOST_RESULTS}, the most")
        for ask in (it for request in spec.requests for it in request.options):
            of_class = self._classes.get(ask.class_name)
            if of_class is None:
                raise ClaimError(f"device class {ask.class_name} does not exist")
            for selector in (*of_class.selectors, *(self._selectors[it] for it in ask.selectors)):
                if selector.fault:
                    raise ClaimError(selector.fault)
