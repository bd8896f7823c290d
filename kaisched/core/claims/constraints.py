"""Judges whether devices of a claim go together by their attributes."""

from __future__ import annotations

from kaisched.core.claims.model import Constraint, Device, Value


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
