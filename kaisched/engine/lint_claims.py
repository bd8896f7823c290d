"""Linter of claims: device classes that the files do not have, and selectors with faults.

Where there is no DeviceClass among the files, none is missed: the cluster may have it. A selector
that is only not understood here may be right for other schedulers, and is no error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kaisched.core.claims.selectors import MISSING, CelSelector
from kaisched.errors import ObjectError
from kaisched.objects.devices import (
    DeviceClass,
    DeviceSelector,
    ExactRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)
from kaisched.objects.faults import Fault, Path, Source, did_you_mean, to_error
from kaisched.objects.load import identity_of

if TYPE_CHECKING:
    from kaisched.objects.load import Loaded, Manifest

_PARSE: Final = "write an expression of CEL, such as device.driver == 'gpu.example.com'"
_WAIT: Final = "claims with it wait"


class Wrong(NamedTuple):
    """Something in a claim or class that is wrong, or may be."""

    rule: str
    error: ObjectError
    is_error: bool = True


def claim_doubts(loaded: Loaded) -> Iterator[Wrong]:
    """Yield what is wrong with the classes and selectors that claims and classes name."""
    known = {it.name for it in loaded.of(DeviceClass)}
    unusable = {it.name for it in loaded.problems if it.kind == DeviceClass.KIND}  # told already
    selectors: dict[str, Fault | None] = {}
    faulty = ((obj, source) for obj, source in loaded.faulty)
    listed = ((obj, loaded.sources.get(identity_of(obj), Source())) for obj in loaded.objects)
    for obj, source in (*listed, *faulty):
        found: list[tuple[str, Fault]] = []
        for path, ask in _asks(obj):
            if known and ask.device_class_name not in known | unusable:
                fault = _unknown(path, ask.device_class_name, sorted(known | unusable))
                found.append(("unknown-class", fault))
            found += (("selector", it) for it in _selectors(path, ask.selectors, selectors))
        if isinstance(obj, DeviceClass):
            path, listed_here = ("spec",), obj.spec.selectors
            found += (("selector", it) for it in _selectors(path, listed_here, selectors))
        for rule, fault in found:
            error = to_error(fault, source, *identity_of(obj))
            yield Wrong(rule, error, not fault.is_warning)


def _unknown(path: Path, name: str, known: list[str]) -> Fault:
    what = "no such DeviceClass among the files"
    return Fault((*path, "deviceClassName"), what, name, did_you_mean(name, known))


def _asks(obj: Manifest) -> Iterator[tuple[Path, ExactRequest]]:
    """Yield each request of a claim or template, and each alternative of one, with its path."""
    spec: ResourceClaimSpec | None = None
    path: Path = ("spec",)
    if isinstance(obj, ResourceClaim):
        spec = obj.spec
    elif isinstance(obj, ResourceClaimTemplate):
        spec, path = obj.spec.spec, ("spec", "spec")
    for at, request in enumerate(() if spec is None else spec.devices.requests):
        where = (*path, "devices", "requests", at)
        if request.exactly is not None:
            yield (*where, "exactly"), request.exactly
        for number, option in enumerate(request.first_available):
            yield (*where, "firstAvailable", number), option


def _selectors(
    path: Path, listed: Sequence[DeviceSelector], known: dict[str, Fault | None]
) -> Iterator[Fault]:
    """Yield what is wrong with selectors; ``known`` has what was found about each text."""
    for at, selector in enumerate(listed):
        if selector.cel is None:
            continue  # of a kind that a later version may have
        text = selector.cel.expression
        if text not in known:
            known[text] = _about(text)
        found = known[text]
        if found is not None:
            yield found._replace(path=(*path, "selectors", at, "cel", "expression"))


def _about(text: str) -> Fault | None:
    """Return what is wrong with an expression, or may be."""
    selector = CelSelector(text)
    if not selector.fault:
        return None
    why = selector.fault.removeprefix(f"selector {text!r}: ")
    if not selector.is_syntax:
        return Fault((), f"does not parse: {why}", text, _PARSE)
    fix = "install it, or lint where it is" if why == MISSING else f"{_WAIT}: write it another way"
    return Fault(
        (), f"not understood here, though it may be right: {why}", text, fix, is_warning=True
    )
