"""What a record says of a job that has no room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kaisched.framework.report.records import NodeRefusal


class Lack(NamedTuple):
    """The part of a record about room."""

    code: int
    message: str
    numbers: dict[str, Any]
    refused: tuple[NodeRefusal, ...]
