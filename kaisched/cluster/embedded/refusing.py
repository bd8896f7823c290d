"""Refusals of binds, as an API server and a kubelet would give them."""

from __future__ import annotations

from collections.abc import Iterable

from kaisched.cluster.store import StateStore
from kaisched.framework.intents import Bind
from kaisched.objects.pod import Pod


def why_not_on(stores: Iterable[StateStore], bind: Bind, pod: Pod | None) -> str:
    """Return what API server and kubelet would object to; empty for nothing."""
    if pod is None:
        return "no such pod"
    if pod.spec.node_name:
        return f"already on {pod.spec.node_name}"
    if pod.spec.scheduling_gates:
        return "it has scheduling gates"
    for store in stores:
        rows = store.rows
        row = rows.row_of_node(bind.node)
        if row >= 0:
            short = rows.shortage(rows.row_of_task(pod.key), row)
            return f"out of {rows.axis.names[short]}" if short >= 0 else ""
    return f"no node {bind.node}"
