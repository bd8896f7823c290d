"""The controller of claims on devices."""

from __future__ import annotations

import copy
from typing import Any, Final

from kaisched_apiserver.claim_checks import CLAIMS, claims_of
from kaisched_apiserver.server import ApiServer
from kaisched_apiserver.statuses import ApiError
from kaisched_apiserver.storage import Change, Collection, Record, decode

_TEMPLATES: Final = ("resource.k8s.io", "resourceclaimtemplates")
_PODS: Final = ("", "pods")
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

    def hear(self, collection: Collection, change: Change) -> None:
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
