"""Counts how many pods with equal claims find devices on a node, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kaisched.core.claims.model import Ask, Claim, Identity, Selector, Site, Taken
from kaisched.core.claims.offer import Offer
from kaisched.core.claims.search import allocate, tolerates_all
from kaisched.core.claims.table import Holdings, portions_of

MOST: Final = 64
"""So many pods are counted at most where devices are searched one by one."""


def pods_with(
    offer: Offer,
    site: Site,
    claims: Sequence[Claim],
    selectors: Mapping[str, Selector],
    free: Holdings,
) -> int:
    """Take devices of a node for as many pods as find some; return how many these are.

    Raises:
        ClaimError: the claims cannot be allocated as things are.

    """
    for number in range(MOST):
        found = allocate(offer, site, claims, selectors, free.taken)
        if found is None:
            return number
        for it in found:
            free.add(portions_of(it.results))
    return MOST


def pods_by_counting(
    offer: Offer,
    site: Site,
    claims: Sequence[Claim],
    selectors: Mapping[str, Selector],
    taken: Taken,
) -> int | None:
    """Return the same for a plain request by counting devices; None for any other."""
    ask = _plain(claims)
    return None if ask is None else _by_counting(offer, site, ask, selectors, taken)


def _plain(claims: Sequence[Claim]) -> Ask | None:
    """Return the only request of the only claim, if any devices that match do for it."""
    if len(claims) != 1 or claims[0].constraints or len(claims[0].requests) != 1:
        return None
    options = claims[0].requests[0].options
    ask = options[0]
    is_plain = len(options) == 1 and ask.count > 0 and not ask.is_admin and not ask.capacity
    return ask if is_plain else None


def _by_counting(
    offer: Offer, site: Site, ask: Ask, selectors: Mapping[str, Selector], taken: Taken
) -> int | None:
    """Return the answer for a plain request; None if a device that matches is no plain one."""
    matching = offer.remembered(ask)
    devices = matching.get(site.name, _UNKNOWN)
    if devices is _UNKNOWN:
        devices = matching[site.name] = _matching(offer, site, ask, selectors)
    if devices is None:
        return None
    return (len(devices) - len(taken.devices.intersection(devices))) // ask.count


_UNKNOWN: Final[tuple[Identity, ...]] = (("", "", ""),)


def _matching(
    offer: Offer, site: Site, ask: Ask, selectors: Mapping[str, Selector]
) -> tuple[Identity, ...] | None:
    """Return the devices of a node that do for a request; None if one is no plain device."""
    of_class = offer.classes.get(ask.class_name)
    if of_class is None:
        return None
    expressions = [*of_class.selectors, *(selectors[text] for text in ask.selectors)]
    found = []
    for pool in offer.pools(site):
        for one, device in pool.devices:
            if all(it.matches(device) for it in expressions):
                if device.is_shared or device.counters or one.place is None:
                    return None
                if tolerates_all(ask.tolerations, device):
                    found.append(device.identity)
    return tuple(found)
