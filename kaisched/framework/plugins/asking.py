"""Asks the plugins of a shard, through pluggy, as each question declares.

A plugin that raises or answers nonsense is named in the session's failures;
:mod:`~kaisched.framework.plugins.questions` declares what happens then.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache, partial, update_wrapper
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pluggy

from kaisched.core.refusals import Refusal
from kaisched.framework.plugins.combine import Silence, in_turn
from kaisched.framework.plugins.plugin import Plugin
from kaisched.framework.plugins.probe import NULL
from kaisched.framework.plugins.questions import (
    PROJECT,
    QUESTIONS,
    Decisions,
    Words,
    hookimpl,
    is_answer,
)
from kaisched.framework.report.records import EvictionReason
from kaisched.framework.session.node_sets import NodeSets
from kaisched.objects.gangs import KNOWN, WORKLOADS, declared
from kaisched.objects.workloads import table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kaisched.core.axis import Amounts, BoolVec, CodeVec, FloatVec, IntVec, RowVec
    from kaisched.core.tables import SubGroup
    from kaisched.framework.plugins.plugin import PluginSetting
    from kaisched.framework.plugins.probe import Probe
    from kaisched.framework.session.session import Columns, Session
    from kaisched.framework.session.units import Claim, Unit, Units
    from kaisched.objects.workloads import Table, WorkloadKind

_BARRED: Final = np.int16(Refusal.ACTION_FAILED)
_REQUIRES_LEVEL: Final = "asking.requires_level"


class NamedKey(NamedTuple):
    """A key column of a question about order, with the plugin that answered it."""

    plugin: str
    name: str
    column: IntVec | FloatVec
    is_negative: bool
    """True where the key is the named number with its sign turned."""
    words: str = ""
    """What it puts behind, as :meth:`Plugin.key_words` says it; empty where that says nothing."""

    def shown(self, value: float) -> float:
        """Return the named number of a key."""
        return -value if self.is_negative else value


class _Answers:
    """What pluggy knows of a plugin: its answers, each under the guard of its question."""

    def __dir__(self) -> Iterable[str]:
        """Return the answers alone: pluggy looks at each name, and slowly."""
        return vars(self)


def manager_of(plugins: Iterable[PluginSetting], probe: Probe = NULL) -> pluggy.PluginManager:
    """Return pluggy's manager of the plugins of a shard, whose calls ask in the shard's order.

    Raises:
        ValueError: two plugins have the same name.

    """
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(Plugin)
    for setting in reversed(tuple(plugins)):  # pluggy calls first whoever is registered last
        plugin, answers = setting.plugin, _Answers()
        for question, combine in QUESTIONS.items():
            method = getattr(plugin, question)
            if is_answer(method):
                watched = probe.wrap(plugin.name, question, method)
                guarded = update_wrapper(
                    combine.guarded(setting, watched), getattr(Plugin, question)
                )
                setattr(answers, question, hookimpl(guarded))
        manager.register(answers, plugin.name)
    return manager


def workloads_of(plugins: Iterable[PluginSetting], kinds: Iterable[WorkloadKind] = ()) -> Table:
    """Return the kinds that a shard declares, those that its plugins group, and the known ones.

    Raises:
        PluginContractError: an answer is no sequence of rows, or a row makes no sense.

    """
    answering = [setting for setting in plugins if is_answer(setting.plugin.workloads)]
    grouped = Questions(answering).workloads() if answering else ()
    rows = (*map(declared, kinds), *grouped)
    return table_of((*rows, *WORKLOADS)) if rows else KNOWN


class Questions(Decisions, Words):
    """Every question, asked of all plugins of a shard: their answers combined as it declares.

    Whatever the host adds to a question is a method of that name here. All others are asked as they
    are declared.
    """

    def __init__(self, plugins: Iterable[PluginSetting] = (), probe: Probe = NULL) -> None:
        """Register the plugins with pluggy."""
        plugins = tuple(plugins)
        self._watched = lru_cache(maxsize=1)(partial(Questions, plugins))  # a loop has one probe
        self._setting = {setting.plugin.name: setting for setting in plugins}
        self._manager = manager_of(plugins, probe)
        self._ask = {
            question: partial(combine.ask, self._hook(question))
            for question, combine in QUESTIONS.items()
        }
        for question in QUESTIONS.keys() - vars(Questions).keys():
            setattr(self, question, self._ask[question])
        self.others_divide = any(
            not setting.source.startswith(f"{PROJECT} ")
            for question, combine in QUESTIONS.items()
            if combine.abandons
            for setting in self._settings(question)
        )
        """True when the cycle is abandoned if a plugin that did not come with the host fails."""
        self.orders_victims = bool(self.answers("victim_order"))
        self.has_plan_gates = bool(self.answers("plan_gate"))
        self.takes_from_own_queue = any(
            it.plugin.takes_from_own_queue for it in self._settings("victim_order")
        )
        """True when reclaim takes from the claim's own queue, too."""
        self.bounds_non_preemptible = any(
            it.plugin.bounds_non_preemptible for it in self._settings("queue_gate")
        )
        """True when non-preemptible jobs stay within the quotas on their path."""
        self.has_node_room = bool(self.answers("node_room"))
        self.has_queue_gates = bool(self.answers("queue_gate"))
        scoring = self._settings("node_score")
        self.highest_score = sum(it.weight for it in scoring)
        self.scores_rise = all(it.plugin.is_score_rising for it in scoring)

    def probed(self, probe: Probe) -> Questions:
        """Return the same questions, watched by ``probe``."""
        return self if probe is NULL else self._watched(probe)

    def answers(self, question: str) -> tuple[str, ...]:
        """Return the names of the plugins that answer a question, in order."""
        return tuple(each.plugin_name for each in in_turn(self._hook(question)))

    def _hook(self, question: str) -> pluggy.HookCaller:
        hook: pluggy.HookCaller = getattr(self._manager.hook, question)
        return hook

    def _settings(self, question: str) -> list[PluginSetting]:
        """Return the plugins that answer a question, in order."""
        return [self._setting[name] for name in self.answers(question)]

    def speaking(self, session: Session, question: str) -> Callable[..., Any] | None:
        """Return a question to the plugins that do not promise to be silent about it in this cycle.

        None if there is no such plugin.
        """
        if question not in session.found:
            session.found[question] = self._to_speakers(session, question)
        found: Callable[..., Any] | None = session.found[question]
        return found

    def _to_speakers(self, session: Session, question: str) -> Callable[..., Any] | None:
        combine, answering = QUESTIONS[question], list(in_turn(self._hook(question)))
        silence = Silence(question, abandons=bool(combine.abandons))
        silent = []
        for each in answering:
            setting = self._setting[each.plugin_name]
            if silence.guarded(setting, setting.plugin.is_silent)(session, question):
                silent.append(each.plugin)
        if len(silent) == len(answering):
            return None
        return partial(combine.ask, self._manager.subset_hook_caller(question, silent))

    # -- once a cycle ------------------------------------------------------------------------

    def open(self, session: Session) -> None:
        """Fill ``session.state``; a plugin may read the state of the plugins before it."""
        for plugin, state in self._ask["session_open"](session):
            session.state[plugin] = state

    def close(self, session: Session) -> dict[str, Any]:
        """Return the facts of all plugins that have some."""
        facts = self._ask["session_close"](session)
        return {plugin: fact for plugin, fact in facts if fact is not None}

    def quotas(self, session: Session) -> Amounts | None:
        """Return what queues have by quota; None where it is as written."""
        for setting in self._settings("fair_share")[:1]:
            with suppress(Exception):  # any failure of a plugin is contained
                told = setting.plugin.quotas(session)
                return None if told is None else np.broadcast_to(told, session.held.shape)
        return None

    # -- order -----------------------------------------------------------------------------------

    def named_keys(self, question: str, session: Session, *asked: object) -> list[NamedKey]:
        """Return the key columns of a question about order with their names (for reports only)."""
        keys = []
        for each in in_turn(self._hook(question)):
            plugin = self._setting[each.plugin_name].plugin
            try:
                names, words = [*plugin.key_names(question)], [*plugin.key_words(question)]
            except Exception:  # noqa: BLE001 - any failure of a plugin is contained
                names, words = [], []
            columns: Any = each.function(session, *asked) or ()
            for at, column in enumerate(columns):
                name = names[at] if at < len(names) else f"key {at + 1}"
                is_negative = name.startswith("-")
                said = words[at] if at < len(words) else ""
                shown = name.lstrip("-")
                keys.append(NamedKey(each.plugin_name, shown, column, is_negative, said))
        return keys

    def contest(
        self, session: Session, queue: RowVec, job: RowVec, held: Amounts, ask: Amounts
    ) -> Columns:
        """Return the keys that order sibling queues, each with its best job, low first."""
        heads = self.head_order(session, queue, job, held, ask)
        return [*(self.queue_order(session, queue, held, ask) or ()), *(heads or ())]

    def rests_on_sums(self, session: Session) -> bool:
        """Tell whether an inner queue's positions may be predicted from its children's sums."""
        asked = ("queue_order", "head_order", "queue_gate")
        return all(
            it.plugin.rests_on_sums(session) for name in asked for it in self._settings(name)
        )

    # -- gates -----------------------------------------------------------------------------------

    def job_gate(self, session: Session, action: str, job: RowVec) -> CodeVec | None:
        """Return codes ``(K,)``, or None for no objection; jobs that actions fail on are barred."""
        codes: CodeVec | None = self._ask["job_gate"](session, action, job)
        if session.barred:
            is_barred = np.isin(job, list(session.barred))
            codes = np.where(is_barred, _BARRED, 0 if codes is None else codes)
        return codes

    def queue_gate(
        self,
        session: Session,
        action: str,
        queue: RowVec,
        job: RowVec,
        ask: Amounts,
        held: Amounts,
        held_non_preemptible: Amounts,
    ) -> CodeVec | None:
        """Return codes ``(K,)``, or None for no objection; what does not end counts as held."""
        if (stuck := session.held_stuck) is not None:
            held, held_non_preemptible = (
                more + column[:, queue]
                for more, column in zip((held, held_non_preemptible), stuck, strict=True)
            )
        codes: CodeVec | None = self._ask["queue_gate"](
            session, action, queue, job, ask, held, held_non_preemptible
        )
        return codes

    def scenario_gate(
        self, session: Session, claim: Claim, units: Units, taken: BoolVec | None = None
    ) -> CodeVec:
        """Return codes ``(V,)``; 0 for units that are not ``taken``: no plugin is asked of them."""
        taken = np.ones(len(units), np.bool_) if taken is None else taken
        codes: CodeVec = self._ask["scenario_gate"](session, claim, units, taken)
        return codes

    def batch_size(self, session: Session, job: RowVec) -> IntVec:
        """Return how many pods of jobs ``(K,)`` are placed next: one by one without an answer."""
        size: IntVec | None = self._ask["batch_size"](session, job)
        return np.minimum(session.pending_of(job), 1) if size is None else size

    def node_domains(self, session: Session, shape: int) -> IntVec | None:
        """Return the domain of each node ``(N,)`` if all pods of a shape have to be in one."""
        said: IntVec | None = self._ask["node_domains"](session, shape)
        return said

    def is_guaranteed(self, session: Session, job: RowVec, ask: Amounts) -> BoolVec:
        """Tell, ``(K,)``, which jobs are entitled to what they ask for at any time."""
        said: BoolVec | None = self._ask["is_guaranteed"](session, job, ask)
        return np.zeros(len(job), np.bool_) if said is None else said

    def gate_owner(self, session: Session, question: str, arguments: Mapping[str, Any]) -> str:
        """Return the plugin that refuses first, asking one by one (for records only)."""
        asked = [arguments[name] for name in QUESTIONS[question].parameters[1:]]
        for each in in_turn(self._hook(question)):
            said: Any = each.function(session, *asked)
            if said is not None and said[0]:
                return each.plugin_name
        return ""

    # -- nodes -----------------------------------------------------------------------------------

    def node_score(self, session: Session, shape: int, rows: RowVec, extra: IntVec) -> FloatVec:
        """Return scores ``(K,)``; all score alike without an answer."""
        asker = self.speaking(session, "node_score")
        score: FloatVec | None = None if asker is None else asker(session, shape, rows, extra)
        return np.zeros(len(rows)) if score is None else score

    def has_node_sets(self, session: Session) -> bool:
        """Tell whether jobs may have sets of nodes in this cycle."""
        speaks = self.speaking(session, "node_sets") is not None
        return speaks or self._is_level_unserved(session)

    def has_subgroup_sets(self, session: Session) -> bool:
        """Tell whether subgroups may have sets of nodes in this cycle."""
        return self.speaking(session, "subgroup_sets") is not None

    def node_sets(
        self,
        session: Session,
        action: str,
        job: int,
        ask: Amounts,
        shapes: Sequence[tuple[int, int]],
    ) -> NodeSets | None:
        """Return the sets to try for a job, the best first; None for all nodes.

        If no plugin honors topology constraints, a job that requires a level has no set: a
        condition is not ignored.
        """
        if self._is_level_unserved(session):
            root = session.jobs.structure.get(job)
            if root is not None and _requires_level(root):
                return NodeSets(code=Refusal.UNSUPPORTED)
        asker = self.speaking(session, "node_sets")
        return None if asker is None else asker(session, action, job, ask, shapes)

    def _is_level_unserved(self, session: Session) -> bool:
        """Tell whether any job requires a level of a topology, and no plugin honors that."""
        structure, found = session.jobs.structure, session.found
        if not structure or any(it.plugin.honors_topology for it in self._settings("node_sets")):
            return False
        if _REQUIRES_LEVEL not in found:
            found[_REQUIRES_LEVEL] = any(map(_requires_level, structure.values()))
        return bool(found[_REQUIRES_LEVEL])

    # -- words -----------------------------------------------------------------------------------

    def eviction_reason(
        self, session: Session, claim: Claim, units: Sequence[Unit]
    ) -> Callable[[Session], EvictionReason] | None:
        """Return a function that makes the reason of a claim's evictions, or None."""
        made = self._ask["eviction_reason"](session, claim, units)
        settings = self._settings("eviction_reason")
        kinds = frozenset(kind for each in settings for kind in each.plugin.eviction_kinds)
        return None if made is None else partial(_evicted_because, made, kinds)


def _requires_level(root: SubGroup) -> bool:
    wishes = (group.topology for group in root.groups())
    return any(wish is not None and wish.is_condition for wish in wishes)


def _evicted_because(
    made: Callable[..., str | EvictionReason], kinds: frozenset[str], session: Session
) -> EvictionReason:
    """Return a plugin's reason, or a substitute if it fails: the cycle may be long over.

    Kinds that no plugin declares are left out: they become labels of a metric.
    """
    try:
        said = made(session)
        if not isinstance(said, EvictionReason):
            return EvictionReason(str(said))
        known = {int(row): kind for row, kind in said.kinds.items() if kind in kinds}
        return EvictionReason(str(said.sentence), known)
    except Exception as error:  # noqa: BLE001 - any failure of a plugin is contained
        failure = f"{type(error).__name__}: {error}"
        return EvictionReason(f"evicted (the policy failed to say why: {failure})")
