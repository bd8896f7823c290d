"""Conformance kit for plugins: checks the promises that the host relies on in hook answers.

``check_plugin(MyPlugin, {"factor": 2})`` opens sessions on varied clusters, asks each question that
the plugin answers and checks the answers: shapes and types, scores within [0, 1], equal answers
when asked twice and by two instances, row answers that do not depend on the other rows, no writes,
and no name of a session that its view lacks. It raises AssertionError with all faults.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import GPU, IntVec, TaskState
from kaisched.core.constraints import Constraints, PodTerm, Requirement, Taint
from kaisched.core.usage import Usage
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.plugins.loader import answered_questions, contract_fault, typed_arguments
from kaisched.framework.plugins.plugin import Plugin, PluginSetting
from kaisched.framework.plugins.validity import head_start_fault, row_faults
from kaisched.framework.policy import Policy
from kaisched.framework.session.session import Session
from kaisched.testing.builder import NOW_S, ClusterBuilder, Group, policy_of
from kaisched.testing.guard import BeyondViewError, GuardedSession

_ZONE: Final = "topology.kubernetes.io/zone"


def samples() -> dict[str, Callable[[], RowStore]]:
    """Return makers of stores by name; each call makes a new, equal store."""
    return {"empty": _empty, "idle": _idle, "busy": _busy}


def _empty() -> RowStore:
    """Make a cluster with nothing but a queue."""
    return ClusterBuilder().queue("a").store()


def _idle() -> RowStore:
    """Make a cluster with room for all jobs."""
    return (
        ClusterBuilder()
        .node("n0", gpu=8)
        .node("n1", gpu=4)
        .node("cpu", cpu=64)
        .queue("a", deserved=2)
        .queue("b", deserved=2, weight=3)
        .job("a1", queue="a", tasks=3, min_tasks=2)
        .job("b1", queue="b", gpu=0, cpu=4)
        .store()
    )


def _busy() -> RowStore:
    """Make queues at their bounds, pods in every state, constraints and subgroups."""
    builder = (
        ClusterBuilder()
        .node("n0", gpu=4, labels={_ZONE: "east"})
        .node("n1", gpu=4, labels={_ZONE: "west"}, taints=[Taint("gpu", "yes", "NoSchedule")])
        .node("n2", gpu=2, is_unschedulable=True)
        .node("n3", cpu=8, memory=16, labels={_ZONE: "east"})
        .queue("top", deserved=6, limit=8)
        .queue("a", parent="top", deserved=2, limit={"gpu": 3, "cpu": 12})
        .queue("b", parent="top", deserved=0, weight=2, priority=200)
        .queue("c", deserved=None)
        .job("a1", queue="a", tasks=4, min_tasks=2, running={"n0": 2})
        .job("a2", queue="a", gpu=2, priority=100, tasks=2)
        .job("b1", queue="b", tasks=3, min_tasks=1, running={"n1": 1}, leaving={"n0": 1})
        .job("b2", queue="b", tasks=2, priority=75, on=["n0", "n1"])
        .job("c1", queue="c", gpu=0, tasks=2, running={"n3": 1}, labels={"app": "db"})
        .job("lost", queue="nowhere")
    )
    tree = Group("", None, (Group("lead", 1), Group("work", 2)))
    podsets = ["lead", "work", "work", "work"]
    builder.job("c2", queue="c", tasks=4, groups=tree, podsets=podsets, running={"n0": 1})
    store = builder.store()
    label_set = store.labels.intern("default", {"app": "db"})
    near = PodTerm(_ZONE, ("default",), False, (Requirement("app", "In", ("db",)),))
    apart = Constraints(pod_affinity=(near,), pod_anti_affinity=(near,), label_set=label_set)
    store.intern_shape({"gpu": 1000, "cpu": 1000}, apart)
    store.intern_shape({"cpu": 500}, Constraints(host_ports=(("TCP", "0.0.0.0", 80),)))  # noqa: S104
    return store


Answer = Any
_INT: Final = "i"
_NUMBER: Final = "if"
_FLOAT: Final = "f"


@dataclass(frozen=True)
class _Question:
    """A question about rows: their number, how to ask, and the form of an answer."""

    name: str
    count: int
    ask: Callable[[IntVec], Answer]
    kinds: str
    is_order: bool = False
    key_names: Sequence[str] = ()
    """The names that the plugin gives its keys; empty for none."""
    low: float = -np.inf
    high: float = np.inf


def check_plugin(plugin: type[Plugin], arguments: Mapping[str, Any] | None = None) -> None:
    """Check a plugin class with the arguments a shard would give it.

    Raises:
        AssertionError: a promise is broken; the message has a line for each one.
        ConfigError: the arguments do not fit the plugin's own model.

    """
    fault = contract_fault(plugin, plugin.name)
    if fault:
        raise AssertionError(f"plugin {plugin.name}: {fault}")
    typed = typed_arguments(plugin, arguments or {}, "")
    make = partial(plugin, typed)
    faults: dict[str, None] = {}
    for name, build in samples().items():
        for has_moved in (False, True):
            first, second = make(), make()
            one, other = (_open(build, each, has_moved) for each in (first, second))
            before = _photograph(one)
            where = f"(cluster: {name}{', after moves' * has_moved})"
            try:
                for fault in _faults(first, second, one, other):
                    faults[f"{fault} {where}"] = None
            except BeyondViewError as error:
                faults[f"{error} {where}"] = None
            if _photograph(one) != before:
                faults[f"something wrote to the session (cluster: {name})"] = None
            if vars(first) != vars(make()):
                faults["an instance holds more than its arguments after being asked"] = None
    if faults:
        raise AssertionError("\n".join([f"plugin {plugin.name}:", *faults]))


def _open(build: Callable[[], RowStore], plugin: Plugin, has_moved: bool) -> Session:
    """Open a session with the plugin in the default policy, instead of a plugin with its name."""
    default = policy_of(actions=["allocate"])
    others = tuple(each for each in default.plugins if each.plugin.name != plugin.name)
    policy = Policy((PluginSetting(plugin), *others), default.actions)
    snapshot = build().snapshot()
    # Once without history and once with the same history for both instances.
    parts = np.arange(snapshot.allocated.size).reshape(snapshot.allocated.shape) * 10_000_000
    usage = Usage(parts, age_s=0.0, coverage=1.0) if has_moved else None
    session = GuardedSession(snapshot, usage, policy, NOW_S, Memory(), policy.questions)
    policy.questions.open(session)
    if session.failures:
        raise AssertionError("\n".join(map(str, session.failures)))
    if has_moved:
        # Moves are by the default policy: with a wrong plugin an action could go on for ever.
        result, _ = run_cycle(snapshot, None, default, NOW_S, Memory())
        for bind in result.binds:
            session.ledger.set_state(bind.task, TaskState.ALLOCATED, bind.node_row)
            plugin.on_moves(session, np.array([bind.task]), np.array([bind.node_row]), 1)
    return session


def _photograph(session: Session) -> list[bytes]:
    """Return the bytes of every array of the session; arrays of the snapshot are read-only."""
    ledger, capacity = session.ledger, session.capacity
    arrays: list[Any] = [capacity.idle, capacity.releasing, ledger.held, ledger.state]
    arrays += [ledger.job_active, ledger.job_pending, ledger.podset_active, ledger.node_of_task]
    return [array.tobytes() for array in arrays]


def _faults(first: Plugin, second: Plugin, one: Session, other: Session) -> Iterator[str]:
    """Ask everything that the plugin answers; yield the faults."""
    answered = answered_questions(type(first))
    twins = zip(_questions(first, one), _questions(second, other), strict=True)
    for question, twin in twins:
        if question.name in answered:
            yield from _of_rows(question, twin)
    for name, check in _WHOLE.items():
        if name in answered:
            yield from (f"{name}: {fault}" for fault in check(first, one))
    if first.is_score_rising and getattr(first, "node_score", None) is not None:
        yield from _falling_scores(first, one)


def _falling_scores(plugin: Plugin, session: Session) -> Iterator[str]:
    """Check the promise of rising scores while pods are added as long as they fit."""
    rows = np.arange(len(session.nodes))
    for shape in range(session.shapes.request.shape[1]):
        request = session.shapes.request[:, shape][:, None]
        last: Any = None
        for extra in range(4):
            fits = (request * (extra + 1) <= session.capacity.idle).all(axis=0)
            score: Any = plugin.node_score(session, shape, rows, np.full_like(rows, extra))
            if last is not None and score is not None and (score < last)[fits].any():
                yield "node_score: it promises rising scores, but they fall as pods are added"
                return
            last = score


def _questions(plugin: Plugin, session: Session) -> Iterator[_Question]:
    """Yield every question about rows, for all rows."""
    queues, jobs, nodes = len(session.queues), len(session.jobs.name), len(session.nodes)
    held, ask = session.ledger.held, session.requested - session.held
    held_fixed = session.held_non_preemptible

    def queue_order(rows: IntVec) -> Answer:
        return plugin.queue_order(session, rows, held[:, rows], ask[:, rows])

    def queue_gate(rows: IntVec) -> Answer:
        job = rows % max(jobs, 1)
        columns = (ask[:, rows], held[:, rows], held_fixed[:, rows])
        return plugin.queue_gate(session, "allocate", rows, job, *columns)

    def subgroup_order(rows: IntVec) -> Answer:
        sets = session.podsets
        return plugin.subgroup_order(session, sets.active[rows], sets.minimum[rows])

    tasks = len(session.tasks.name)
    order = partial(_Question, kinds=_NUMBER, is_order=True)
    yield order("queue_order", queues, queue_order, key_names=plugin.key_names("queue_order"))
    by_job = partial(plugin.job_order, session)
    yield order("job_order", jobs, by_job, key_names=plugin.key_names("job_order"))
    yield order("task_order", tasks, partial(plugin.task_order, session))
    yield order("subgroup_order", len(session.podsets.name), subgroup_order)
    yield _Question("job_gate", jobs, partial(plugin.job_gate, session, "allocate"), _INT)
    if jobs:
        yield _Question("queue_gate", queues, queue_gate, _INT)
    flat = np.flatnonzero(session.jobs.podset_count == 1)
    batch = partial(_batch, plugin, session, flat)
    yield _Question("batch_size", len(flat), batch, _INT, low=0)
    # A plugin may take its answer away where its arguments do not ask for one.
    has_scores = getattr(plugin, "node_score", None) is not None
    for shape in range(session.shapes.request.shape[1]):
        filtered = partial(plugin.node_filter, session, shape)
        yield _Question("node_filter", nodes, filtered, _INT)
        yield _Question("node_room", nodes, partial(plugin.node_room, session, shape), _INT, low=0)
        for extra in (np.zeros(nodes, np.int64), np.arange(nodes)) if has_scores else ():
            score = partial(_score, plugin, session, shape, extra)
            yield _Question("node_score", nodes, score, _FLOAT, low=0, high=1)


def _batch(plugin: Plugin, session: Session, jobs: IntVec, rows: IntVec) -> Answer:
    return plugin.batch_size(session, jobs[rows])


def _score(plugin: Plugin, session: Session, shape: int, extra: IntVec, rows: IntVec) -> Answer:
    return plugin.node_score(session, shape, rows, extra[rows])


def _of_rows(question: _Question, twin: _Question) -> Iterator[str]:
    """Check one question about rows, and the equal answer of another instance."""
    name, rows = question.name, np.arange(question.count)
    given = rows.copy()
    answer = question.ask(given)
    if not np.array_equal(given, rows):
        yield f"{name}: it wrote to its arguments"
    if answer is None:
        return
    columns = _columns(question, answer)
    if isinstance(columns, str):
        yield f"{name}: {columns}"
        return
    for column in columns:
        if (
            np.isnan(column).any()
            or (column < question.low).any()
            or (column > question.high).any()
        ):
            yield f"{name}: an answer outside [{question.low}, {question.high}]"
    if not _same(columns, _columns(question, question.ask(rows.copy()))):
        yield f"{name}: asked twice, it answers differently"
    if not _same(columns, _columns(question, twin.ask(rows.copy()))):
        yield f"{name}: another instance answers differently"
    for some in (rows[::-1], rows[::2], rows[:1]):
        asked = question.ask(some.copy())
        part = None if asked is None else _columns(question, asked, len(some))
        wanted = [column[some] for column in columns]
        # No answer for rows without objections equals an answer of 0 for each.
        is_silent = asked is None and not any(column.any() for column in wanted)
        if not is_silent and not _same(wanted, part):
            yield f"{name}: a row's answer depends on the other rows asked about"
            break


def _columns(
    question: _Question, answer: Answer, count: int | None = None
) -> list[np.ndarray[Any, Any]] | str:
    """Return the answer's columns, or its fault as a whole."""
    if question.is_order and not isinstance(answer, tuple):
        return f"it answered {type(answer).__name__}, not a tuple of key columns"
    shape = (question.count if count is None else count,)
    columns = list(answer) if question.is_order else [answer]
    if question.key_names and len(question.key_names) != len(columns):
        return f"it names {len(question.key_names)} keys, and answers {len(columns)}"
    for column in columns:
        if not isinstance(column, np.ndarray) or column.dtype.kind not in question.kinds:
            kind = getattr(column, "dtype", type(column).__name__)
            return f"it answered {kind}, not an array of kind {question.kinds!r}"
        if column.shape != shape:
            return f"it answered shape {column.shape}, not {shape}"
    return columns


