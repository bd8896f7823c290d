"""One plugin's answer to one question, and the guard that contains its failures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from kaisched.framework.report.records import PluginFailure

Check = Callable[[Any, Any], str]
"""Returns what is wrong with an answer, or an empty string."""
Asked = tuple[Any, ...]
"""The arguments of a question, in the order of its specification; the session comes first."""


class CycleAbandonedError(Exception):
    """An answer that the division needs has failed: the cycle ends without intents."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One plugin's method that answers one question, called under a guard."""

    owner: Any
    """The plugin itself."""
    plugin: str
    """The plugin's name."""
    question: str
    weight: float
    """The factor of the plugin's scores in the shard."""
    source: str
    """The distribution that it came with, and its version."""
    call: Callable[..., Any]

    def ask(self, rule: Rule, asked: Asked, against: Any) -> Any:
        """Return the answer, None for nothing to say, or the substitute for a failed answer.

        Args:
            rule: checks the answer, and has the substitute for a failure.
            asked: the arguments of the question.
            against: what the rule checks the answer against: the number of rows, a shape.

        Raises:
            CycleAbandonedError: the division needs the answer, or failed inside of it.

        """
        try:
            said = self.call(*asked)
            fault = "" if said is None else rule.fault(said, against)
        except CycleAbandonedError:
            raise
        except Exception as error:  # noqa: BLE001 - any failure of a plugin is contained
            return rule.failed(self, asked, against, error)
        return rule.failed(self, asked, against, fault) if fault else said

    def promise(self, name: str) -> Answer:
        """Return the plugin's promise about this answer, called under the same guard."""
        made: Callable[..., object] = getattr(self.owner, name)
        return replace(self, call=lambda *asked: bool(made(*asked)))


class Rule:
    """Judges answers, and says what stands for one that fails."""

    def __init__(self, fault: Check, abandons: str = "") -> None:
        """Take the check, and what a failure abandons the cycle for; empty for nothing."""
        self.fault = fault
        self.abandons = abandons

    def instead(self, against: Any) -> Any:
        """Return the substitute for an answer that fails; by default None, nothing to say."""
        del against

    def failed(self, answer: Answer, asked: Asked, against: Any, error: Exception | str) -> Any:
        """Name the plugin in the cycle's failures; return the substitute for its answer.

        Raises:
            CycleAbandonedError: there is no substitute.

        """
        cause = error if isinstance(error, Exception) else None
        text = told(error)[:500]
        asked[0].failures.append(PluginFailure(answer.plugin, answer.question, text))
        if self.abandons:
            how = "failed" if cause else "answered nonsense"
            raise CycleAbandonedError(f"{self.abandons}: plugin {answer.plugin} {how}") from cause
        return self.instead(against)


Answers = tuple[Answer, ...]


class Promise(Rule):
    """A method by which a plugin declares, before a question, that it would have no answer."""

    def __init__(self, method: str, *, silent: bool, abandons: str = "") -> None:
        """Declare the promise for a question.

        Args:
            method: the name of the plugin's method.
            silent: what the method returns where the plugin need not be asked.
            abandons: what the cycle is abandoned for when the method fails; if empty, the plugin
                is asked.

        """
        super().__init__(anything_goes, abandons)
        self.method, self.silent = method, silent

    def instead(self, against: Any) -> bool:
        """Return that the plugin must be asked."""
        del against
        return not self.silent

    def over(self, answers: Answers) -> Callable[..., Answers]:
        """Return the function that picks the answers of plugins that must be asked."""
        promises = [answer.promise(self.method) for answer in answers]

        def ask(*asked: Any) -> Answers:
            said = [promise.ask(self, asked, None) for promise in promises]
            return tuple(
                answer for answer, it in zip(answers, said, strict=True) if it != self.silent
            )

        return ask


def anything_goes(said: object, against: object) -> str:
    """Accept any answer."""
    del said, against
    return ""


def told(error: Exception | str) -> str:
    """Describe an exception or a fault."""
    return f"{type(error).__name__}: {error}" if isinstance(error, Exception) else error
