"""What is known of the cluster right now, for the kubelets, the churn and the faults."""

import threading


class World:
    """The objects as they were heard last, and who is told of changes."""

    def __init__(self):
        self._objects = {kind: {} for kind in ("pods", "nodes", "podgroups", "queues", "leases")}
        self._listeners, self._lock = [], threading.Lock()

    def handle(self, event):
        with self._lock:
            known = self._objects[event.kind]
            if event.is_deleted:
                known.pop(event.facts.key, None)
            else:
                known[event.facts.key] = event.facts
        for listener in self._listeners:
            listener(event)

    def listen(self, listener):
        self._listeners.append(listener)

    def all(self, kind):
        with self._lock:
            return list(self._objects[kind].values())

    def get(self, kind, key):
        return self._objects[kind].get(key)

    @property
    def leader(self):
        """Who holds the lease, empty for nobody."""
        return next((it.holder for it in self.all("leases") if it.holder), "")