def _same(one: Any, other: Any) -> bool:
    if not isinstance(one, list) or not isinstance(other, list) or len(one) != len(other):
        return False
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def _fair_share(plugin: Plugin, session: Session) -> Iterator[str]:
    share: Answer = plugin.fair_share(session)
    if share is not None:
        shape = (len(session.axis), len(session.queues))
        if not isinstance(share, np.ndarray) or share.shape != shape or share.dtype != np.int64:
            yield f"not an int64 array of shape {shape}"
        elif (share < 0).any():
            yield "a share below 0"
        elif not np.array_equal(share, np.asarray(plugin.fair_share(session))):
            yield "asked twice, it answers differently"


def _weights(plugin: Plugin, session: Session) -> Iterator[str]:
    queue = np.arange(len(session.queues))
    weights = np.full(len(queue), 1.0 / max(len(queue), 1))
    given = (np.zeros_like(queue), queue, np.zeros_like(queue), np.ones(len(queue), np.bool_))
    answer: Answer = plugin.over_quota_weights(session, *given, weights.copy())
    if answer is not None:
        if not isinstance(answer, np.ndarray) or answer.shape != weights.shape:
            yield f"not an array of shape {weights.shape}"
        elif not np.isfinite(answer).all():
            yield "a weight that is no finite number"


