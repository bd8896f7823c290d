"""Unit cases of minimum runtimes: through the columns of the plugin, and through its answers."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kaisched import Claim, Units
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import UNSET_S, QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import FIXED, TaskState
from kaisched.errors import ConfigError
from kaisched.framework.memory import Memory
from kaisched.framework.plugins.loader import installed_plugins
from kaisched.framework.plugins.plugin import PluginSetting
from kaisched.framework.policy import Policy
from kaisched.framework.session.session import Session
from kaisched.testing.builder import Group, Job, Task, add_job
from kaisched_plugins.minruntime import inherited, seen_from

NOW_S = 1_000_000.0
NODE = "n0"
NAME = "minruntime"


def min_runtime(case: dict[str, Any]) -> str:
    """Answer one question about minimum runtimes."""
    asked, expected = case["input"], case["expected"]
    function = case["function"]
    if function in _ANSWERS:
        got = _ANSWERS[function](asked)
    else:
        got = _allowed(function.partition("_")[0], asked, is_scenario="scenario" in function)
    wanted = {name: value for name, value in expected.items() if name in got}
    return "" if got == wanted else f"expected {expected}, got {got}"


def _row(queue: Mapping[str, Any]) -> QueueRow:
    own = {
        name: UNSET_S if queue[name] is None else float(queue[name])
        for name in ("preempt_min_runtime_s", "reclaim_min_runtime_s")
    }
    return QueueRow(queue["id"], queue["parent"] or "", **own)


def _store(asked: Mapping[str, Any], *more: Mapping[str, Any] | None) -> RowStore:
    """Return the queues; one with a parent that is missing stands alone, with what it says."""
    store = RowStore()
    known = {queue["id"] for queue in asked["queues"]}
    for queue in (*asked["queues"], *filter(None, more)):
        is_orphan = queue["parent"] not in known
        store.put_queue(_row({**queue, "parent": None} if is_orphan else queue))
    return store


def _preempt(asked: Mapping[str, Any]) -> dict[str, Any]:
    victim = asked["victim_queue"]
    queues = _store(asked, victim).snapshot().queues
    column = inherited(queues.tree, queues.preempt_min_runtime_s, float(asked["default_preempt_s"]))
    return {"seconds": column[queues.row_of_name[victim["id"]] if victim else -1]}


def _reclaim(asked: Mapping[str, Any]) -> dict[str, Any]:
    victim, taker = asked["victim_queue"], asked["pending_queue"]
    queues = _store(asked, victim, taker).snapshot().queues
    column = inherited(queues.tree, queues.reclaim_min_runtime_s, float(asked["default_reclaim_s"]))
    if victim is None or taker is None:
        return {"seconds": column[-1]}
    if asked["method"] == "lca":
        column = seen_from(queues.tree, queues.row_of_name[taker["id"]], column)
    return {"seconds": column[queues.row_of_name[victim["id"]]]}


def _path(asked: Mapping[str, Any]) -> dict[str, Any]:
    queues = _store(asked).snapshot().queues
    path = queues.tree.path(queues.row_of_name[asked["queue"]["id"]])
    return {"path": [queues.name[row] for row in reversed(path.tolist())]}


def _parsed(asked: Mapping[str, Any]) -> dict[str, Any]:
    try:
        made = installed_plugins().make(NAME, {"defaultPreemptMinRuntime": asked["text"]})
    except ConfigError as error:
        return {"zero": f"refused: {error}"}
    return {"zero": made.plugin.arguments.default_preempt_min_runtime in {"0", "0s"}}


_ANSWERS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "preempt": _preempt,
    "reclaim": _reclaim,
    "hierarchy_path": _path,
    "parse": _parsed,
}


def _allowed(action: str, asked: Mapping[str, Any], *, is_scenario: bool) -> dict[str, Any]:
    """Ask the plugin whether victims may go: as jobs, or as the units that a scenario takes."""
    setting = installed_plugins().make(
        NAME,
        {
            "defaultPreemptMinRuntime": f"{asked['default_preempt_s']}s",
            "defaultReclaimMinRuntime": f"{asked['default_reclaim_s']}s",
            "reclaimResolveMethod": asked["reclaim_method"],
        },
    )
    victims = asked["victims"] if is_scenario else [asked["victim"]]
    session = _session(asked, victims, setting)
    claim = Claim(
        action,
        len(victims),
        session.queues.row_of_name[asked["pending"]["queue"]],
        np.zeros(len(FIXED), np.int64),
    )
    if is_scenario:
        units = _units(session, victims)
        codes = setting.plugin.scenario_gate(session, claim, units, np.ones(len(units), np.bool_))
    else:
        codes = setting.plugin.victim_filter(session, claim, np.arange(len(victims)))
    return {"allowed": codes is None or not codes.any()}


def _session(
    asked: Mapping[str, Any], victims: list[Mapping[str, Any]], setting: PluginSetting
) -> Session:
    store = _store(asked)
    store.put_node(NodeRow(NODE, dict.fromkeys(FIXED, 1 << 40)))
    for number, job in enumerate(victims):
        name = f"victim-{number}"
        pods = [
            Task(f"{name}-{pod}", state=TaskState.RUNNING, node=NODE)
            for pod in range(job["running_pods"])
        ]
        started_s = NOW_S - job["started_ago_s"]
        root = Group("default", job["min_available"])
        add_job(store, Job(name, job["queue"], pods, started_s=started_s, root=root))
    add_job(store, Job("taker", asked["pending"]["queue"], [Task("taker-0")]))
    rules = Policy((setting,), ())
    return Session(store.snapshot(), None, rules, NOW_S, Memory(), rules.questions)


def _units(session: Session, victims: list[Mapping[str, Any]]) -> Units:
    """Return the units that are taken: elastic pods one by one, and the core for any pod more."""
    job: list[int] = []
    is_core: list[bool] = []
    for row, victim in enumerate(victims):
        spare = victim["running_pods"] - victim["min_available"]
        cores = [False] * min(spare, victim["tasks_taken"])
        cores += [True] * (victim["tasks_taken"] > spare)
        job += [row] * len(cores)
        is_core += cores
    rows = np.array(job)
    return Units(
        job=rows,
        queue=session.jobs.queue_of_job[rows],
        amounts=np.zeros((len(FIXED), len(rows)), np.int64),
        is_core=np.array(is_core),
        tasks=tuple(() for _ in job),
    )
