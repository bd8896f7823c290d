"""Stand-ins for the controllers of Jobs, ReplicaSets and Deployments: just enough to have pods."""

from __future__ import annotations

import copy
from typing import Any, Final

from kaisched_apiserver.owners import Owners, owners_of
from kaisched_apiserver.server import ApiServer
from kaisched_apiserver.statuses import ApiError
from kaisched_apiserver.storage import Change, Collection, Record

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

    def hear(self, collection: Collection, change: Change) -> None:
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
