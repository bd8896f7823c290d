"""Attributes worked out when first asked for, without the lock of ``functools.cached_property``.

Python 3.11 takes a lock each time one is filled, 1 us in place of 0.3; nothing that has such an
attribute is shared by threads while it is filled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 - a decorator, named like property
    """Turn a method into an attribute that is worked out once; it may be deleted, to start anew."""

    def __init__(self, work_out: Callable[[Any], T]) -> None:
        """Decorate a method without arguments of a class that has a ``__dict__``."""
        self._work_out = work_out
        self.__doc__ = work_out.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        """Remember under which name to keep the value."""
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> T | Self:
        """Work the value out and keep it where the next look finds it before this descriptor."""
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._work_out(instance)
        return value
