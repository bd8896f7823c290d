"""A stand-in for the few controllers without which a cluster makes no sense."""

from __future__ import annotations

import copy
from typing import Any, Final

from kaisched_apiserver.kinds import CLAIMS, claims_of
from kaisched_apiserver.server import ApiServer
from kaisched_apiserver.statuses import ApiError
from kaisched_apiserver.storage import Change, Collection, Record, Storage, decode
from kaisched_apiserver.writing import renewed

# Who owns what, kept up to date so that nobody has to search for it.


class Owners:
    """The objects that name an owner, by the owner's identity."""

    def __init__(self, storage: Storage) -> None:
        """Know of nothing yet."""
        self._storage = storage
        self._owned: dict[str, dict[tuple[tuple[str, str], str], None]] = {}

    def handle(self, collection: Collection, change: Change) -> None:
        """Note an object that came or went. Owners are named at creation."""
        if change.type == "MODIFIED":
            return
        place = (collection.key, change.record.key)
        for owner in owners_of(change.record):
            mine = self._owned.setdefault(owner["uid"], {})
            if change.type == "ADDED":
                mine[place] = None
            else:
                mine.pop(place, None)
                if not mine:
                    del self._owned[owner["uid"]]

    def owned(self, uid: str) -> list[tuple[tuple[str, str], Record]]:
        """Return what an owner has, the oldest first, with where it is kept."""
        places = self._owned.get(uid, ())
        return [
            (key, record)
            for key, name in places
            if (record := self._storage.get(key, name)) is not None
        ]


def owners_of(record: Record) -> list[dict[str, Any]]:
    """Return the ownerReferences of an object."""
    if b'"ownerReferences"' not in record.body:
        return []
    return record.object()["metadata"].get("ownerReferences") or []


# Stand-ins for the controllers of Jobs, ReplicaSets and Deployments: just enough to have pods.


_JOBS: Final = ("batch", "jobs")
_SETS: Final = ("apps", "replicasets")
_DEPLOYMENTS: Final = ("apps", "deployments")
_PODS: Final = ("", "pods")
_KINDS: Final = (_DEPLOYMENTS, _SETS, _JOBS)
_JOB_NAME: Final = "batch.kubernetes.io/job-name"
_LEAVING: Final = b'"deletionTimestamp"'
_OF_KIND: Final = {"Job": _JOBS, "ReplicaSet": _SETS, "Deployment": _DEPLOYMENTS}


