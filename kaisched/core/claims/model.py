"""Devices that nodes offer and claims ask for, as plain values; amounts are exact.

Names are those of the resource.k8s.io API. An amount is a whole number of billionths, the smallest
part that a Kubernetes quantity can have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from kaisched.core.constraints import NodeTerm

# -- values ----------------------------------------------------------------------------------------
# Names are those of the resource.k8s.io API. An amount is a whole number of billionths, the
# smallest part that a Kubernetes quantity can have.

NANOS: Final = 10**9
MOST_CONSUMERS: Final = 256
"""Most pods that may use one claim."""
MOST_RESULTS: Final = 32
"""Most devices of one claim: more do not fit into its status."""
ALL: Final = -1
"""In place of a count: every device that matches."""

Identity = tuple[str, str, str]
"""Driver, pool and name of a device."""


class ClaimError(Exception):
    """A claim that cannot be allocated as things are; the text says why, for its user."""


class Quantity(NamedTuple):
    """An amount with the way in which it is written."""

    nanos: int
    is_binary: bool = False
    """Written with Ki, Mi and so on."""
    exponent: str = ""
    """The letter before the exponent if it is written with one, as in 5e9 or 5E9."""


class Value(NamedTuple):
    """An attribute: its kind is int, bool, string or version; None for one that is unknown."""

    kind: str
    value: int | bool | str | None


class Policy(NamedTuple):
    """Which amounts of a capacity can be asked of a device that several claims share."""

    default: Quantity | None = None
    values: tuple[Quantity, ...] = ()
    least: Quantity | None = None
    most: Quantity | None = None
    step: Quantity | None = None
    has_range: bool = False


class Capacity(NamedTuple):
    """How much of something a device has."""

    value: Quantity
    policy: Policy | None = None


class Taint(NamedTuple):
    """Keeps claims without a matching toleration away from a device."""

    key: str
    value: str
    effect: str


class Toleration(NamedTuple):
    """A taint of devices that a request tolerates."""

    key: str
    operator: str
    value: str
    effect: str
    seconds: int | None = None


class Place(NamedTuple):
    """Nodes from which devices can be used; with nothing set, none."""

    node: str = ""
    is_everywhere: bool = False
    term: NodeTerm | None = None


class Site(NamedTuple):
    """A node, as far as it decides which devices can be used from it."""

    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """A device of a slice."""

    driver: str
    pool: str
    name: str
    attributes: Mapping[str, Value] = field(default_factory=dict)
    """By name as written; a name without a domain belongs to the driver's."""
    capacities: Mapping[str, Capacity] = field(default_factory=dict)
    counters: tuple[tuple[str, str, int], ...] = ()
    """(set, counter, billionths) that it takes of its pool."""
    taints: tuple[Taint, ...] = ()
    place: Place | None = None
    """Where it can be used, if the slice leaves this to its devices."""
    is_bound_to_node: bool = False
    conditions: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    is_shared: bool = False
    """Several claims may have it at once, each with a part of its capacity."""

    @property
    def identity(self) -> Identity:
        """Driver, pool and name, which no other device has."""
        return self.driver, self.pool, self.name

    def attribute(self, name: str) -> Value | None:
        """Return the value of an attribute by its full name, None without it."""
        found = self.attributes.get(name)
        if found is None:
            domain, _, rest = name.partition("/")
            found = self.attributes.get(rest) if rest and domain == self.driver else None
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """Devices that a driver has published together, or counters that they share."""

    name: str
    driver: str
    pool: str
    generation: int
    slices: int
    """How many slices the pool has in this generation."""
    place: Place | None = None
    """None leaves the place to each device."""
    devices: tuple[Device, ...] = ()
    counters: tuple[tuple[str, str, int], ...] = ()
    """(set, counter, billionths) that the devices of the pool take from."""
    counter_sets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for devices, or one alternative of it."""

    name: str
    """``request`` or ``request/alternative``, as in the result."""
    class_name: str
    selectors: tuple[str, ...] = ()
    count: int = 1
    """ALL for every device that matches."""
    is_admin: bool = False
    tolerations: tuple[Toleration, ...] = ()
    capacity: tuple[tuple[str, Quantity], ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a claim; of several alternatives the first that can be had is taken."""

    name: str
    options: tuple[Ask, ...]
    is_choice: bool = False


