"""A session about queues alone, to ask plugins about positions that a case gives outright."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kaisched import Arguments, Plugin, hookimpl
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import FIXED
from kaisched.framework.memory import Memory
from kaisched.framework.plugins.plugin import PluginSetting
from kaisched.framework.policy import Policy
from kaisched.framework.session.session import Session
from kaisched.testing.builder import Job, add_job
from kaisched.units import UNLIMITED
from tests.conformance import policy as policies
from tests.conformance.amounts import RESOURCES, ROWS, Scale

PLENTY = 1 << 40
ELSEWHERE = "elsewhere"
PLUGINS = ("proportion", "priority", "elastic", "subgrouporder", "taskorder")


class GivenShares(Plugin):
    """Answers the fair shares that a case states; stands first, so proportion is not asked."""

    name = "given-shares"

    class Arguments(Arguments):
        """Fair shares as rows ``(R, Q)``."""

        share: tuple[tuple[int, ...], ...]

    @hookimpl
    def fair_share(self, session: Session) -> np.ndarray:
        """Return what is stated."""
        return np.array(self.arguments.share, np.int64)


def bounds(scale: Scale, queue: Mapping[str, Any], field: str) -> dict[str, int]:
    """Return finite amounts of a queue's share objects by our resource names."""
    amounts = {
        FIXED[row]: scale.amount(name, queue[name][field])
        for name, row in ROWS.items()
        if queue.get(name)
    }
    return {name: amount for name, amount in amounts.items() if amount != UNLIMITED}


def queue_row(
    scale: Scale, queue: Mapping[str, Any], *, quota: str = "deserved", limit: str = "max_allowed"
) -> QueueRow:
    """Return a queue of a case; without a field named, there is no bound of that sort."""
    return QueueRow(
        queue["id"],
        queue["parent"] or "",
        created_s=float(queue.get("created_order") or 0),
        priority=queue.get("priority") or 0,
        quota=bounds(scale, queue, quota) if quota else {},
        limit=bounds(scale, queue, limit) if limit else {},
    )


def store_of(
    queues: Sequence[QueueRow], jobs: Sequence[Job] = (), total: np.ndarray | None = None
) -> RowStore:
    """Return a store with one node that offers ``total``, on which nothing runs.

    Room never is the question here, so there is plenty on a node ``ELSEWHERE`` that is not ready:
    it is part of no total, and no filter is asked. What runs, runs there.
    """
    store = RowStore()
    for queue in queues:
        store.put_queue(queue)
    if total is not None:
        amounts = {name: int(total[row]) for row, name in enumerate(FIXED)}
        store.put_node(NodeRow("total", {**amounts, "pods": PLENTY}))
    plenty = dict.fromkeys(FIXED, PLENTY)
    store.put_node(NodeRow(ELSEWHERE, plenty, is_ready=False))
    for job in jobs:
        add_job(store, job)
    return store


def session_of(
    store: RowStore,
    fair_share: Mapping[str, np.ndarray] | None = None,
    arguments: Mapping[str, Mapping[str, Any]] | None = None,
) -> Session:
    """Open a session; ``fair_share`` by queue name stands instead of the division's answer.

    ``arguments`` are those of plugins by name, in KAI's words.
    """
    given_to = arguments or {}
    named = [{"name": name, "arguments": given_to.get(name)} for name in PLUGINS]
    policy = policies.build(named, [])
    snapshot = store.snapshot()
    if fair_share is not None:
        share = np.zeros((RESOURCES, len(snapshot.queues)), np.int64)
        for name, column in fair_share.items():
            share[:, snapshot.queues.row_of_name[name]] = column
        given = GivenShares(GivenShares.Arguments(share=share.tolist()))
        policy = Policy((PluginSetting(given), *policy.plugins), policy.actions)
    session = Session(snapshot, None, policy, 0.0, Memory(), policy.questions)
    policy.questions.open(session)
    if session.failures:
        raise RuntimeError(f"plugins failed: {session.failures}")
    return session
