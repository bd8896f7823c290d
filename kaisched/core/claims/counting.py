"""Counts how many pods with equal claims find devices on a node, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kaisched.core.claims.model import Ask, Claim, Identity, Site, Taken
from kaisched.core.claims.offer import Offer
from kaisched.core.claims.search import Steps, allocate, consumed_by, fits, tolerates_all
from kaisched.core.claims.selectors import CelSelector, names_of
from kaisched.core.claims.table import Holdings, portions_of

# -- parts of devices ------------------------------------------------------------------------------

MOST_PODS: Final = 1 << 16
"""Counted at most: a claim may take nothing of what a device has."""


class _Source(NamedTuple):
    """A device that does for a request."""

    identity: Identity
    takes: tuple[tuple[str, int, int], ...] | None
    """(capacity, what a pod takes of it, all of it); None for a device of one claim."""

    def free(self, consumed: Mapping[str, int]) -> int:
        """Return how many pods it is free for; of an untouched device of one claim it is one."""
        if self.takes is None:
            return 1
        left = [
            (whole - consumed.get(name, 0)) // amount
            for name, amount, whole in self.takes
            if amount
        ]
        return min(max(min(left), 0), MOST_PODS) if left else MOST_PODS


class Parts:
    """Counts pods with a plain request, some of whose devices several claims may have."""

    def __init__(self, offer: Offer, ask: Ask, expressions: Sequence[CelSelector]) -> None:
        """Look at no device yet."""
        self._offer, self._ask, self._expressions = offer, ask, expressions
        self._known: dict[str, tuple[_Source, ...] | None] = offer.remembered("parts", ask)

    def __call__(self, site: Site, taken: Taken) -> int | None:
        """Return how many pods find devices on a node, one after the other.

        None for a node that needs a search.
        """
        if site.name not in self._known:
            self._known[site.name] = self._sources(site)
        sources = self._known[site.name]
        if sources is None:
            return None
        left = [
            it.free(taken.consumed.get(it.identity, {}))
            for it in sources
            if it.identity not in taken.devices
        ]
        return min(_pods(left, self._ask.count), MOST_PODS)

    def _sources(self, site: Site) -> tuple[_Source, ...] | None:
        found = []
        for pool in self._offer.pools(site):
            for one, device in pool.devices:
                if not all(it.matches(device) for it in self._expressions):
                    continue
                if device.counters or one.place is None:
                    return None
                taken = consumed_by(self._ask, device)
                if (
                    taken is None
                    or not fits(taken, device, {})
                    or not tolerates_all(self._ask.tolerations, device)
                ):
                    continue
                takes = tuple(
                    (name, amount.nanos, device.capacities[name].value.nanos)
                    for name, amount in taken.items()
                )
                found.append(_Source(device.identity, takes if device.is_shared else None))
        return tuple(found)


def _pods(left: list[int], count: int) -> int:
    """Return how many pods get so many devices each: always the first that are free."""
    if count == 1:
        return sum(left)
    pods = 0
    while True:
        first = [at for at, more in enumerate(left) if more > 0][:count]
        if len(first) < count:
            return pods
        step = min(left[at] for at in first)
        pods += step
        for at in first:
            left[at] -= step


# -- devices ---------------------------------------------------------------------------------------

MOST: Final = 64
"""So many pods are counted at most where devices are searched one by one."""


def pods_with(
    offer: Offer,
    site: Site,
    claims: Sequence[Claim],
    selectors: Mapping[str, CelSelector],
    free: Holdings,
    most: int = MOST,
    further: Sequence[Claim] | None = None,
    steps: Steps | None = None,
) -> int:
    """Take devices of a node for as many pods as find some, up to so many; return their number.

    ``further`` is what all pods but the first need, by default the same.

    Raises:
        ClaimError: the claims cannot be allocated as things are.
        StepsSpentError: the search is given up.

    """
    for number in range(most := min(most, MOST)):
        if number and further is not None:
            claims = further
        found = allocate(offer, site, claims, selectors, free.taken, steps) if claims else []
        if found is None:
            return number
        for it in found:
            free.add(portions_of(it.results))
    return most


class Counted:
    """Counts pods with a plain request by counting devices; None for a node that needs a search."""

    def __init__(self, offer: Offer, ask: Ask, expressions: Sequence[CelSelector]) -> None:
        """Use what is known already of the devices that do for the request."""
        self._offer, self.ask, self._expressions = offer, ask, expressions
        self._known: dict[str, tuple[Identity, ...] | None] = offer.remembered("node", ask)
        self._at_look: dict[int, tuple[int, ...] | None] = offer.remembered("look", ask)
        self._parts = Parts(offer, ask, expressions)
        self.named = names_of(expressions)
        """The fields of a device that decide whether it does."""

    @property
    def is_of_parts(self) -> bool:
        """Whether capacities of devices count, so that nodes are counted one by one."""
        return bool(self.ask.capacity)

    def __call__(self, site: Site, taken: Taken) -> int | None:
        """Return how many pods find devices on a node, one after the other."""
        number = None if self.is_of_parts else self.whole(site, taken)
        return self._parts(site, taken) if number is None else number

    def whole(self, site: Site, taken: Taken) -> int | None:
        """Do the same for a node all of whose devices belong to one claim each."""
        devices = self._known.get(site.name, _UNKNOWN)
        if devices is _UNKNOWN:
            numbers = self._matching(site, self._offer.look(site, self.named))
            all_ = self._offer.identities(site)
            if numbers is not None:
                devices = all_ if len(numbers) == len(all_) else tuple([all_[it] for it in numbers])
            else:
                devices = None
            self._known[site.name] = devices
        if devices is None:
            return None
        if taken.devices:
            return (len(devices) - len(taken.devices.intersection(devices))) // self.ask.count
        return len(devices) // self.ask.count

    def numbers(self, site: Site, taken: Taken) -> tuple[int, int] | None:
        """Return how many devices of a node do, and how many are free; None if claims share any."""
        devices = self.devices(site)
        if devices is None:
            return None
        return len(devices), len(devices) - len(taken.devices.intersection(devices))

    def devices(self, site: Site) -> tuple[Identity, ...] | None:
        """Return the devices of a node that do for the request; None if claims share any."""
        if self.is_of_parts or self.whole(site, Taken()) is None:
            return None
        return self._known[site.name]

    def on_untaken(self, site: Site, look: int) -> int | None:
        """Return how many pods find devices on any node of a look, if none of them is taken."""
        numbers = self._matching(site, look)
        return None if numbers is None else len(numbers) // self.ask.count

    def _matching(self, site: Site, look: int) -> tuple[int, ...] | None:
        if look not in self._at_look:
            self._at_look[look] = _matching(self._offer, site, self.ask, self._expressions)
        return self._at_look[look]


EVALUATIONS: Final = 256
"""So many evaluations of selectors count as one try of the try limit."""
MOST_EVALUATIONS: Final = 100_000
"""Selectors of a claim that need more are not asked: it could not be told when they are done."""
SEARCHED: Final = 16
"""Claims whose devices have to be searched count as so many tries."""


def evaluations_of(
    offer: Offer, claims: Sequence[Claim], selectors: Mapping[str, CelSelector]
) -> int:
    """Return how many evaluations of selectors it takes, at most, to find devices for claims."""
    asks = (ask for it in claims for request in it.requests for ask in request.options)
    return offer.evaluations(
        selectors[text] for text in {it for ask in asks for it in ask.selectors}
    )


def tries_of(offer: Offer, claims: Sequence[Claim], selectors: Mapping[str, CelSelector]) -> int:
    """Return as how many tries it counts, at most, to find devices for claims on all nodes."""
    number = min(evaluations_of(offer, claims, selectors), MOST_EVALUATIONS) // EVALUATIONS
    return number + (0 if _plain(claims) is not None else SEARCHED)


def counted(
    offer: Offer, claims: Sequence[Claim], selectors: Mapping[str, CelSelector]
) -> Counted | None:
    """Return what counts devices for a plain request; None for any other."""
    ask = _plain(claims)
    return None if ask is None else counting(offer, ask, selectors)


def counting(offer: Offer, ask: Ask, selectors: Mapping[str, CelSelector]) -> Counted | None:
    """Return what counts devices for a request of any claim; None where its class is missing."""
    of_class = offer.classes.get(ask.class_name)
    if of_class is None:
        return None
    return Counted(offer, ask, [*of_class.selectors, *(selectors[it] for it in ask.selectors)])


def _plain(claims: Sequence[Claim]) -> Ask | None:
    """Return the only request of the only claim, if any devices that match do for it."""
    if len(claims) != 1 or claims[0].constraints or len(claims[0].requests) != 1:
        return None
    options = claims[0].requests[0].options
    ask = options[0]
    is_plain = len(options) == 1 and ask.count > 0 and not ask.is_admin
    return ask if is_plain else None


_UNKNOWN: Final[tuple[Identity, ...]] = (("", "", ""),)


def _matching(
    offer: Offer, site: Site, ask: Ask, expressions: Sequence[CelSelector]
) -> tuple[int, ...] | None:
    """Return which of the devices of a node do for a request; None if one is no plain device."""
    found, number = [], -1
    for pool in offer.pools(site):
        for one, device in pool.devices:
            number += 1
            if all(it.matches(device) for it in expressions):
                if device.is_shared or device.counters or one.place is None:
                    return None
                if tolerates_all(ask.tolerations, device):
                    found.append(number)
    return tuple(found)