@dataclass(frozen=True, slots=True)
class Constraint:
    """An attribute that is the same on all devices of some requests, or different on each."""

    requests: tuple[str, ...]
    """None means all requests."""
    attribute: str
    is_distinct: bool = False

    def concerns(self, request: str) -> bool:
        """Tell whether devices of a request, or of an alternative of it, are concerned."""
        names = self.requests
        return not names or request in names or request.partition("/")[0] in names


class Config(NamedTuple):
    """Settings for the driver, for some requests of a claim or for all."""

    requests: tuple[str, ...]
    opaque: bytes
    """As JSON."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a claim asks for; equal claims are equal values."""

    requests: tuple[Request, ...]
    constraints: tuple[Constraint, ...] = ()
    configs: tuple[Config, ...] = ()


@dataclass(slots=True)
class Taken:
    """What claims have already."""

    devices: set[Identity] = field(default_factory=set)
    """Devices that belong to one claim."""
    consumed: dict[Identity, dict[str, int]] = field(default_factory=dict)
    """By shared device and capacity, what claims have of it."""

    def copy(self) -> Taken:
        """Return a copy that can be changed on its own."""
        return Taken(set(self.devices), {key: dict(of) for key, of in self.consumed.items()})


class Result(NamedTuple):
    """A device of a claim."""

    ask: Ask
    device: Device
    slice: Slice
    consumed: tuple[tuple[str, Quantity], ...] | None = None
    """What it gets of a shared device; None for a device of its own."""


class Allocation(NamedTuple):
    """What a claim gets."""

    results: tuple[Result, ...]
    class_configs: tuple[tuple[tuple[str, ...], bytes], ...]
    claim_configs: tuple[Config, ...]
    node: str
    """The only node where it can be used; empty if it is not bound to one."""
    term: NodeTerm | None
    """Requirements on nodes where it can be used; None for all nodes or the one named."""


# -- quantities ------------------------------------------------------------------------------------

_QUANTITY: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]{0,30})(?:\.(?P<part>[0-9]{0,30}))?"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<power>[+-]?[0-9]{1,3}))?",
    re.ASCII,
)
_TENS: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_TWOS: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_MOST_POWER: Final = 30


def nanos_of(text: str) -> int:
    """Read a quantity in billionths; raise a ClaimError for a text that is none."""
    match = _QUANTITY.fullmatch(text)
    digits = "" if match is None else match["whole"] + (match["part"] or "")
    if match is None or not digits:
        raise ClaimError(f"{text[:40]!r} is no quantity")
    suffix = match["suffix"] or ""
    power = int(match["power"]) if match["power"] else _TENS.get(suffix, 0)
    ten = max(-_MOST_POWER, min(power, _MOST_POWER)) - len(match["part"] or "")
    whole = (int(digits) << _TWOS.get(suffix, 0)) * NANOS * 10 ** max(ten, 0)
    nanos: int = -(-whole // 10 ** max(-ten, 0))
    return -nanos if match["sign"] == "-" else nanos


# -- profiles --------------------------------------------------------------------------------------

Named: TypeAlias = tuple[tuple[str, str], ...] | None
"""The fields that an expression names, as (``attributes`` or ``capacity``, name); None for all."""


def profile_of(device: Device, named: Named) -> tuple[Any, ...]:
    """Return what an expression sees of a device; all of it if it does not name what it needs."""
    start = device.driver, device.is_shared
    if named is None:
        capacities = ((name, it.value.nanos) for name, it in device.capacities.items())
        return (*start, tuple(sorted(device.attributes.items())), tuple(sorted(capacities)))
    return (*start, *(_field(device, kind, name) for kind, name in named))


def _field(device: Device, kind: str, name: str) -> Any:
    if kind == "attributes":
        return device.attribute(name)
    found = device.capacities.get(name)
    if found is None:
        domain, _, rest = name.partition("/")
        found = device.capacities.get(rest) if domain == device.driver else None
    return None if found is None else found.value.nanos
