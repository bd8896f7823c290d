"""Why a job waits, pods go, or a queue cannot be used: sentences for people, words for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Reason(NamedTuple):
    """Why a plugin refuses a job."""

    sentence: str
    numbers: Mapping[str, Any] = {}
    """Numbers for programs: names in camelCase, amounts in base units."""


class EvictionReason(NamedTuple):
    """Why the pods of a plan are evicted."""

    sentence: str
    kinds: Mapping[int, str] = {}
    """What entitles the claim, by the row of each queue that loses: one of the plugin's
    ``eviction_kinds``. A queue that is left out gets the name of the action."""


class Problem(NamedTuple):
    """Why a queue cannot be used."""

    name: str
    """The reason of the queue's condition, in CamelCase."""
    message: str
    """The problem and its cure."""


class LeftOut(NamedTuple):
    """Demand of a queue that could not be met if nothing else ran, and counts for no share."""

    amounts: Mapping[str, int]
    """By resource name in base units."""
    reason: str
    """Name of the refusal of most of its jobs."""
    message: str
