"""Evaluates the forms of the Common Expression Language (CEL) that selectors of devices use.

What is not understood is left to the library for CEL, where it is installed, and otherwise refused
by name before the first device is looked at. Each expression is evaluated once for all devices that
are alike in the attributes and capacities that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from kaisched.core.claims import cel_library
from kaisched.core.claims.cel_functions import call, is_known
from kaisched.core.claims.cel_tree import Node, tree_of
from kaisched.core.claims.cel_values import Unreadable, compare, fields_of, is_equal
from kaisched.core.claims.model import ClaimError, Device, Named, profile_of

_Names = Mapping[str, Any]
_MOST_PROFILES: Final = 100_000
_PLAIN: Final = ("driver", "allowMultipleAllocations")
_MACROS: Final = ("all", "exists", "exists_one")
_ORDER: Final = {
    "<": (-1,),
    "<=": (-1, 0),
    ">": (1,),
    ">=": (0, 1),
}
_LONG: Final = 2
_STEPS: Final = ""
"""Among the names, which are never empty: a list with the steps that are left."""
MOST_STEPS: Final = 100_000
"""Steps of one evaluation, less than 0.1 s: nested macros multiply, and ``a + a`` in nested
``bind`` doubles a text each time. A value is a step, and so is each character or element that an
operator or function is given."""
_NUMBERS: Final = 1 << 63
"""Whole numbers are less than this, and not less than its negative."""


class CelSelector:
    """A selector, with the answers for the devices seen."""

    def __init__(self, text: str) -> None:
        """Parse the expression; one that cannot be evaluated fails when it is asked."""
        self.text = text
        self._answers: dict[tuple[Any, ...], bool | str] = {}
        self.fault = ""
        """Why the expression cannot be evaluated for any device; empty if it can."""
        self.named: Named = None
        """The fields on which the answer depends; None for all."""
        try:
            tree = tree_of(text)
            named = _named(tree)
            self.named = None if named is None else tuple(sorted(named))
            _check(tree, frozenset({"device"}))
            self._answer: cel_library.Answer = partial(_answer, tree)
        except ClaimError as error:
            self._answer = self._by_library(str(error))

    def matches(self, device: Device) -> bool:
        """Tell whether a device matches.

        Raises:
            ClaimError: the expression fails for the device, or is not understood.

        """
        if self.fault:
            raise ClaimError(self.fault)
        profile = profile_of(device, self.named)
        answer = self._answers.get(profile)
        if answer is None:
            if len(self._answers) >= _MOST_PROFILES:
                self._answers.clear()
            answer = self._answers[profile] = self._evaluated(device)
        if isinstance(answer, str):
            raise ClaimError(answer)
        return answer

    def _by_library(self, why: str) -> cel_library.Answer:
        """Compile what is not understood here, as ``why`` says, by the library."""
        try:
            answer = cel_library.expression(self.text)
        except ClaimError as error:
            answer, why = None, str(error)
        if answer is None:
            self.fault = f"selector {self.text!r}: {why}"
        return answer or (lambda _: False)

    @property
    def profiles(self) -> int:
        """For how many kinds of devices the expression was evaluated."""
        return len(self._answers)

    def _evaluated(self, device: Device) -> bool | str:
        try:
            answer = self._answer(device)
        except ClaimError as error:
            return f"selector {self.text!r}: {error}"
        return (
            answer if isinstance(answer, bool) else f"selector {self.text!r} is not true or false"
        )


# -- before evaluation ---------------------------------------------------------------------------


def _check(node: Node, names: frozenset[str]) -> None:
    """Raise a ClaimError if anything in a tree cannot be evaluated."""
    below = node.below
    if node.kind == "name" and node.value not in names:
        raise ClaimError(f"there is no variable {node.value}")
    if node.kind == "call" and node.value == "has":
        if len(below) != 1 or below[0].kind != "member":
            raise ClaimError("has() takes a field")
    elif _is_bind(node):
        _check(below[2], names)
        _check(below[3], names | {str(below[1].value)})
        return
    elif node.kind == "method" and node.value in _MACROS:
        if len(below) != _LONG + 1 or below[1].kind != "name":
            raise ClaimError(f"{node.value}() takes a variable and a condition")
        _check(below[0], names)
        _check(below[2], names | {str(below[1].value)})
        return
    elif node.kind in ("call", "method") and not is_known(str(node.value)):
        raise ClaimError(f"the function {node.value} is not understood")
    for each in below:
        _check(each, names)


def _is_bind(node: Node) -> bool:
    below = node.below
    return (
        (node.kind, node.value) == ("method", "bind")
        and below[0] == Node("name", "cel")
        and len(below) == _LONG + 2
        and below[1].kind == "name"
    )


def _named(node: Node) -> set[tuple[str, str]] | None:
    """Return the (attributes or capacity, full name) that a tree reads; None if it may read all."""
    found = _field_read(node)
    if found is not None:
        return found
    if node.kind == "name" and node.value == "device":
        return None
    names: set[tuple[str, str]] = set()
    for each in node.below:
        below = _named(each)
        if below is None:
            return None
        names |= below
    return names


def _field_read(node: Node) -> set[tuple[str, str]] | None:
    """Return what a node reads if it is ``device.attributes[domain].name`` or the like."""
    device = Node("name", "device")
    if node.kind == "member" and node.below == (device,) and node.value in _PLAIN:
        return set()
    if node.kind not in ("member", "index"):
        return None
    name = node.value if node.kind == "member" else _constant(node.below[1])
    domain = node.below[0]
    if name is None or domain.kind != "index":
        return None
    parent, of = domain.below[0], _constant(domain.below[1])
    if of is None or parent.kind != "member" or parent.below != (device,):
        return None
    return {(str(parent.value), f"{of}/{name}")}


def _constant(node: Node) -> str | None:
    return node.value if node.kind == "const" and isinstance(node.value, str) else None


# -- evaluation ----------------------------------------------------------------------------------


def _answer(tree: Node, device: Device) -> Any:
    return _value(tree, {"device": fields_of(device), _STEPS: [MOST_STEPS]})


def _value(node: Node, names: _Names) -> Any:
    _step(names, 1)
    evaluate = _KINDS.get(node.kind)
    if evaluate is not None:
        return evaluate(node, names)
    left, right = _given(node, names)
    return _operated(node.kind, left, right)


def _given(node: Node, names: _Names) -> list[Any]:
    """Return what an operator or function is given."""
    given = [_value(each, names) for each in node.below]
    _step(names, sum(len(each) for each in given if isinstance(each, str | list)))
    return given


def _step(names: _Names, steps: int) -> None:
    left: list[int] = names[_STEPS]
    left[0] -= steps
    if left[0] < 0:
        raise ClaimError(f"it takes more than {MOST_STEPS:,} steps for a device")


def _chosen(node: Node, names: _Names) -> Any:
    condition, then, other = node.below
    return _value(then if _truth(_value(condition, names)) else other, names)


def _called(node: Node, names: _Names) -> Any:
    below = node.below
    if node.kind == "call" and node.value == "has":
        target = _value(below[0].below[0], names)
        if not isinstance(target, dict):
            raise ClaimError("no such overload: has")
        return below[0].value in target
    if node.kind == "method" and _is_bind(node):
        return _value(below[3], {**names, str(below[1].value): _value(below[2], names)})
    if node.kind == "method" and node.value in _MACROS:
        return _macro(node, names)
    return call(str(node.value), _given(node, names))


def _macro(node: Node, names: _Names) -> bool:
    listed = _value(node.below[0], names)
    if not isinstance(listed, list | dict):
        raise ClaimError(f"no such overload: {node.value}")

    def answers() -> Iterator[bool]:
        for each in listed:
            yield _truth(_value(node.below[2], {**names, str(node.below[1].value): each}))

    if node.value == "all":
        return all(answers())
    return any(answers()) if node.value == "exists" else sum(answers()) == 1


def _joined(below: tuple[Node, ...], names: _Names, *, end: bool) -> bool:
    """Return the answer of && or ||: one side may decide although the other fails."""
    fault: ClaimError | None = None
    for each in below:
        try:
            if _truth(_value(each, names)) is end:
                return end
        except ClaimError as error:
            fault = fault or error
    if fault is not None:
        raise fault
    return not end


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ClaimError("no such overload: a condition is not true or false")
    return value


def _at(target: Any, key: Any) -> Any:
    if isinstance(target, dict) and isinstance(key, str):
        try:
            found = target[key]
        except KeyError:
            raise ClaimError(f"no such key: {key}") from None
        if isinstance(found, Unreadable):
            raise ClaimError(found.why)
        return found
    if isinstance(target, list) and isinstance(key, int) and not isinstance(key, bool):
        if 0 <= key < len(target):
            return target[key]
        raise ClaimError(f"index out of bounds: {key}")
    raise ClaimError("no such overload: this value has no fields")


def _operated(sign: str, left: Any, right: Any) -> Any:
    if sign in ("==", "!="):
        return is_equal(left, right) is (sign == "==")
    if sign in _ORDER:
        return compare(left, right) in _ORDER[sign]
    if sign == "in":
        if isinstance(right, list):
            return any(is_equal(left, each) for each in right)
        if isinstance(right, dict):
            return left in right
    return _arithmetic(sign, left, right)


def _arithmetic(sign: str, left: Any, right: Any) -> Any:
    if type(left) is not type(right) or not isinstance(left, int | float | str | list):
        raise ClaimError(f"no such overload: {sign}")
    if sign == "+" and not isinstance(left, bool):
        return _bounded(left + right)
    if isinstance(left, bool | str | list):
        raise ClaimError(f"no such overload: {sign}")
    if sign in ("/", "%"):
        return _divided(sign, left, right)
    return _bounded(left - right if sign == "-" else left * right)


def _bounded(value: Any) -> Any:
    if isinstance(value, int) and not -_NUMBERS <= value < _NUMBERS:
        raise ClaimError("the result is no 64-bit number")
    return value


def _divided(sign: str, left: Any, right: Any) -> Any:
    if isinstance(left, float) and sign == "/" and right:
        return left / right
    if isinstance(left, float) or not right:
        raise ClaimError("division by zero" if not right else "no such overload: %")
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return quotient if sign == "/" else left - right * quotient


_KINDS: Final[dict[str, Callable[[Node, _Names], Any]]] = {
    "const": lambda node, _: node.value,
    "name": lambda node, names: names[str(node.value)],
    "member": lambda node, names: _at(_value(node.below[0], names), node.value),
    "index": lambda node, names: _at(*(_value(each, names) for each in node.below)),
    "list": lambda node, names: [_value(each, names) for each in node.below],
    "not": lambda node, names: not _truth(_value(node.below[0], names)),
    "minus": lambda node, names: _operated("-", 0, _value(node.below[0], names)),
    "if": _chosen,
    "&&": lambda node, names: _joined(node.below, names, end=False),
    "||": lambda node, names: _joined(node.below, names, end=True),
    "call": _called,
    "method": _called,
}
