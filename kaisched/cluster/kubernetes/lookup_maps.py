"""The ConfigMaps in which a pod looks up its GPU: made or brought up to date before its bind.

They belong to the pod, and nothing reads them before it is bound. So a bind that fails leaves them:
the next try writes what is right then, and they go with the pod. A deletion could come late, and
take away what the next leader has written.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kaisched.cluster.kubernetes.bind_steps import PassingError, StepFailedError
from kaisched.cluster.kubernetes.failpoints import passing
from kaisched.cluster.kubernetes.pods import (
    CONFLICT,
    FORBIDDEN,
    GONE,
    is_passing,
    lacks_right,
    later_writer,
)
from kaisched.objects.gpus import Told, config_map, lookups

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaisched.cluster.kubernetes.client import Answer
    from kaisched.cluster.kubernetes.pods import Writers
    from kaisched.framework.intents import Bind

TRY: Final = "kaisched.io/bind-try"
"""Annotation with a name of the bind that has written the ConfigMap."""
_DONE: Final = 2


class LookupMaps:
    """The ConfigMaps of one pod, as one bind writes them.

    Each bind leaves a name of its own, so that its write changes what is there even if the data are
    the same: a request that is still on its way from an earlier try then finds another version.
    """

    def __init__(
        self, writers: Writers, bind: Bind, name: str, told: Told, *, has_cdi_names: bool
    ) -> None:
        """Begin with none written."""
        self._writers, self._bind, self._name, self._told = writers, bind, name, told
        self._has_cdi_names = has_cdi_names
        self._try = str(uuid.uuid4())
        self._written: set[str] = set()

    def write(self, gpus: Sequence[str]) -> None:
        """Write the ConfigMaps that are not written yet.

        Raises:
            StepFailedError: one belongs to another, or the server refuses it.
            PassingError: it has changed meanwhile, or the server asks for another try.
            ClusterUnavailable: no answer; it may have been written.

        """
        if len(self._written) == _DONE:
            return
        namespace = self._bind.pod.partition("/")[0]
        data_of = lookups(self._name, gpus, self._told, has_cdi_names=self._has_cdi_names)
        for name, data in data_of.items():
            if name not in self._written:
                self._have(f"{namespace}/{name}", data)
                self._written.add(name)

    def _have(self, key: str, data: Mapping[str, str]) -> None:
        bind = self._bind
        notes = {TRY: self._try, **self._writers.annotations()}
        passing("lookup.before_write")
        body = config_map(key, data, notes, bind.pod, bind.uid)
        answer = self._call("POST", key, body)
        if answer.code == CONFLICT:
            answer = self._call("GET", key)
            raw = self._decoded(answer, key, "get")
            self._check(raw, key)
            if _notes_of(raw).get(TRY) != self._try or raw.get("data") != data:
                meta = {**raw["metadata"], "annotations": {**_notes_of(raw), **notes}}
                answer = self._call("PUT", key, {**body, "metadata": meta})
                self._decoded(answer, key, "update")
        else:
            self._decoded(answer, key, "create")
        passing("lookup.after_write")

    def _call(self, method: str, key: str, body: dict[str, Any] | None = None) -> Answer:
        namespace, _, name = key.partition("/")
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        return self._writers.client.call(
            method, path if method == "POST" else f"{path}/{name}", body=body
        )

    def _check(self, raw: dict[str, Any], key: str) -> None:
        """Check that a ConfigMap is this pod's alone, and not the work of a later leader.

        Raises:
            StepFailedError: it is not.

        """
        owners = raw["metadata"].get("ownerReferences") or []
        if not owners:
            raise StepFailedError(
                f"ConfigMap {key} has no owner, so it is not the pod's: rename or delete it"
            )
        for owner in owners:
            if owner.get("uid") != self._bind.uid:
                whose = f"{owner.get('kind')} {owner.get('name')} (UID {owner.get('uid')})"
                raise StepFailedError(
                    f"ConfigMap {key} belongs to {whose}, not to this pod: delete it, or make the"
                    " pod anew"
                )
        if holder := later_writer(_notes_of(raw), self._writers.gate.term):
            raise StepFailedError(f"ConfigMap {key} was written by {holder}, which leads now")

    def _decoded(self, answer: Answer, key: str, verb: str) -> dict[str, Any]:
        if answer.is_done:
            found: dict[str, Any] = msgspec.json.decode(answer.data)
            return found
        if lacks_right(answer):
            needs = f"{verb} on configmaps in namespace {key.partition('/')[0]}"
            self._writers.log.error("lookup_forbidden", answer=answer.text(), needs=needs)
        if is_passing(answer) or answer.code in {CONFLICT, FORBIDDEN, GONE}:
            raise PassingError(answer, f"ConfigMap {key}")
        raise StepFailedError(f"ConfigMap {key}: {answer.text()}")


def _notes_of(raw: Mapping[str, Any]) -> dict[str, str]:
    return raw["metadata"].get("annotations") or {}
