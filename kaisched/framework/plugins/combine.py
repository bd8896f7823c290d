"""The ways in which answers combine, and the guard around each plugin's answer.

Each question declares one of these, see :mod:`~kaisched.framework.plugins.questions`: how the
answers of several plugins combine, and the substitute for an answer that fails. A question is asked
through pluggy's caller of its hook, or, where a plugin's answer depends on the answers before it,
one hook implementation after the other. The reference prints the first line of each class.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from kaisched.core.refusals import Refusal, text_of
from kaisched.errors import PluginContractError
from kaisched.framework.plugins.validity import (
    code_fault,
    flags_fault,
    keys_fault,
    problems_fault,
    room_fault,
    rows_fault,
    score_fault,
    sets_fault,
    stale_fault,
    weights_fault,
)
from kaisched.framework.report.records import PluginFailure
from kaisched.framework.session.node_sets import LazyNodeSets, NodeSet, NodeSets

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pluggy

    from kaisched.core.axis import BoolVec, CodeVec, FloatVec, IntVec, RowVec
    from kaisched.framework.plugins.plugin import PluginSetting

    Columns = tuple[IntVec | FloatVec, ...]

Check = Callable[[Any, Any], str]
"""Returns what is wrong with an answer, or an empty string."""
Asked = tuple[Any, ...]
"""The arguments of a question, in the order of its specification; the session comes first."""
_FAILED: Final = int(Refusal.PLUGIN_FAILED)
_ABANDONED: Final = (
    "The cycle is abandoned: no intents, the old facts stay, every waiting job says why."
)


class CycleAbandonedError(Exception):
    """An answer that the division needs has failed: the cycle ends without intents."""


def anything_goes(said: object, against: object) -> str:
    """Accept any answer."""
    del said, against
    return ""


def told(error: Exception | str) -> str:
    """Describe an exception or a fault."""
    return f"{type(error).__name__}: {error}" if isinstance(error, Exception) else error


class Combination:
    """One way in which answers combine, with a substitute for an answer that fails."""

    name: ClassVar[str]
    fault: Check = staticmethod(anything_goes)
    """Returns what is wrong with an answer to these arguments, or an empty string."""
    fails: str
    """What happens when an answer fails, in the words of the reference."""
    without: str = ""
    """What holds without any answer, in the words of the reference."""

    def __init__(self, *, abandons: str = "") -> None:
        """Declare the combination; ``abandons`` is what cannot be computed when an answer fails."""
        self.abandons = abandons
        self.question = ""
        """The question that is asked like this."""
        self.parameters: tuple[str, ...] = ()
        """The question's arguments, the session first."""
        self.may_be_silent = False
        """Whether a plugin is not asked that promises it has no answer (``is_silent``)."""

    def declare(self, question: Callable[..., object], *, may_be_silent: bool) -> None:
        """Take the question's arguments, and whether plugins may promise silence."""
        self.question = question.__name__
        self.parameters = tuple(inspect.signature(question).parameters)[1:]
        self.may_be_silent = may_be_silent

    @property
    def meaning(self) -> str:
        """How answers combine, in the words of the reference."""
        return (inspect.getdoc(type(self)) or "").partition("\n\n")[0]

    # -- one answer ----------------------------------------------------------------------------

    def guarded(self, setting: PluginSetting, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return what pluggy calls for a plugin: its answer, or the substitute if it fails."""
        read, fault, kept = self.read, self.fault, self.kept

        def ask(*asked: Any) -> Any:
            error: Exception | str
            try:
                said = read(call(*asked))
                if said is None:
                    return None
                error = fault(said, asked)
            except CycleAbandonedError:
                raise
            except Exception as raised:  # noqa: BLE001 - any failure of a plugin is contained
                error = raised
            else:
                if not error:
                    return kept(setting, said, asked)
            return self.failed(setting, asked, error)

        return ask

    def read(self, said: Any) -> Any:
        """Return what a plugin's method has returned; read whole if it is an iterator."""
        return said

    def kept(self, setting: PluginSetting, said: Any, asked: Asked) -> Any:
        """Return what of a valid answer is combined; None for nothing."""
        del setting, asked
        return said

    def instead(self, asked: Asked) -> Any:
        """Return the substitute for an answer that fails; by default None, nothing to say."""
        del asked

    def failed(self, setting: PluginSetting, asked: Asked, error: Exception | str) -> Any:
        """Name the plugin in the cycle's failures; return the substitute for its answer.

        Raises:
            CycleAbandonedError: there is no substitute.

        """
        cause = error if isinstance(error, Exception) else None
        name, text = setting.plugin.name, told(error)[:500]
        asked[0].failures.append(PluginFailure(name, self.question, text))
        if self.abandons:
            how = "failed" if cause else "answered nonsense"
            raise CycleAbandonedError(f"{self.abandons}: plugin {name} {how}") from cause
        return self.instead(asked)

    # -- all of them ---------------------------------------------------------------------------

    def ask(self, hook: pluggy.HookCaller, *asked: Any) -> Any:
        """Ask all plugins through pluggy, and combine their answers."""
        return self.combined(hook(**dict(zip(self.parameters, asked, strict=True))))

    def combined(self, said: Any) -> Any:
        """Combine the answers that are not None, which are in the order of the shard."""
        raise NotImplementedError


def in_turn(hook: pluggy.HookCaller) -> Iterator[pluggy.HookImpl]:
    """Yield the implementations of a hook in the order in which pluggy calls them."""
    return reversed(hook.get_hookimpls())


class RowWise(Combination):
    """Answers that have a row for each row asked about."""

    check: ClassVar[staticmethod[[Any, int], str]]
    """Returns what is wrong with an answer about so many rows, or an empty string."""

    def __init__(self, rows: str) -> None:
        """Declare the combination; ``rows`` is the argument with the rows asked about."""
        super().__init__()
        self.rows = rows
        self.at = 0
        """The place of the rows among the arguments."""

    def declare(self, question: Callable[..., object], *, may_be_silent: bool) -> None:
        """Take the question's arguments, and whether plugins may promise silence."""
        super().declare(question, may_be_silent=may_be_silent)
        at, check = self.parameters.index(self.rows), type(self).check
        self.at = at
        self.fault = lambda said, asked: check(said, len(asked[at]))

    def combined(self, said: list[Any]) -> Any:
        """Return all answers combined, or None without any."""
        return reduce(self.add, said) if said else None

    def add(self, before: Any, said: Any) -> Any:
        """Combine one more answer with those before it."""
        raise NotImplementedError


class FirstRefusal(RowWise):
    """Codes, 0 for no objection; each row gets the first other code in plugin order."""

    name = "first refusal"
    check = staticmethod(code_fault)
    fails = "Closed: every row asked about is refused with `PluginFailed`."
    without = "no objection"

    def kept(self, setting: PluginSetting, said: CodeVec, asked: Asked) -> CodeVec:
        """Return codes of one type."""
        del setting, asked
        return said.astype(np.int16, copy=False)

    def instead(self, asked: Asked) -> CodeVec:
        """Close the gate for every row."""
        return np.full(len(asked[self.at]), _FAILED, np.int16)

    def add(self, before: CodeVec, said: CodeVec) -> CodeVec:
        """Keep the first refusal of each row."""
        return np.where(before != 0, before, said)


class FirstRefusalInTurn(FirstRefusal):
    """As *first refusal*, but a plugin is not asked about rows that an earlier plugin refuses."""

    name = "first refusal, in turn"

    def ask(self, hook: pluggy.HookCaller, *asked: Any) -> CodeVec:
        """Return codes ``(K,)``; the last argument tells which rows are asked about.

        Plugins get, as the last argument, which of these are not refused so far.
        """
        *given, taken = asked
        codes: CodeVec = np.zeros(len(asked[self.at]), np.int16)
        for each in in_turn(hook):
            said: Any = each.function(*given, taken & (codes == 0))
            if said is not None:
                codes = self.add(codes, said)
        return codes


class Keys(RowWise):
    """Each plugin's key columns in plugin order, low first; ties are decided as without any."""

    name = "keys"
    check = staticmethod(keys_fault)
    fails = "Its keys are left out; the other plugins' keys and the last rules decide."

    def __init__(self, rows: str, *, without: str = "creation decides, then the name") -> None:
        """Declare the combination for a question; ``without`` are the framework's last rules."""
        super().__init__(rows)
        self.without = without

    def combined(self, said: list[Columns]) -> Columns:
        """Return the key columns of all plugins."""
        return tuple(column for columns in said for column in columns)


class Least(RowWise):
    """The least of the answers, row by row."""

    name = "least"
    check = staticmethod(room_fault)
    fails = "No room: no pod of the shape is placed on the rows asked about."
    without = "no bound"

    def instead(self, asked: Asked) -> IntVec:
        """Return zero for every node."""
        return np.zeros(len(asked[self.at]), np.int64)

    def add(self, before: IntVec, said: IntVec) -> IntVec:
        """Keep the smaller answer in each row."""
        return np.minimum(before, said)


class Sum(RowWise):
    """Each answer times the plugin's weight in the shard, added up."""

    name = "sum"
    check = staticmethod(score_fault)
    fails = "Neutral: the other plugins' scores decide."
    without = "all score alike"

    def kept(self, setting: PluginSetting, said: FloatVec, asked: Asked) -> FloatVec:
        """Return scores times the plugin's weight."""
        del asked
        return said * setting.weight

    def add(self, before: FloatVec, said: FloatVec) -> FloatVec:
        """Add up."""
        return before + said


class AnyOf(RowWise):
    """A row is true if any plugin answers true."""

    name = "any"
    check = staticmethod(flags_fault)
    fails = "It says so of no row."
    without = "no row is"

    def add(self, before: BoolVec, said: BoolVec) -> BoolVec:
        """Let a row be true for either."""
        return before | said


class First(Combination):
    """The answer of the first plugin that gives any."""

    name = "first"

    def __init__(self, fault: Check, *, without: str, abandons: str = "") -> None:
        """Declare the combination for a question.

        Args:
            fault: returns what is wrong with an answer, or an empty string.
            without: what holds without any answer, in the words of the reference.
            abandons: what the cycle is abandoned for when an answer fails; if empty, the next
                plugin is asked.

        """
        super().__init__(abandons=abandons)
        self.fault = fault
        self.without = without
        self.fails = (
            _ABANDONED if abandons else f"The next plugin is asked; without any, {without}."
        )

    def combined(self, said: Any) -> Any:
        """Return the first answer, after which pluggy asks no other plugin."""
        return said


class Chain(Combination):
    """Each plugin gets the previous one's answer as its last argument."""

    name = "chain"
    fault = staticmethod(weights_fault)
    fails = _ABANDONED
    without = "the weights stand"

    def __init__(self) -> None:
        """Declare the combination."""
        super().__init__(abandons="weights")

    def ask(self, hook: pluggy.HookCaller, *asked: Any) -> FloatVec:
        """Return the answer of the last plugin."""
        *given, weights = asked
        for each in in_turn(hook):
            shown = weights.view()
            shown.flags.writeable = False  # who writes into it is named, not who reads it next
            said = each.function(*given, shown)
            if said is not None:
                weights = said
        return weights  # type: ignore[no-any-return]


class Union(Combination):
    """The union of all answers."""

    name = "union"
    fault = staticmethod(stale_fault)
    fails = "Everything counts as stale: every filter known so far is asked again."
    without = "nothing"

    def instead(self, asked: Asked) -> tuple[RowVec, RowVec]:
        """Return that everything is stale: an empty shape array means every shape."""
        del asked
        return np.empty(0, np.int64), np.empty(0, np.int64)

    def combined(self, said: list[tuple[RowVec, RowVec]]) -> tuple[RowVec, RowVec] | None:
        """Return the shapes and the rows of all answers; every shape if one answer says so."""
        if not said:
            return None
        every = next((it for it in said if not len(it[0])), None)
        shapes, rows = zip(*said, strict=True)
        return every or (np.concatenate(shapes), np.concatenate(rows))


class Intersections(Combination):
    """Every set of one plugin with every set of the next: nodes in both, in plugin order."""

    name = "intersections"
    fault = staticmethod(sets_fault)
    fails = "No set: the job is not placed."
    without = "all nodes are one set"

    def kept(self, setting: PluginSetting, said: Any, asked: Asked) -> NodeSets:
        """Return the sets of a plugin, or none with the refusal that says why."""
        if isinstance(said, int):
            return NodeSets(code=said)
        is_lazy = isinstance(said, LazyNodeSets)
        return NodeSets(
            _CheckedSets(self, setting, asked, said) if is_lazy else said, sources=(said,)
        )

    def instead(self, asked: Asked) -> NodeSets:
        """Leave the job without nodes."""
        del asked
        return NodeSets(sources=(_FAILED,))

    def combined(self, said: list[NodeSets]) -> NodeSets | None:
        """Return the sets that all plugins allow, or None without an answer."""
        found: NodeSets | None = None
        for these in said:
            if not these.sources:  # a refusal
                return these
            found = these if found is None else found.meet(these)
        return found


class _CheckedSets(LazyNodeSets):
    """Sets of one plugin, each checked when it is made."""

    def __init__(
        self, rule: Intersections, setting: PluginSetting, asked: Asked, sets: LazyNodeSets
    ) -> None:
        super().__init__(len(sets))
        self._rule, self._setting, self._asked, self._sets = rule, setting, asked, sets

    def make(self, at: int) -> NodeSet:
        """Return the set at a position; a set without nodes where the plugin fails."""
        error: Exception | str
        try:
            made = self._sets[at]
            error = sets_fault([made], self._asked)
        except Exception as raised:  # noqa: BLE001 - any failure of a plugin is contained
            error = raised
        else:
            if not error:
                return made
        self._rule.failed(self._setting, self._asked, error)
        return NodeSet(self._setting.plugin.name, np.zeros(len(self._asked[0].nodes), np.bool_))


class Own(Combination):
    """Each plugin's own answer, kept under the plugin's name."""

    name = "own"

    def __init__(self, *, fails: str) -> None:
        """Declare the combination, with what happens when an answer fails."""
        super().__init__()
        self.fails = fails

    def read(self, said: Any) -> tuple[Any]:
        """Return any answer as one: None is the state of many a plugin."""
        return (said,)

    def kept(self, setting: PluginSetting, said: tuple[Any], asked: Asked) -> tuple[str, Any]:
        """Return the plugin with its answer."""
        del asked
        return setting.plugin.name, said[0]

    def ask(self, hook: pluggy.HookCaller, *asked: Any) -> Iterator[tuple[str, Any]]:
        """Yield the plugins and their answers; each is asked when its turn comes."""
        for each in in_turn(hook):
            said: Any = each.function(*asked)
            if said is not None:
                yield said


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

    def read(self, said: Any) -> Any:
        """Return the answer; a list if it is an iterable."""
        return list(said or ()) if self._is_listed else said

    def instead(self, asked: Asked) -> Any:
        """Return the substitute for an answer that fails."""
        return self._instead(asked)

    def ask(self, hook: pluggy.HookCaller, *asked: Any) -> Any:
        """Return the owner's answer, None without any."""
        owner = text_of(int(asked[-1])).plugin
        owned = [each for each in in_turn(hook) if each.plugin_name == owner]
        return owned[0].function(*asked) if owned else None


class FirstOfEach(Combination):
    """For each row, the answer of the first plugin that names the row."""

    name = "first of each"
    fault = staticmethod(problems_fault)
    fails = "It says nothing of any."
    without = "nothing is said"

    def combined(self, said: list[dict[int, Any]]) -> dict[int, Any]:
        """Return the answers, by row."""
        found: dict[int, Any] = {}
        for row, each in (pair for some in said for pair in some.items()):
            found.setdefault(row, each)
        return found


class Lines(Combination):
    """All lines, in plugin order."""

    name = "lines"
    fails = "The check of results fails with it."
    without = "none"

    def read(self, said: Any) -> list[str]:
        """Return the lines of a plugin."""
        return list(said or ())

    def failed(self, setting: PluginSetting, asked: Asked, error: Exception | str) -> Any:
        """Let a failure pass: no decision depends on the lines."""
        del setting, asked
        assert isinstance(error, Exception)
        raise error

    def combined(self, said: list[list[str]]) -> list[str]:
        """Return the lines of all plugins."""
        return [line for lines in said for line in lines]


class Rows(Lines):
    """All rows, in plugin order, then the built-in rows; the first row for a kind counts."""

    name = "rows"
    fault = staticmethod(rows_fault)
    fails = "The shard is not run: the process ends and names the plugin."
    without = "the built-in rows"

    def read(self, said: Any) -> list[Any]:
        """Return the rows of a plugin."""
        return list(said)

    def failed(self, setting: PluginSetting, asked: Asked, error: Exception | str) -> Any:
        """Refuse the plugin: the question is asked before there is a cycle.

        Raises:
            PluginContractError: always.

        """
        del asked
        raise PluginContractError(
            f"{self.question}: {told(error)}",
            plugin=setting.plugin.name,
            distribution=setting.source,
        ) from (error if isinstance(error, Exception) else None)


class Silence(Combination):
    """Whether a plugin promises to have no answer to a question in this cycle."""

    def __init__(self, question: str, *, abandons: bool) -> None:
        """Declare it; where a plugin fails to say so, it is asked, or the cycle is abandoned."""
        super().__init__(abandons=question if abandons else "")
        self.question = question

    def read(self, said: Any) -> bool:
        """Return what the plugin says."""
        return bool(said)
