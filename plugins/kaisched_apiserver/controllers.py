"""A stand-in for the few controllers without which a cluster makes no sense.

Budgets get their status, namespaces that are deleted empty and go, objects go with their owner,
Jobs, ReplicaSets and Deployments make what they are there to make, and claims on devices are made
from templates and given back.
"""

from __future__ import annotations

from typing import Final

from kaisched_apiserver.budgets import renewed
from kaisched_apiserver.device_claims import ClaimController
from kaisched_apiserver.owners import Owners, owners_of
from kaisched_apiserver.server import ApiServer
from kaisched_apiserver.storage import Change, Collection, Record
from kaisched_apiserver.workloads import Workloads

_BUDGETS: Final = ("policy", "poddisruptionbudgets")
_NAMESPACES: Final = ("", "namespaces")
_PODS: Final = ("", "pods")
_OWN_NOTHING: Final = (_PODS, ("", "events"), ("coordination.k8s.io", "leases"), _NAMESPACES)
_PAUSE_S: Final = 0.05
"""Changes within this time are worked on together."""


class Controllers:
    """Plays the controller manager, in the server's thread."""

    def __init__(self, server: ApiServer) -> None:
        """Begin at once, also for what is there already."""
        self._server = server
        self._api = server.api
        self._storage = server.api.storage
        self._owners = Owners(self._storage)
        self._workloads = Workloads(server, self._owners)
        self._claims = ClaimController(server)
        self._is_planned = False
        self._budgets_of: set[str] = set()
        self._ending: set[str] = set()
        self._gone: set[str] = set()
        server.call(self._begin)

    def _begin(self) -> None:
        self._storage.listeners.append(self._hear)
        for collection in self._storage.collections():
            for record in list(collection.records.values()):
                self._hear(collection, Change("ADDED", record.version, record, None))

    def _hear(self, collection: Collection, change: Change) -> None:
        record = change.record
        if collection.key in {_PODS, _BUDGETS}:
            self._budgets_of.add(record.namespace)
        if collection.key == _NAMESPACES and record.fields["status.phase"] == "Terminating":
            self._ending.add(record.name)
        if change.type == "DELETED" and collection.key not in _OWN_NOTHING:
            self._gone.add(record.uid)
        self._owners.hear(collection, change)
        self._workloads.hear(collection, change)
        self._claims.hear(collection, change)
        self._plan()

    def _plan(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            self._server.later(_PAUSE_S, self._work)

    def _work(self) -> None:
        self._is_planned = False
        gone, self._gone = self._gone, set()
        for uid in gone:
            self._end_owned(uid)
        self._workloads.work()
        self._claims.work()
        namespaces, self._budgets_of = self._budgets_of, set()
        budgets = self._storage.collection(_BUDGETS)
        for namespace in namespaces:
            for key in list(budgets.within(namespace)):
                self._renew(budgets.records[key])
        for namespace in sorted(self._ending):
            self._end_namespace(namespace)

    def _renew(self, budget: Record) -> None:
        new = renewed(self._storage, budget)
        if new != budget.object():
            self._storage.put(_BUDGETS, new)

    def _end_owned(self, uid: str) -> None:
        """Delete what only this owner held."""
        for key, record in self._owners.owned(uid):
            if all(it["uid"] == uid for it in owners_of(record)):
                self._let_go(key, record)

    def _end_namespace(self, namespace: str) -> None:
        record = self._storage.get(_NAMESPACES, namespace)
        if record is None:
            self._ending.discard(namespace)
            return
        is_empty = True
        for collection in self._storage.collections():
            if collection.key == _NAMESPACES:
                continue
            for key in list(collection.within(namespace)):
                self._let_go(collection.key, collection.records[key])
            is_empty = is_empty and not collection.within(namespace)
        if is_empty:
            self._ending.discard(namespace)
            self._storage.remove(_NAMESPACES, record)

    def _let_go(self, key: tuple[str, str], record: Record) -> None:
        resource = self._api.registry.kept(key)
        if resource is not None:
            self._api.writer.let_go(resource, record, {}, is_dry_run=False)
