"""Combines the answers of several plugins to one question, with substitutes for failed answers.

Each question declares a combination, see :mod:`~kaisched.framework.plugins.questions`. The function
that asks is made from the declaration. The reference prints the first line of each class.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from kaisched.core.refusals import Refusal
from kaisched.errors import PluginContractError
from kaisched.framework.plugins.answers import Rule, anything_goes, told
from kaisched.framework.plugins.validity import (
    code_fault,
    keys_fault,
    room_fault,
    score_fault,
    stale_fault,
    weights_fault,
)
from kaisched.framework.plugins.workload_rows import rows_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kaisched.core.axis import CodeVec, FloatVec, IntVec, RowVec
    from kaisched.framework.plugins.answers import Answer, Answers, Asked, Check, Promise

    Columns = list[IntVec | FloatVec]

_FAILED: Final = int(Refusal.PLUGIN_FAILED)
_NOTHING: Final = object()
"""Marks a plugin without state; None may be a plugin's state."""
_ABANDONED: Final = (
    "The cycle is abandoned: no intents, the old facts stay, every waiting job says why."
)


class Combination(Rule):
    """One way in which answers combine, with a substitute for an answer that fails."""

    name: ClassVar[str]
    check: ClassVar[staticmethod[[Any, Any], str]] = staticmethod(anything_goes)
    """Returns what is wrong with an answer, or an empty string."""
    fails: str
    """What happens when an answer fails, in the words of the reference."""
    without: str = ""
    """What holds without any answer, in the words of the reference."""

    def __init__(self, rows: str = "", *, abandons: str = "") -> None:
        """Declare the combination for a question.

        Args:
            rows: the argument with the rows asked about, if an answer has a row for each.
            abandons: what cannot be computed without a failed answer.

        """
        super().__init__(self.check, abandons)
        self.rows = rows
        self.parameters: tuple[str, ...] = ()
        """The question's arguments, the session first."""
        self.at = 0
        """The place of the rows among the arguments."""
        self.promise: Promise | None = None

    def declare(self, question: Callable[..., object], promise: Promise | None) -> None:
        """Take the question's arguments, and the promise by which plugins are left out."""
        self.parameters = tuple(inspect.signature(question).parameters)[1:]
        self.at = self.parameters.index(self.rows) if self.rows else 0
        self.promise = promise

    @property
    def meaning(self) -> str:
        """How answers combine, in the words of the reference."""
        return (inspect.getdoc(type(self)) or "").partition("\n\n")[0]

    def over(self, answers: Answers) -> Callable[..., Any]:
        """Return a function that takes the question's arguments and combines these answers."""
        raise NotImplementedError


class RowWise(Combination):
    """Answers that have a row for each row asked about."""

    def add(self, before: Any, said: Any) -> Any:
        """Combine one more answer with ``before``, which is None for the first."""
        raise NotImplementedError

    def over(self, answers: Answers) -> Callable[..., Any]:
        """Return all answers combined, or None without any."""
        at, add = self.at, self.add

        def ask(*asked: Any) -> Any:
            count, result = len(asked[at]), None
            for answer in answers:
                said = answer.ask(self, asked, count)
                if said is not None:
                    result = add(result, said)
            return result

        return ask


class FirstRefusal(RowWise):
    """Codes, 0 for no objection; each row gets the first other code in plugin order."""

    name = "first refusal"
    check = staticmethod(code_fault)
    fails = "Closed: every row asked about is refused with `PluginFailed`."
    without = "no objection"

    def instead(self, against: int) -> CodeVec:
        """Close the gate for every row."""
        return np.full(against, _FAILED, np.int16)

    def add(self, before: CodeVec | None, said: CodeVec) -> CodeVec:
        """Keep the first refusal of each row."""
        codes = said.astype(np.int16, copy=False)
        return codes if before is None else np.where(before != 0, before, codes)


