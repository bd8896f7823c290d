"""Why a job waits or a queue cannot be used: sentences for people, numbers for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Reason(NamedTuple):
    """Why a plugin refuses a job."""

    sentence: str
    numbers: Mapping[str, Any] = {}
    """What programs may read: names in camelCase, amounts in base units."""


class Problem(NamedTuple):
    """What hinders a queue."""

    name: str
    """The reason of its condition, in CamelCase."""
    message: str
    """What is wrong, and what would cure it."""