class Workloads:
    """Makes pods for what wants pods, and counts them."""

    def __init__(self, server: ApiServer, owners: Owners) -> None:
        """Have nothing to do yet."""
        self._owners = owners
        self._api = server.api
        self._storage = server.api.storage
        self._touched: set[tuple[tuple[str, str], str]] = set()

    def handle(self, collection: Collection, change: Change) -> None:
        """Remember what a change concerns."""
        record = change.record
        if collection.key in _KINDS and change.type != "DELETED":
            self._touched.add((collection.key, record.key))
        if collection.key in {_PODS, _SETS}:
            for owner in owners_of(record):
                key = _OF_KIND.get(owner["kind"])
                if key is not None:
                    self._touched.add((key, f"{record.namespace}/{owner['name']}"))

    def work(self) -> None:
        """Bring what was touched to what it asks for."""
        touched, self._touched = self._touched, set()
        for key, name in sorted(touched):
            record = self._storage.get(key, name)
            if record is None or _LEAVING in record.body:
                continue
            if key == _JOBS:
                self._job(record)
            elif key == _SETS:
                self._set(record)
            else:
                self._deployment(record)

    def _job(self, record: Record) -> None:
        job = record.object()
        spec = job["spec"]
        pods = self._owned(_PODS, record)
        phases = [it.fields["status.phase"] for it in pods]
        succeeded, failed = phases.count("Succeeded"), phases.count("Failed")
        active = len(pods) - succeeded - failed
        left = max(spec["completions"] - succeeded, 0)
        for _ in range(min(spec["parallelism"], left) - active):
            labels = {_JOB_NAME: record.name, "job-name": record.name}
            active += self._make_pod(record, job, {"restartPolicy": "Never"}, labels)
        now = self._api.writer.now()
        status = {"startTime": now, **(job.get("status") or {})}
        status |= {"active": active, "succeeded": succeeded, "failed": failed}
        if left == 0 and "completionTime" not in status:
            done = {"type": "Complete", "status": "True", "lastTransitionTime": now}
            status |= {"completionTime": now, "conditions": [done]}
        self._put_status(_JOBS, job, status)

    def _set(self, record: Record) -> None:
        obj = record.object()
        pods = [
            it
            for it in self._owned(_PODS, record)
            if it.fields["status.phase"] not in {"Succeeded", "Failed"}
        ]
        wanted = obj["spec"].get("replicas", 1)
        made = sum(self._make_pod(record, obj, {}, {}) for _ in range(wanted - len(pods)))
        resource = self._api.registry.must("", "pods")
        # Those that wait go before those that have a node.
        ordered = sorted(pods, key=lambda it: bool(it.fields["spec.nodeName"]))
        for pod in ordered[: max(len(pods) - wanted, 0)]:
            self._api.writer.let_go(resource, pod, {}, is_dry_run=False)
        running = sum(it.fields["status.phase"] == "Running" for it in pods)
        status = {"replicas": len(pods) + made, "readyReplicas": running}
        self._put_status(_SETS, obj, status)

    def _deployment(self, record: Record) -> None:
        """Keep one ReplicaSet for it; a new template is not rolled out."""
        obj = record.object()
        sets = self._owned(_SETS, record)
        wanted = obj["spec"].get("replicas", 1)
        if not sets:
            new: dict[str, Any] = {
                "metadata": {
                    "generateName": f"{record.name}-",
                    "namespace": record.namespace,
                    "labels": dict(obj["spec"]["template"].get("metadata", {}).get("labels") or {}),
                    "ownerReferences": [_owner(obj)],
                },
                "spec": {**copy.deepcopy(obj["spec"]), "replicas": wanted},
            }
            self._api.create("apps", "replicasets", new)
            return
        replicas = sets[0].object()
        if replicas["spec"].get("replicas") != wanted:
            replicas["spec"]["replicas"] = wanted
            self._storage.put(_SETS, replicas)
        seen = replicas.get("status") or {}
        status = {key: seen[key] for key in ("replicas", "readyReplicas") if key in seen}
        self._put_status(_DEPLOYMENTS, obj, status)

    def _owned(self, key: tuple[str, str], owner: Record) -> list[Record]:
        found = self._owners.owned(owner.uid)
        return [it for kind, it in found if kind == key and _LEAVING not in it.body]

    def _make_pod(
        self, owner: Record, obj: dict[str, Any], spec: dict[str, Any], labels: dict[str, str]
    ) -> bool:
        template = copy.deepcopy(obj["spec"].get("template") or {})
        meta = template.get("metadata") or {}
        pod: dict[str, Any] = {
            "metadata": {
                "generateName": f"{owner.name}-",
                "namespace": owner.namespace,
                "labels": {**(meta.get("labels") or {}), **labels},
                "annotations": meta.get("annotations") or {},
                "ownerReferences": [_owner(obj)],
            },
            "spec": {**spec, **(template.get("spec") or {})},
        }
        try:
            self._api.create("", "pods", pod)
        except ApiError:
            return False  # a template that makes no pod is left alone
        return True

    def _put_status(
        self, key: tuple[str, str], obj: dict[str, Any], status: dict[str, Any]
    ) -> None:
        if obj.get("status") != status:
            self._storage.put(key, {**obj, "status": status})