class FirstRefusalInTurn(FirstRefusal):
    """As *first refusal*, but a plugin is not asked about rows that an earlier plugin refuses."""

    name = "first refusal, in turn"

    def over(self, answers: Answers) -> Callable[..., CodeVec]:
        """Return codes ``(K,)``; the last argument has the codes of rows refused beforehand, or 0.

        Plugins get, as the last argument, which rows are not refused so far.
        """
        at = self.at

        def ask(*asked: Any) -> CodeVec:
            *given, codes = asked
            count = len(asked[at])
            for answer in answers:
                taken = codes == 0
                said = answer.ask(self, (*given, taken), count)
                if said is not None:
                    codes = self.add(codes, said)
            return codes  # type: ignore[no-any-return]

        return ask


class Keys(RowWise):
    """Each plugin's key columns in plugin order, low first; ties are decided as without any."""

    name = "keys"
    check = staticmethod(keys_fault)
    fails = "Its keys are left out; the other plugins' keys and the last rules decide."

    def __init__(self, rows: str, *, without: str = "creation decides, then the name") -> None:
        """Declare the combination for a question; ``without`` are the framework's last rules."""
        super().__init__(rows)
        self.without = without

    def over(self, answers: Answers) -> Callable[..., Columns]:
        """Return the key columns of all plugins."""
        at = self.at

        def ask(*asked: Any) -> Columns:
            count = len(asked[at])
            columns: Columns = []
            for answer in answers:
                columns.extend(answer.ask(self, asked, count) or ())
            return columns

        return ask


class Least(RowWise):
    """The least of the answers, row by row."""

    name = "least"
    check = staticmethod(room_fault)
    fails = "No room: no pod of the shape is placed on the rows asked about."
    without = "no bound"

    def instead(self, against: int) -> IntVec:
        """Leave no room."""
        return np.zeros(against, np.int64)

    def add(self, before: IntVec | None, said: IntVec) -> IntVec:
        """Keep the smaller answer in each row."""
        return said if before is None else np.minimum(before, said)


class Sum(RowWise):
    """Each answer times the plugin's weight in the shard, added up."""

    name = "sum"
    check = staticmethod(score_fault)
    fails = "Neutral: the other plugins' scores decide."
    without = "all score alike"

    def over(self, answers: Answers) -> Callable[..., FloatVec]:
        """Return the weighted sum ``(K,)`` of scores."""
        at = self.at
        # Room for the rounding of a few sums of products.
        highest = sum(answer.weight for answer in answers) * (1 + 1e-12)
        least, most = np.minimum.reduce, np.maximum.reduce  # half the price of the methods

        def ask(*asked: Any) -> FloatVec:
            count = len(asked[at])
            scores = [(each, each.ask(self, asked, count)) for each in answers]
            total: FloatVec | None = None
            for answer, score in scores:
                if score is not None:
                    weighted = score * answer.weight
                    total = weighted if total is None else total + weighted
            if total is None:
                return np.zeros(count)
            # Check the sum first (NaN compares false with everything), and each score only then.
            if count and not (least(total) >= 0.0 and most(total) <= highest):
                return self._in_range(scores, asked, count)
            return total

        return ask

    def _in_range(self, scores: list[tuple[Answer, Any]], asked: Asked, count: int) -> FloatVec:
        """Add up the scores inside [0, 1] alone, and name the plugins of the others."""
        total = np.zeros(count)
        for answer, score in scores:
            if score is None:
                continue
            if score.min() >= 0.0 and score.max() <= 1.0:
                total += score * answer.weight
            else:
                self.failed(answer, asked, count, "answered scores outside [0, 1]")
        return total


