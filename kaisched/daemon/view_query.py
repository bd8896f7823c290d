"""Queries of the live view's pages: values of parameters, and errors that say what to write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaisched.errors import ConfigError
from kaisched.objects.faults import did_you_mean
from kaisched.view import jobs, nodes
from kaisched.view.paths import MOST, USUAL, Part
from kaisched.view.queues import row_of_queue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaisched.view.reading import Reading

_MOST_TEXT: Final = 300
_TRUE: Final = ("", "1", "true")
_FALSE: Final = ("0", "false")


class Query:
    """The parameters of one request, each the first of its name."""

    def __init__(self, given: Mapping[str, list[str]]) -> None:
        """Keep what was given."""
        self._given = {name: values[0] for name, values in given.items() if values}

    def text(self, name: str) -> str:
        """Return a text; empty without one.

        Raises:
            ConfigError: it is too long to be a name.

        """
        value = self._given.get(name, "")
        if len(value) > _MOST_TEXT:
            raise ConfigError("too long", path=name, value=value, fix="write a name")
        return value

    def number(self, name: str, usual: int, least: int, most: int) -> int:
        """Return a whole number.

        Raises:
            ConfigError: it is none, or out of range.

        """
        text = self._given.get(name)
        if text is None:
            return usual
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1  # noqa: PLR2004
        if not least <= number <= most:
            fix = f"write a number from {least} to {most}"
            raise ConfigError("no such number", path=name, value=text, fix=fix)
        return number

    def flag(self, name: str) -> bool:
        """Tell whether a flag is set: ``?name`` or ``?name=true``.

        Raises:
            ConfigError: it is neither set nor unset.

        """
        text = self._given.get(name, "false")
        if text not in (*_TRUE, *_FALSE):
            fix = "write true or false"
            raise ConfigError("no such word", path=name, value=text, fix=fix)
        return text in _TRUE

    def word(self, name: str, words: tuple[str, ...], usual: str = "") -> str:
        """Return one of some words.

        Raises:
            ConfigError: it is another one.

        """
        text = self._given.get(name, usual)
        if text and text not in words:
            raise ConfigError("no such word", path=name, value=text, fix=did_you_mean(text, words))
        return text

    def part(self) -> Part:
        """Return which part of a list is wanted."""
        return Part(self.number("offset", 0, 0, 10**8), self.number("limit", USUAL, 1, MOST))

    def queue(self, reading: Reading) -> int:
        """Return the row of the queue that is wanted, -1 for any.

        Raises:
            ConfigError: there is no such queue.

        """
        name = self.text("queue")
        return row_of_queue(reading, name) if name else -1

    def jobs(self, reading: Reading) -> jobs.Wanted:
        """Return which jobs are wanted."""
        sorts = (*jobs.SORTS, *(f"-{word}" for word in jobs.SORTS))
        return jobs.Wanted(
            self.queue(reading),
            self.text("reason"),
            self.word("state", (*jobs.STATES, jobs.WAITING)),
            self.text("namespace"),
            self.text("name"),
            self.word("sort", sorts, "order"),
            self.part(),
        )

    def nodes(self, reading: Reading) -> nodes.Wanted:
        """Return which nodes are wanted."""
        return nodes.Wanted(self.text("name"), self.queue(reading), self.part())
