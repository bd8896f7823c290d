"""Why a job waits or a queue cannot be used: sentences for people, numbers for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Reason(NamedTuple):
    """Why a plugin refuses a job."""

    sentence: str
    numbers: Mapping[str, Any] = {}
    """Numbers for programs: names in camelCase, amounts in base units."""


class Problem(NamedTuple):
    """Why a queue cannot be used."""

    name: str
    """The reason of the queue's condition, in CamelCase."""
    message: str
    """The problem and its cure."""
