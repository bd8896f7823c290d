"""Where nodes and pods are, by node pool, and in which pools there may be room that was not."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kaisched.core.axis import TaskState
from kaisched.objects import labels

if TYPE_CHECKING:
    from kaisched.cluster.translate import PodRow
    from kaisched.objects.node import Node


class Whereabouts:
    """The pool of each node and the node of each pod, of all pools."""

    def __init__(self) -> None:
        """Know none."""
        self.changes: Counter[str] = Counter()
        """By pool, how often something there may have made room."""
        self.pool_of_node: dict[str, str] = {}
        self._said: dict[str, tuple[object, ...]] = {}
        """What each node has last said that could matter to a pod."""
        self._node_of_pod: dict[str, str] = {}

    def note_node(self, node: Node) -> bool:
        """Note a node that came or changed; tell whether its pool is another than before.

        Nodes report again and again that nothing has changed: that makes no room.
        """
        said = node.metadata.labels, node.spec, node.status
        if self._said.get(node.name) == said:
            return False
        self._said[node.name] = said
        pool = labels.node_pool_of(node.metadata)
        self.changes[pool] += 1
        before, self.pool_of_node[node.name] = self.pool_of_node.get(node.name), pool
        return before != pool

    def forget_node(self, name: str) -> None:
        """Forget a node that is gone."""
        self.pool_of_node.pop(name, None)
        self._said.pop(name, None)

    def pods_on(self, node: str) -> list[str]:
        """Return the pods on a node, by name."""
        return sorted(pod for pod, at in self._node_of_pod.items() if at == node)

    def pool_of(self, pod: PodRow) -> str:
        """Return the pool that has a pod by its node; empty if it says itself, or none has."""
        if pod.state == TaskState.GONE or labels.NODE_POOL in pod.meta.labels:
            return ""
        return self.pool_of_node.get(pod.node, "")

    def note_pod(self, pod: PodRow) -> None:
        """Note where a pod is; one that has ended makes room."""
        if pod.node and pod.state != TaskState.GONE:
            self._node_of_pod[pod.key] = pod.node
        else:
            self.forget_pod(pod.key)

    def forget_pod(self, key: str) -> None:
        """Forget a pod that has ended or is gone: there is room where it was."""
        left = self._node_of_pod.pop(key, None)
        if left in self.pool_of_node:
            self.changes[self.pool_of_node[left]] += 1
