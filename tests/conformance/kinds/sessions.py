"""Unit cases about what enters a session: nodes, pods refused at once, plugin arguments."""

from typing import Any

from kaisched.cluster.claims.device_claims import DeviceClaims
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import FIXED, HOLDING_STATES, TaskState
from kaisched.core.constraints import Constraints
from kaisched.errors import ConfigError
from kaisched.framework.plugins.loader import installed_plugins
from kaisched.objects.shard import map_arguments
from kaisched.testing.builder import Task, add_foreign
from tests.conformance.amounts import ROWS, Scale
from tests.conformance.claims import CaseClaims, pod_of
from tests.conformance.cluster import STATES
from tests.conformance.kinds.gates import request_of
from tests.conformance.outcome import NotBuiltError

GPU_WORKER = "node-role.kubernetes.io/gpu-worker"
NODE = "node"
READ = {
    "relcaimerSaturationMultiplier": "reclaimer_utilization_multiplier",
    "kValue": "k_value",
}
"""Upstream's fields to our arguments."""


def node_resources_for_division(case: dict[str, Any]) -> str:
    """Return what a node adds to the total: its own less what other schedulers' pods hold there."""
    asked = case["input"]
    if (
        asked["restrict_nodes"]
        and asked["allocatable"]["gpu"]
        and GPU_WORKER not in asked["labels"]
    ):
        raise NotBuiltError("restricted node scheduling")
    scale = Scale.of(asked)
    store = RowStore()
    room = scale.column(asked["allocatable"], round_up=False)
    amounts = {name: int(room[row]) for row, name in enumerate(FIXED)}
    store.put_node(NodeRow(NODE, {**amounts, "pods": 1 << 20}, labels=asked["labels"]))
    for pod in asked["pods"]:
        state = STATES[pod["status"]]
        if pod["scheduler"] != asked["own_scheduler"] and HOLDING_STATES[state]:
            add_foreign(store, Task(pod["id"], request_of(scale, pod), state=state, node=NODE))
    total = store.snapshot().total
    for name, row in ROWS.items():
        got = scale.number(name, int(total[row]))
        if got != case["expected"][name]:
            return f"{name}: expected {case['expected'][name]}, got {got}"
    return ""


def pre_predicate(case: dict[str, Any]) -> str:
    """Tell whether each pending pod is refused before any node is looked at."""
    asked = case["input"]
    pods = [
        pod_of(
            task, job.get("namespace") or "default", 0.0, {}, Constraints(), TaskState.PENDING, ""
        )
        for job in asked["cluster"]["jobs"]
        for task in job["tasks"]
        if task["state"] == "Pending"
    ]
    known = DeviceClaims()
    if asked["feature_enabled"]:
        known = CaseClaims(asked["cluster"]).started(pods)
    asking = [known.noted(pod)[0] for pod in pods if pod.device_claims]
    refused = [it.fault or it.constraints.wait for it in asking]
    got = any(refused)
    want = case["expected"]["rejected"]
    return "" if got == want else f"expected rejected {want}, got {got} ({refused})"


def plugin_arguments(case: dict[str, Any]) -> str:
    """Make the plugin with the arguments stated; what is stated of its parts is upstream's own."""
    given: dict[str, Any] = {}
    stated = {}
    for each in case["expected"]:
        name = each["of"].rpartition(".")[2]
        if name.endswith("Arguments"):
            given, _ = map_arguments("proportion", each["value"][0])
        elif name in READ:
            stated[name] = each["value"][0]
    try:
        plugin = installed_plugins().make("proportion", given).plugin
    except ConfigError as error:
        return f"refused: {error}"
    for name, value in stated.items():
        got = getattr(plugin.arguments, READ[name])
        if got != value:
            return f"{name}: expected {value}, got {got}"
    return ""
