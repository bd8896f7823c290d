"""Declares questions: methods of the specification, each with a combination of answers."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pluggy

from kaisched.framework.plugins.combine import First

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaisched.framework.plugins.answers import Promise
    from kaisched.framework.plugins.combine import Combination

PROJECT: Final = "kaisched"

_F = TypeVar("_F", bound="Callable[..., Any]")
_declared: dict[str, Combination] = {}
QUESTIONS: Final[Mapping[str, Combination]] = MappingProxyType(_declared)
"""Every question by name, in the order of the specification, and how its answers combine."""
_spec = pluggy.HookspecMarker(PROJECT)
_impl = pluggy.HookimplMarker(PROJECT)


def hookimpl(function: _F) -> _F:
    """Mark a method as a plugin's answer to the question of the same name.

    It takes no options: plugins are asked in the shard file's order, so ``tryfirst``, ``trylast``
    and wrappers do not exist here (the loader refuses them when pluggy's own marker sets them).
    """
    return _impl(function)


def question(combine: Combination, unless: Promise | None = None) -> Callable[[_F], _F]:
    """Declare a question: how answers combine, and the promise by which a plugin is not asked."""

    def declare(function: _F) -> _F:
        combine.declare(function, unless)
        _declared[function.__name__] = combine
        return _spec(firstresult=isinstance(combine, First))(function)

    return declare
