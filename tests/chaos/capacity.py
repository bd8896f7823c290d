"""No node is over its capacity, at any revision."""

from tests.chaos.promise import Promise


class WithinCapacity(Promise):
    NAME = "P1 no node over its capacity"

    def __init__(self, checker):
        super().__init__(checker)
        self._on, self._touched, self._over = {}, set(), {}

    def changed(self, event, before, after):
        if event.kind == "nodes":
            self._touched.add(event.facts.key)
        if event.kind != "pods":
            return
        if before is not None and before.holds_room:
            self._on.get(before.node, {}).pop(before.uid, None)
        if after is not None and after.holds_room:
            self._on.setdefault(after.node, {})[after.uid] = after
            if before is None or not before.holds_room:
                self._touched.add(after.node)

    def settle(self, event):
        touched, self._touched = self._touched, set()
        for name in touched:
            self._look(name, event)

    def _look(self, name, event):
        node, pods = self.cluster.nodes.get(name), self._on.get(name, {})
        if node is None or not node.room:
            return  # it is gone, or has not said yet what it has
        held = {}
        for pod in pods.values():
            for resource, much in pod.asks:
                held[resource] = held.get(resource, 0) + much
        room = dict(node.room)
        over = {it: much for it, much in held.items() if much > room.get(it, 0)}
        if over and self._over.get(name) != over:
            told = ", ".join(f"{held[it]} of {room.get(it, 0)} {it}" for it in sorted(over))
            pods = ", ".join(
                f"{it.key} ({it.gpus} GPU, {'leaving' if it.is_leaving else it.phase},"
                f" epoch {it.epoch or '-'})"
                for it in pods.values()
            )
            self.checker.breach(
                self.NAME, f"node {name}", event.order, event.at_s, f"{told}: {pods}"
            )
        self._over[name] = over