def _head_start(plugin: Plugin, session: Session) -> Iterator[str]:
    queue = np.arange(len(session.queues))
    weights = np.full(len(queue), 1.0 / max(len(queue), 1))
    columns = (np.full_like(queue, GPU), queue, np.zeros_like(queue))
    wants, surplus = session.requested[GPU], np.full_like(queue, int(session.snapshot.total[GPU]))
    has = np.zeros_like(queue)
    ahead: Answer = plugin.head_start(session, *columns, weights, has, wants.copy(), surplus)
    if ahead is not None:
        fault = head_start_fault(ahead, (session, *columns, weights, has, wants, surplus))
        if fault:
            yield fault


def _next_batch(plugin: Plugin, session: Session) -> Iterator[str]:
    for job in session.jobs.structure:
        tasks: Answer = plugin.next_batch(session, job)
        if tasks is None:
            continue
        rows = np.asarray(tasks).tolist()
        waiting = [t for t in session.jobs.tasks[job] if session.ledger.state[t] == 0]
        if len(set(rows)) != len(rows) or not set(rows) <= set(waiting):
            yield "not a set of pending tasks of the job"


def _close(plugin: Plugin, session: Session) -> Iterator[str]:
    facts = plugin.session_close(session)
    try:
        again = json.loads(json.dumps(facts))
    except (TypeError, ValueError) as error:
        yield f"facts that JSON cannot hold: {error}"
    else:
        if again != facts:
            yield "facts that change on their way through JSON"


def _moves(plugin: Plugin, session: Session) -> Iterator[str]:
    answer: Answer = plugin.on_moves(session, np.zeros(1, np.int64), np.zeros(1, np.int64), 1)
    plugin.on_moves(session, np.zeros(1, np.int64), np.zeros(1, np.int64), -1)
    is_pair = isinstance(answer, tuple) and len(answer) == 2  # noqa: PLR2004 - shapes and rows
    if answer is not None and not (is_pair and all(np.asarray(x).ndim == 1 for x in answer)):
        yield "not a pair of arrays (shapes, node rows)"


def _workloads(plugin: Plugin, session: Session) -> Iterator[str]:
    del session
    rows: Answer = plugin.workloads()
    for row in rows:
        yield from row_faults(row)
    if list(plugin.workloads()) != list(rows):
        yield "asked twice, it answers differently"


_WHOLE: Final[dict[str, Callable[[Plugin, Session], Iterator[str]]]] = {
    "fair_share": _fair_share,
    "over_quota_weights": _weights,
    "head_start": _head_start,
    "next_batch": _next_batch,
    "session_close": _close,
    "on_moves": _moves,
    "workloads": _workloads,
}