class First(Combination):
    """The answer of the first plugin that gives any."""

    name = "first"

    def __init__(
        self,
        fault: Check,
        *,
        without: str,
        otherwise: Callable[..., Any] | None = None,
        abandons: str = "",
    ) -> None:
        """Declare the combination for a question.

        Args:
            fault: returns what is wrong with an answer, or an empty string.
            without: what holds without any answer, in the words of the reference.
            otherwise: computes the answer that holds without any; by default None.
            abandons: what the cycle is abandoned for when an answer fails; if empty, the next
                plugin is asked.

        """
        super().__init__(abandons=abandons)
        self.fault = fault
        self.without = without
        self._otherwise = otherwise
        self.fails = (
            _ABANDONED if abandons else f"The next plugin is asked; without any, {without}."
        )

    def over(self, answers: Answers) -> Callable[..., Any]:
        """Return the first answer that is not None."""
        otherwise = self._otherwise

        def ask(*asked: Any) -> Any:
            for answer in answers:
                said = answer.ask(self, asked, asked)
                if said is not None:
                    return said
            return None if otherwise is None else otherwise(*asked)

        return ask


class Fold(Combination):
    """Each plugin gets the previous one's answer as its last argument."""

    name = "fold"
    check = staticmethod(weights_fault)
    fails = _ABANDONED

    def __init__(self, *, without: str, abandons: str) -> None:
        """Declare the combination; ``abandons`` is what a failure abandons the cycle for."""
        super().__init__(abandons=abandons)
        self.without = without

    def over(self, answers: Answers) -> Callable[..., FloatVec]:
        """Return the answer of the last plugin."""

        def ask(*asked: Any) -> FloatVec:
            *given, folded = asked
            for answer in answers:
                shown = folded.view()
                shown.flags.writeable = False  # who writes into it is named, not who reads it next
                said = answer.ask(self, (*given, shown), folded.shape)
                if said is not None:
                    folded = said
            return folded  # type: ignore[no-any-return]

        return ask


class Union(Combination):
    """The union of all answers."""

    name = "union"
    check = staticmethod(stale_fault)
    fails = "Everything counts as stale: every filter known so far is asked again."
    without = "nothing"

    def instead(self, against: Asked) -> tuple[RowVec, RowVec]:
        """Return that everything is stale: an empty shape array means every shape."""
        del against
        return np.empty(0, np.int64), np.empty(0, np.int64)

    def over(self, answers: Answers) -> Callable[..., list[tuple[RowVec, RowVec]]]:
        """Return the answers of all plugins."""

        def ask(*asked: Any) -> list[tuple[RowVec, RowVec]]:
            stale = []
            for answer in answers:
                said = answer.ask(self, asked, asked)
                if said is not None:
                    stale.append(said)
            return stale

        return ask


class Own(Combination):
    """Each plugin's own answer, kept under the plugin's name."""

    name = "own"

    def __init__(self, *, fails: str) -> None:
        """Declare the combination, with what happens when an answer fails."""
        super().__init__()
        self.fails = fails

    def instead(self, against: Asked) -> object:
        """Keep nothing."""
        del against
        return _NOTHING

    def over(self, answers: Answers) -> Callable[..., Iterator[tuple[str, Any]]]:
        """Yield the plugins and their answers; each is asked when its turn comes."""

        def ask(*asked: Any) -> Iterator[tuple[str, Any]]:
            for answer in answers:
                said = answer.ask(self, asked, asked)
                if said is not _NOTHING:
                    yield answer.plugin, said

        return ask


class Rows(Combination):
    """All rows, in plugin order, then the built-in rows; the first row for a kind counts."""

    name = "rows"
    check = staticmethod(rows_fault)
    fails = "The shard is not run: the process ends and names the plugin."
    without = "the built-in rows"

    def failed(self, answer: Answer, asked: Asked, against: Any, error: Exception | str) -> Any:
        """Refuse the plugin: the question is asked before there is a cycle.

        Raises:
            PluginContractError: always.

        """
        del asked, against
        raise PluginContractError(
            f"{answer.question}: {told(error)}", plugin=answer.plugin, distribution=answer.source
        ) from (error if isinstance(error, Exception) else None)

    def over(self, answers: Answers) -> Callable[[], list[Any]]:
        """Return the rows of all plugins."""
        listed = [replace(each, call=partial(_listed, each.call)) for each in answers]

        def ask() -> list[Any]:
            return [row for answer in listed for row in answer.ask(self, (), None)]

        return ask


def _listed(function: Callable[[], Iterable[Any]]) -> list[Any]:
    return list(function())