def _owner(obj: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


# The controller of claims on devices.


_TEMPLATES: Final = ("resource.k8s.io", "resourceclaimtemplates")
_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_ENDED: Final = ("Succeeded", "Failed")
_USES: Final = (b'"resourceClaims"', b'"extendedResourceClaimStatus"')


class ClaimController:
    """Makes claims from templates, takes pods off that are gone, and gives devices back."""

    def __init__(self, server: ApiServer) -> None:
        """Have nothing to do yet."""
        self._api, self._storage = server.api, server.api.storage
        self._pods: set[str] = set()
        self._claims: set[str] = set()
        self._unmade: set[str] = set()
        """Pods that wait for a template."""

    def handle(self, collection: Collection, change: Change) -> None:
        """Remember what a change concerns."""
        record = change.record
        if collection.key == CLAIMS and change.type != "DELETED":
            self._claims.add(record.key)
        elif collection.key == _TEMPLATES:
            self._pods |= self._unmade
        elif collection.key == _PODS and any(it in record.body for it in _USES):
            self._pods.add(record.key)
            for name, _ in claims_of(record.object()):
                self._claims.add(f"{record.namespace}/{name}")

    def work(self) -> None:
        """Bring claims to what their pods and templates say."""
        pods, self._pods = self._pods, set()
        for key in sorted(pods):
            self._make(key)
        claims, self._claims = self._claims, set()
        for key in sorted(claims):
            if (record := self._storage.get(CLAIMS, key)) is not None:
                self._tend(record)

    def _make(self, key: str) -> None:
        record = self._storage.get(_PODS, key)
        self._unmade.discard(key)
        if record is None:
            return
        pod = record.object()
        meta, statuses = pod["metadata"], pod["status"].get("resourceClaimStatuses") or []
        made = {it["name"] for it in statuses}
        for ref in pod["spec"].get("resourceClaims") or ():
            template = ref.get("resourceClaimTemplateName")
            if not template or ref["name"] in made:
                continue
            found = self._storage.get(_TEMPLATES, f"{record.namespace}/{template}")
            if found is None:
                self._unmade.add(key)
                continue
            name = self._create(found.object()["spec"], meta, ref["name"])
            statuses = [*statuses, {"name": ref["name"], "resourceClaimName": name}]
        if statuses != (pod["status"].get("resourceClaimStatuses") or []):
            pod["status"]["resourceClaimStatuses"] = statuses
            self._storage.put(_PODS, pod)

    def _create(self, template: dict[str, Any], pod: dict[str, Any], ref: str) -> str:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": pod["uid"]}
        copied = copy.deepcopy(template.get("metadata") or {})
        meta: dict[str, Any] = {
            **copied,
            "generateName": f"{pod['name']}-{ref}-",
            "namespace": pod["namespace"],
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        }
        notes = {"resource.kubernetes.io/pod-claim-name": ref}
        meta["annotations"] = {**(copied.get("annotations") or {}), **notes}
        answer = self._api.create(
            *CLAIMS, {"metadata": meta, "spec": copy.deepcopy(template["spec"])}
        )
        made = decode(answer.body)
        return str(made["metadata"]["name"])

    def _tend(self, record: Record) -> None:
        """Drop users that are gone or done; without users devices and finalizer go too."""
        claim = record.object()
        owner = next((it for it in claim["metadata"].get("ownerReferences") or ()), None)
        if owner is not None and not self._is_using(record.namespace, owner):
            resource = self._api.registry.must(*CLAIMS)
            try:
                self._api.writer.let_go(resource, record, {}, is_dry_run=False)
            except ApiError:
                return
            left = self._storage.get(CLAIMS, record.key)
            if left is None:
                return
            claim = left.object()
        status = claim.get("status") or {}
        users = status.get("reservedFor") or []
        left_users = [it for it in users if self._is_using(record.namespace, it)]
        is_leaving = "deletionTimestamp" in claim["metadata"]
        is_over = not left_users and (bool(users) or is_leaving)
        if left_users == users and not is_over:
            return
        claim["status"] = {} if is_over else {**status, "reservedFor": left_users}
        if is_over:
            kept = [it for it in claim["metadata"].get("finalizers") or () if it != _FINALIZER]
            claim["metadata"]["finalizers"] = kept
        put = self._storage.put(CLAIMS, claim)
        if is_over and is_leaving and not claim["metadata"]["finalizers"]:
            self._storage.remove(CLAIMS, put)

    def _is_using(self, namespace: str, user: dict[str, Any]) -> bool:
        record = self._storage.get(_PODS, f"{namespace}/{user['name']}")
        if record is None or record.uid != user["uid"]:
            return False
        return record.fields["status.phase"] not in _ENDED


# A stand-in for the few controllers without which a cluster makes no sense.
#
# Budgets get their status, namespaces that are deleted empty and go, objects go with their owner,
# Jobs, ReplicaSets and Deployments make what they are there to make, and claims on devices are made
# from templates and given back.


_BUDGETS: Final = ("policy", "poddisruptionbudgets")
_NAMESPACES: Final = ("", "namespaces")
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
        self._storage.listeners.append(self._handle)
        for collection in self._storage.collections():
            for record in list(collection.records.values()):
                self._handle(collection, Change("ADDED", record.version, record, None))

    def _handle(self, collection: Collection, change: Change) -> None:
        record = change.record
        if collection.key in {_PODS, _BUDGETS}:
            self._budgets_of.add(record.namespace)
        if collection.key == _NAMESPACES and record.fields["status.phase"] == "Terminating":
            self._ending.add(record.name)
        if change.type == "DELETED" and collection.key not in _OWN_NOTHING:
            self._gone.add(record.uid)
        self._owners.handle(collection, change)
        self._workloads.handle(collection, change)
        self._claims.handle(collection, change)
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
