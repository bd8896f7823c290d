"""What a request is answered with: a page, or a watch that goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kaisched_apiserver.resources import Resource
from kaisched_apiserver.selectors import Matches
from kaisched_apiserver.statuses import ApiError
from kaisched_apiserver.storage import Change, Record
from kaisched_apiserver.views import Form

JSON_TYPE = "application/json"


class Answer(NamedTuple):
    """A page."""

    status: int
    body: bytes
    content_type: str = JSON_TYPE
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class WatchAnswer:
    """A stream of the changes after a version.

    ``replay`` is what the stream begins with: changes that have happened, or objects that exist
    already. With ``error`` it says that and ends.
    """

    resource: Resource
    namespace: str
    matches: Matches | None
    form: Form
    include: str
    has_bookmarks: bool
    is_marking_start: bool
    """A bookmark tells where the objects end that existed already."""
    timeout_s: float
    version: int
    """Only changes after it belong to the stream, beside the replayed ones."""
    replay: Sequence[Change | Record] = ()
    error: ApiError | None = None


def refused(error: ApiError) -> Answer:
    """Return the page of an error."""
    headers = (("Retry-After", str(error.retry_after_s)),) if error.retry_after_s else ()
    return Answer(error.code, error.body(), headers=headers)
