"""Searches devices for the claims of a pod on one node, in the order of kube-scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kaisched.core.claims.model import (
    ALL,
    MOST_RESULTS,
    NANOS,
    Allocation,
    Ask,
    Capacity,
    Claim,
    ClaimError,
    Config,
    Constraint,
    Device,
    Identity,
    Policy,
    Quantity,
    Request,
    Result,
    Site,
    Slice,
    Taint,
    Taken,
    Toleration,
    Value,
)
from kaisched.core.claims.offer import Offer, Pool, matches
from kaisched.core.claims.selectors import CelSelector, DeviceClass
from kaisched.core.constraints import NodeTerm, Requirement

# -- constraints -----------------------------------------------------------------------------------


class Judge:
    """The values of one attribute on the devices that are chosen so far."""

    __slots__ = ("_constraint", "_values")

    def __init__(self, constraint: Constraint) -> None:
        """Start without devices."""
        self._constraint = constraint
        self._values: list[Value] = []

    def add(self, request: str, device: Device) -> bool:
        """Count a device, and tell whether it goes with those before; if not, nothing changes."""
        if not self._constraint.concerns(request):
            return True
        value = device.attribute(self._constraint.attribute)
        if value is None or value.value is None:
            return False
        if self._constraint.is_distinct:
            if value in self._values:
                return False
        elif self._values and value != self._values[0]:
            return False
        self._values.append(value)
        return True

    def remove(self, request: str) -> None:
        """Undo the last :meth:`add` that counted."""
        if self._constraint.concerns(request):
            self._values.pop()


# -- shared capacity -------------------------------------------------------------------------------


def consumed_by(ask: Ask, device: Device) -> dict[str, Quantity] | None:
    """Return what a request takes of each capacity of a device; None if it cannot be asked for."""
    asked = dict(ask.capacity)
    if not asked.keys() <= device.capacities.keys():
        return None
    taken = {}
    for name, capacity in device.capacities.items():
        amount = _rounded(asked.get(name), capacity)
        if capacity.policy is not None and not _is_allowed(amount, capacity.policy):
            return None
        taken[name] = amount
    return taken


def fits(taken: Mapping[str, Quantity], device: Device, before: Mapping[str, int]) -> bool:
    """Tell whether a device has so much left, after what other claims have of it."""
    return all(
        amount.nanos + before.get(name, 0) <= device.capacities[name].value.nanos
        for name, amount in taken.items()
    )


def _rounded(asked: Quantity | None, capacity: Capacity) -> Quantity:
    """Return the amount that is taken: rounded up to one that the device gives."""
    policy = capacity.policy
    if asked is None:
        default = None if policy is None else policy.default
        return capacity.value if default is None else default
    if policy is None:
        return asked
    if policy.least is not None:
        if asked.nanos < policy.least.nanos:
            return policy.least
        if policy.step is None:
            return asked
        least, step = _whole(policy.least), _whole(policy.step)
        steps = -(-(_whole(asked) - least) // step)
        return Quantity((least + steps * step) * NANOS, is_binary=True)
    return next((it for it in policy.values if asked.nanos <= it.nanos), asked)


def _whole(amount: Quantity) -> int:
    return -(-amount.nanos // NANOS)


def _is_allowed(amount: Quantity, policy: Policy) -> bool:
    if policy.default is not None and amount.nanos == policy.default.nanos:
        return True
    if policy.has_range:
        if policy.most is not None and amount.nanos > policy.most.nanos:
            return False
        if policy.step is None or policy.least is None:
            return True
        return (_whole(amount) - _whole(policy.least)) % _whole(policy.step) == 0
    return not policy.values or any(it.nanos == amount.nanos for it in policy.values)


# -- results ---------------------------------------------------------------------------------------


def allocation_of(
    claim: Claim,
    chosen: Sequence[int],
    results: Sequence[Result],
    classes: Mapping[str, DeviceClass],
    site: Site,
) -> Allocation:
    """Return the allocation of a claim.

    Args:
        claim: what it asks for.
        chosen: for each request the alternative that was taken.
        results: its devices, in order.
        classes: the classes by name.
        site: the node for which the devices were chosen.

    """
    asks = [one.options[at] for one, at in zip(claim.requests, chosen, strict=True)]
    names: dict[str, list[str]] = {}
    for ask in asks:
        names.setdefault(ask.class_name, []).append(ask.name)
    of_classes = tuple(
        (tuple(requests), config)
        for name, requests in names.items()
        for config in classes[name].configs
    )
    node, term = _nodes(results, site)
    return Allocation(tuple(results), of_classes, _configs(claim, chosen), node, term)


def _configs(claim: Claim, chosen: Sequence[int]) -> tuple[Config, ...]:
    """Return the settings of a claim, once for each request in use that they name."""
    found = []
    for config in claim.configs:
        if not config.requests:
            found.append(config)
            continue
        for request, at in zip(claim.requests, chosen, strict=True):
            names = (request.name, request.options[at].name)
            found += [config] * any(name in config.requests for name in names)
    return tuple(found)


def _nodes(results: Sequence[Result], site: Site) -> tuple[str, NodeTerm | None]:
    """Return the one node where the devices can be used, or else requirements on nodes."""
    expressions: list[Requirement] = []
    fields: list[Requirement] = []
    for result in results:
        place = result.slice.place or result.device.place
        if result.device.is_bound_to_node or (place is not None and place.node):
            return site.name, None
        if place is not None and place.term is not None:
            expressions += [it for it in place.term[0] if it not in expressions]
            fields += [it for it in place.term[1] if it not in fields]
    if not expressions and not fields:
        return "", None
    return "", (tuple(expressions), tuple(fields))


# -- the search ------------------------------------------------------------------------------------
# Claims are tried in the order of the pod, requests in theirs, devices in the order of their
# pools. Drivers name pools, slices and devices, so they decide what is tried first. Within a
# request positions only increase, which leaves out equal choices in another order.

MOST_DEVICES: Final = 128
"""Most devices of the claims of one pod: the search goes as deep."""
MOST_STEPS: Final = 50_000
"""Devices that are tried for the claims of a pod on one node, before the search is given up."""
_EFFECTS: Final = ("NoSchedule", "NoExecute")


class StepsSpentError(Exception):
    """The searches for some claims have taken all the steps that they may."""


@dataclass(slots=True)
class Steps:
    """How many steps the searches for some claims may still take, on all nodes together."""

    left: int = MOST_STEPS + 1


def allocate(
    offer: Offer,
    site: Site,
    claims: Sequence[Claim],
    selectors: Mapping[str, CelSelector],
    taken: Taken,
    steps: Steps | None = None,
) -> list[Allocation] | None:
    """Return an allocation for each claim, or None if they cannot all be had on the node.

    Args:
        offer: slices and classes of the cluster.
        site: the node.
        claims: what the claims ask for.
        selectors: the expressions of the claims, by text.
        taken: what other claims have.
        steps: how many this search and others may take; without, as many as one may.

    Raises:
        ClaimError: a class is missing, an expression fails, or the search is too long.
        StepsSpentError: the searches together are.

    """
    pools = offer.pools(site)
    return Search(pools, offer, site, claims, selectors, taken, steps or Steps()).run()


MOST_EASY: Final = 2
"""With so many requests a search without success may be long."""


class Search:
    """One search; its state is what is chosen so far."""

    def __init__(
        self,
        pools: Sequence[Pool],
        offer: Offer,
        site: Site,
        claims: Sequence[Claim],
        selectors: Mapping[str, CelSelector],
        taken: Taken,
        steps: Steps,
    ) -> None:
        """Start with nothing chosen."""
        self._pools, self._site, self._claims = pools, site, claims
        self._classes, self._selectors = offer.classes, selectors
        self._taken = taken
        self._rows = [
            (pool, one, device) for pool in pools if not pool.fault for one, device in pool.devices
        ]
        self._matched: dict[tuple[int, int], bool] = {}
        self._all: dict[int, list[int]] = {}
        self._mine: dict[Identity, list[int]] = {}
        """By device, the claims that it is chosen for."""
        self._consumed: dict[Identity, dict[str, int]] = {}
        self._left: dict[tuple[str, str], dict[tuple[str, str], int]] = {}
        self._judges = [[Judge(it) for it in claim.constraints] for claim in claims]
        self._results: list[list[Result]] = [[] for _ in claims]
        self._options = [[0] * len(claim.requests) for claim in claims]
        self._steps, self._together = 0, steps

    def run(self) -> list[Allocation] | None:
        """Search; the arguments and errors are those of :func:`allocate`."""
        total = 0
        for claim in self._claims:
            for request in claim.requests:
                for ask in request.options:
                    self._prepare(ask)
            least = sum(min(map(self._number, it.options)) for it in claim.requests)
            if least > MOST_RESULTS:
                raise ClaimError(f"{least} devices are more than a claim may have: {MOST_RESULTS}")
            total += least
        if total > MOST_DEVICES:
            raise ClaimError(f"{total} devices are more than a pod may ask for: {MOST_DEVICES}")
        if self._is_short() or not self._claim(0):
            return None
        return [
            allocation_of(claim, options, results, self._classes, self._site)
            for claim, options, results in zip(
                self._claims, self._options, self._results, strict=True
            )
        ]

    def _prepare(self, ask: Ask) -> None:
        """Check the class of a request, and list the devices of one that asks for all."""
        if ask.class_name not in self._classes:
            raise ClaimError(f"device class {ask.class_name} does not exist")
        if ask.count != ALL or id(ask) in self._all:
            return
        for pool in self._pools:
            if pool.fault:
                raise ClaimError(f"request {ask.name} asks for all devices, but {pool.fault}")
        self._all[id(ask)] = [
            row
            for row, (_, _, device) in enumerate(self._rows)
            if self._is_match(ask, row)
            and (taken := consumed_by(ask, device)) is not None
            and fits(taken, device, self._consumed_of(device))
        ]

    def _is_short(self) -> bool:
        """Tell whether plain requests together ask for more devices than do for any of them.

        It would take the search very long to find this out, where many devices are equal.
        """
        plain = [
            it.options[0]
            for claim in self._claims
            for it in claim.requests
            if not it.is_choice and it.options[0].count > 0 and not it.options[0].is_admin
        ]
        if len(plain) < MOST_EASY:
            return False
        try:
            asks = [(self._rows_for(ask), ask.count) for ask in plain]
        except ClaimError:
            return False  # the search says so if it comes to this
        finally:
            self._steps = 0
        sets = {rows for rows, _ in asks}
        sets.add(frozenset().union(*sets))
        return any(
            sum(count for rows, count in asks if rows <= each) > len(each)
            and not any(self._rows[row][2].is_shared for row in each)
            for each in sets
        )

    def _rows_for(self, ask: Ask) -> frozenset[int]:
        """Return the devices that a request can have, none others being chosen."""
        return frozenset(
            row
            for row, (_, _, device) in enumerate(self._rows)
            if self._is_free(0, ask, device)
            and self._is_match(ask, row)
            and tolerates_all(ask.tolerations, device)
        )

    def _number(self, ask: Ask) -> int:
        return len(self._all[id(ask)]) if ask.count == ALL else ask.count

    # -- the search --------------------------------------------------------------------------

    def _claim(self, at: int) -> bool:
        return at == len(self._claims) or self._request(at, 0)

    def _request(self, claim: int, at: int) -> bool:
        requests = self._claims[claim].requests
        if at == len(requests):
            return self._claim(claim + 1)
        request: Request = requests[at]
        for number, ask in enumerate(request.options):
            if self._number(ask) and self._devices(claim, at, ask, self._number(ask), 0):
                self._options[claim][at] = number
                return True
        return False

    def _devices(self, claim: int, at: int, ask: Ask, lacking: int, start: int) -> bool:
        """Choose devices for the rest of a request, and all that comes after it."""
        if not lacking:
            return self._request(claim, at + 1)
        if len(self._results[claim]) + lacking > MOST_RESULTS:
            return False
        if ask.count == ALL:
            row = self._all[id(ask)][start]
            if self._take(claim, ask, row, is_needed=True):
                if self._devices(claim, at, ask, lacking - 1, start + 1):
                    return True
                self._give_back(claim, ask, row)
            return False
        for row in range(start, len(self._rows)):
            is_free = self._is_free(claim, ask, self._rows[row][2])
            if is_free and self._is_match(ask, row) and self._take(claim, ask, row):
                if self._devices(claim, at, ask, lacking - 1, row + 1):
                    return True
                self._give_back(claim, ask, row)
        return False

    # -- devices -----------------------------------------------------------------------------

    def _is_free(self, claim: int, ask: Ask, device: Device) -> bool:
        mine = self._mine.get(device.identity)
        if ask.is_admin:
            return not mine or claim not in mine
        return not mine and device.identity not in self._taken.devices

    def _is_match(self, ask: Ask, row: int) -> bool:
        known = self._matched.get((id(ask), row))
        if known is None:
            self._step(ask)
            _, one, device = self._rows[row]
            known = self._matched[id(ask), row] = all(
                it.matches(device) for it in self._expressions(ask)
            ) and (
                one.place is not None
                or (device.place is not None and matches(device.place, self._site))
            )
        return known

    def _expressions(self, ask: Ask) -> list[CelSelector]:
        of_class = self._classes[ask.class_name].selectors
        return [*of_class, *(self._selectors[text] for text in ask.selectors)]

    def _step(self, ask: Ask) -> None:
        """Count a step.

        Raises:
            ClaimError: this search is too long.
            StepsSpentError: the searches together are.

        """
        self._steps += 1
        self._together.left -= 1
        if self._steps > MOST_STEPS:
            raise ClaimError(_too_long(ask))
        if self._together.left < 0:
            raise StepsSpentError

    def _take(self, claim: int, ask: Ask, row: int, *, is_needed: bool = False) -> bool:
        """Choose a device for a request; tell whether it can be had."""
        self._step(ask)
        pool, one, device = self._rows[row]
        consumed = consumed_by(ask, device)
        if (
            not self._is_free(claim, ask, device)
            or consumed is None
            or not fits(consumed, device, self._consumed_of(device))
            or not self._has_counters(pool, device)
            or not tolerates_all(ask.tolerations, device)
        ):
            return False
        if not self._go_together(claim, ask, device, is_needed=is_needed):
            return False
        self._count(claim, ask, pool, one, device, consumed)
        return True

    def _go_together(self, claim: int, ask: Ask, device: Device, *, is_needed: bool) -> bool:
        judges = self._judges[claim]
        for at, judge in enumerate(judges):
            if not judge.add(ask.name, device):
                for before in judges[:at]:
                    before.remove(ask.name)
                if is_needed:
                    what = f"request {ask.name} asks for all devices, but a constraint of its claim"
                    raise ClaimError(f"{what} does not hold with device {device.name}")
                return False
        return True

    def _count(
        self,
        claim: int,
        ask: Ask,
        pool: Pool,
        one: Slice,
        device: Device,
        consumed: Mapping[str, Quantity],
    ) -> None:
        identity = device.identity
        if not self._is_counted(device):
            self._shift(pool, device, -1)
        if device.is_shared:
            before = self._consumed.setdefault(identity, {})
            for name, amount in consumed.items():
                before[name] = before.get(name, 0) + amount.nanos
        else:
            self._mine.setdefault(identity, []).append(claim)
        part = tuple(consumed.items()) if device.is_shared else None
        self._results[claim].append(Result(ask, device, one, part))

    def _give_back(self, claim: int, ask: Ask, row: int) -> None:
        pool, _, device = self._rows[row]
        result = self._results[claim].pop()
        for judge in self._judges[claim]:
            judge.remove(ask.name)
        if result.consumed is None:
            self._mine[device.identity].remove(claim)
        else:
            before = self._consumed[device.identity]
            for name, amount in result.consumed:
                before[name] -= amount.nanos
            if not any(result.device is it.device for of in self._results for it in of):
                del self._consumed[device.identity]
        if not self._is_counted(device):
            self._shift(pool, device, 1)

    def _consumed_of(self, device: Device) -> Mapping[str, int]:
        mine = self._consumed.get(device.identity, {})
        before = self._taken.consumed.get(device.identity, {})
        return {name: mine.get(name, 0) + before.get(name, 0) for name in {*mine, *before}}

    # -- counters ----------------------------------------------------------------------------

    def _is_counted(self, device: Device) -> bool:
        """Tell whether the counters that a shared device takes are counted already."""
        identity = device.identity
        return device.is_shared and (identity in self._consumed or identity in self._taken.consumed)

    def _has_counters(self, pool: Pool, device: Device) -> bool:
        if not device.counters or self._is_counted(device):
            return True
        left = self._counters(pool)
        # Kubernetes looks at all counters of the pool, not only at those that the device takes.
        taken = {(of, name): nanos for of, name, nanos in device.counters}
        return all(nanos >= taken.get(key, 0) for key, nanos in left.items())

    def _counters(self, pool: Pool) -> dict[tuple[str, str], int]:
        key = (pool.driver, pool.name)
        left = self._left.get(key)
        if left is None:
            left = self._left[key] = dict(pool.counters)
            for device in (*(it for _, it in pool.devices), *pool.others):
                identity = device.identity
                if identity in self._taken.devices or identity in self._taken.consumed:
                    for of, name, nanos in device.counters:
                        left[of, name] -= nanos
        return left

    def _shift(self, pool: Pool, device: Device, sign: int) -> None:
        if device.counters:
            left = self._counters(pool)
            for of, name, nanos in device.counters:
                left[of, name] += sign * nanos


def tolerates_all(tolerations: Sequence[Toleration], device: Device) -> bool:
    """Tell whether all taints of a device are tolerated."""
    return all(_tolerates(tolerations, it) for it in device.taints)


def _tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    return taint.effect not in _EFFECTS or any(
        (not it.effect or it.effect == taint.effect)
        and (not it.key or it.key == taint.key)
        and (it.operator == "Exists" or (it.operator in ("", "Equal") and it.value == taint.value))
        for it in tolerations
    )


def _too_long(ask: Ask) -> str:
    return f"the search for devices of request {ask.name} took more than {MOST_STEPS:,} steps"
