"""Combines answers that people read; see :mod:`~kaisched.framework.plugins.combine`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kaisched.core.refusals import text_of
from kaisched.framework.plugins.answers import anything_goes
from kaisched.framework.plugins.combine import Combination, RowWise
from kaisched.framework.plugins.validity import flags_fault, problems_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaisched.core.axis import BoolVec
    from kaisched.framework.plugins.answers import Answers, Asked, Check


class AnyOf(RowWise):
    """A row is true if any plugin answers true."""

    name = "any"
    check = staticmethod(flags_fault)
    fails = "It says so of no row."
    without = "no row is"

    def add(self, before: BoolVec | None, said: BoolVec) -> BoolVec:
        """Let a row be true for either."""
        return said if before is None else before | said


class OfOwner(Combination):
    """The answer of the plugin that owns the refusal, which is the question's last argument."""

    name = "owner"

    def __init__(
        self,
        fault: Check = anything_goes,
        *,
        without: str,
        fails: str,
        is_listed: bool = False,
        instead: Callable[[Asked], Any] = lambda _: None,
    ) -> None:
        """Declare the combination for a question.

        Args:
            fault: returns what is wrong with an answer, or an empty string.
            without: what holds without an answer, in the words of the reference.
            fails: what happens when the answer fails.
            is_listed: the answer is an iterable, which is read into a list.
            instead: returns the substitute for an answer that fails.

        """
        super().__init__()
        self.fault, self.without, self.fails = fault, without, fails
        self._is_listed, self._instead = is_listed, instead

    def instead(self, against: Asked) -> Any:
        """Return the substitute for an answer that fails."""
        return self._instead(against)

    def over(self, answers: Answers) -> Callable[..., Any]:
        """Return the owner's answer, None without any."""
        if self._is_listed:
            answers = tuple(replace(each, call=partial(_listed, each.call)) for each in answers)
        by_plugin = {answer.plugin: answer for answer in answers}

        def ask(*asked: Any) -> Any:
            answer = by_plugin.get(text_of(int(asked[-1])).plugin)
            return None if answer is None else answer.ask(self, asked, asked)

        return ask


def _listed(function: Callable[..., Any], *asked: Any) -> list[Any]:
    return list(function(*asked) or ())


class FirstOfEach(Combination):
    """For each row, the answer of the first plugin that names the row."""

    name = "first of each"
    check = staticmethod(problems_fault)
    fails = "It says nothing of any."
    without = "nothing is said"

    def over(self, answers: Answers) -> Callable[..., dict[int, Any]]:
        """Return the answers, by row."""

        def ask(*asked: Any) -> dict[int, Any]:
            found: dict[int, Any] = {}
            for answer in answers:
                for row, said in (answer.ask(self, asked, asked) or {}).items():
                    found.setdefault(row, said)
            return found

        return ask


class Lines(Combination):
    """All lines, in plugin order."""

    name = "lines"
    fails = "The check of results fails with it."
    without = "none"

    def over(self, answers: Answers) -> Callable[..., Iterator[str]]:
        """Yield the lines of all plugins; failures pass, since no decision depends on the lines."""

        def ask(*asked: Any) -> Iterator[str]:
            for answer in answers:
                yield from answer.call(*asked) or ()

        return ask
