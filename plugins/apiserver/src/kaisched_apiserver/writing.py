"""Create, update, patch and delete; binding and eviction of pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kaisched.clock import Clock
from kaisched.objects.labels import format_time
from kaisched_apiserver import definitions
from kaisched_apiserver.answers import Answer, kept, seen
from kaisched_apiserver.kinds import (
    Write,
    carry_over,
    complete,
    count_generation,
    precondition_conflict,
    renew,
    stamp,
)
from kaisched_apiserver.patches import APPLY, patched, read_patch
from kaisched_apiserver.pods import set_condition
from kaisched_apiserver.reading import key_of, list_body, must_get, selected
from kaisched_apiserver.requests import Binding, Eviction, Request, check, check_object
from kaisched_apiserver.resources import Registry, Resource
from kaisched_apiserver.statuses import (
    ApiError,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    not_found,
    success,
)
from kaisched_apiserver.storage import Record, Storage, decode, encode, selected_by

# Deleting: at once, or gracefully, or when the last finalizer is done.


_ENDED = ("Succeeded", "Failed")


def check_preconditions(resource: Resource, obj: dict[str, Any], options: dict[str, Any]) -> None:
    """Refuse to delete another object or version than is meant.

    Raises:
        ApiError: 409.

    """
    wanted = options.get("preconditions") or {}
    meta, name = obj["metadata"], obj["metadata"]["name"]
    uid, version = wanted.get("uid"), wanted.get("resourceVersion")
    if uid and uid != meta["uid"]:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record"
            f" ({meta['uid']}). The object might have been deleted and then recreated"
        )
        raise _precondition_failed(resource, name, why)
    if version and version != meta["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the"
            f" ResourceVersion in record ({meta['resourceVersion']}). The object might have been"
            " modified"
        )
        raise _precondition_failed(resource, name, why)


def _precondition_failed(resource: Resource, name: str, why: str) -> ApiError:
    # Here the message names the kind where all others name the plural.
    error = conflict(resource, name, why)
    message = error.message.replace(f'{resource.qualified} "{name}"', f'{resource.kind} "{name}"')
    details = {**(error.details or {}), "kind": resource.kind}
    return ApiError(409, "Conflict", message, details)


def grace_of(resource: Resource, obj: dict[str, Any], options: dict[str, Any]) -> int:
    """Return the seconds an object has left once it is deleted; only pods on a node have any."""
    if resource.key != ("", "pods"):
        return 0
    spec = obj["spec"]
    if not spec.get("nodeName") or obj["status"].get("phase") in _ENDED:
        return 0
    grace = options.get("gracePeriodSeconds")
    if grace is None:
        grace = spec.get("terminationGracePeriodSeconds", 30)
    return max(int(grace), 0)


def mark_deleted(obj: dict[str, Any], grace_s: int, now_s: float) -> bool:
    """Mark an object as leaving; return whether it may stay for a while yet.

    Grace only ever gets shorter. An object with finalizers stays until the last one is taken off.
    """
    meta = obj["metadata"]
    if "deletionTimestamp" in meta:
        grace_s = min(grace_s, meta.get("deletionGracePeriodSeconds", 0))
        if grace_s < meta.get("deletionGracePeriodSeconds", 0):
            meta["deletionTimestamp"] = format_time(int(now_s) + grace_s)
    else:
        meta["deletionTimestamp"] = format_time(int(now_s) + grace_s)
        if "generation" in meta:
            meta["generation"] += 1
    meta["deletionGracePeriodSeconds"] = grace_s
    return grace_s > 0 or bool(meta.get("finalizers"))


# Binding a pod to a node.


def bind(resource: Resource, pod: dict[str, Any], binding: dict[str, Any], now: str) -> None:
    """Put a pod on the node a Binding names; the node need not exist.

    Args:
        resource: pods.
        pod: changed in place.
        binding: its ``metadata.uid`` and ``resourceVersion`` are preconditions, its labels and
            annotations are put on the pod.
        now: the present as a text.

    Raises:
        ApiError: 409, the pod is another one, leaving, bound or gated; 500, no node is named.

    """
    meta, name = pod["metadata"], pod["metadata"]["name"]
    given = binding.get("metadata") or {}
    node = (binding.get("target") or {}).get("name")
    if not node:
        raise ApiError(500, "", "target.name: Required value")
    for part in ("uid", "resourceVersion"):
        if given.get(part, meta[part]) != meta[part]:
            raise precondition_conflict(resource, meta, part, given[part])
    why = _why_not(pod)
    if why:
        raise conflict(resource, name, why, subresource="binding")
    for part in ("annotations", "labels"):
        if given.get(part):
            meta[part] = {**(meta.get(part) or {}), **given[part]}
    pod["spec"]["nodeName"] = node
    pod["status"].pop("nominatedNodeName", None)
    set_condition(pod, {"type": "PodScheduled", "status": "True"}, now)


def _why_not(pod: dict[str, Any]) -> str:
    name, spec = pod["metadata"]["name"], pod["spec"]
    if pod["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


# Evictions and the PodDisruptionBudgets that may forbid them.


_KEY: Final = ("policy", "poddisruptionbudgets")
_PODS: Final = ("", "pods")
_DENIED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_RETRY_S: Final = 10


def take_from_budget(storage: Storage, pod: dict[str, Any], now: str, *, is_dry_run: bool) -> None:
    """Count an eviction against the pod's budget, if it has one and the eviction disrupts.

    Raises:
        ApiError: 429, the budget allows none now; 500, the pod has more than one budget.

    """
    if not _is_disrupted(pod):
        return
    found = budgets_of(storage, pod)
    if not found:
        return
    if len(found) > 1:
        message = "This pod has more than one PodDisruptionBudget, which the eviction subresource"
        raise ApiError(500, "InternalError", f"{message} does not support.")
    budget = found[0].object()
    status, meta = budget.get("status") or {}, budget["metadata"]
    name = meta["name"]
    healthy, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if not _is_ready(pod) and (
        healthy >= wanted > 0 or budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
    ):
        return
    if status.get("observedGeneration", 0) < meta.get("generation", 0):
        raise _denied(
            f"The disruption budget {name} is still being processed by the server.", _RETRY_S
        )
    if status.get("disruptionsAllowed", 0) <= 0:
        raise _denied(
            f"The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
        )
    if not is_dry_run:
        disrupted = {**(status.get("disruptedPods") or {}), pod["metadata"]["name"]: now}
        left = status["disruptionsAllowed"] - 1
        budget["status"] = {**status, "disruptionsAllowed": left, "disruptedPods": disrupted}
        storage.put(_KEY, budget)


def budgets_of(storage: Storage, pod: dict[str, Any]) -> list[Record]:
    """Return the budgets whose selector fits a pod."""
    budgets = storage.collection(_KEY)
    labels = pod["metadata"].get("labels") or {}
    mine = [budgets.records[key] for key in budgets.within(pod["metadata"]["namespace"])]
    return [it for it in mine if selected_by(it.object()["spec"].get("selector"))(labels)]


def renewed(storage: Storage, budget: Record) -> dict[str, Any]:
    """Return a budget with its status worked out from the pods there are, as a controller does."""
    obj = budget.object()
    spec = obj["spec"]
    fits = selected_by(spec.get("selector"))
    pods = storage.collection(_PODS)
    there = [pods.records[key] for key in pods.within(budget.namespace)]
    mine = [
        record.object()
        for record in there
        if fits(record.labels) and record.fields["status.phase"] not in _ENDED
    ]
    expected = len(mine)
    healthy = sum(_is_ready(pod) and "deletionTimestamp" not in pod["metadata"] for pod in mine)
    if "maxUnavailable" in spec:
        wanted = max(expected - _share(spec["maxUnavailable"], expected), 0)
    else:
        wanted = _share(spec.get("minAvailable", 1), expected)
    obj["status"] = {
        "observedGeneration": obj["metadata"].get("generation", 1),
        "disruptionsAllowed": max(healthy - wanted, 0) if expected else 0,
        "currentHealthy": healthy,
        "desiredHealthy": wanted,
        "expectedPods": expected,
    }
    return obj


def _share(amount: int | str, expected: int) -> int:
    if isinstance(amount, str) and amount.endswith("%"):
        return -(-expected * int(amount[:-1]) // 100)
    return int(amount)


def _is_disrupted(pod: dict[str, Any]) -> bool:
    phase = pod["status"].get("phase")
    return phase not in {"Pending", "Succeeded", "Failed"} and not pod["metadata"].get(
        "deletionTimestamp"
    )


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(it.get("type") == "Ready" and it.get("status") == "True" for it in conditions)


def _denied(why: str, retry_after_s: int = 0) -> ApiError:
    causes = [{"reason": "DisruptionBudget", "message": why}]
    details = {"causes": causes}
    return ApiError(429, "TooManyRequests", _DENIED, details, retry_after_s=retry_after_s)


# Create, update, patch and delete.


_NAMESPACES: Final = ("", "namespaces")
_EVENTS: Final = ("", "events")
MOST_EVENTS: Final = 10_000
"""So many events are kept; the oldest go first."""


class Writer:
    """Changes the objects in a storage as requests say."""

    def __init__(self, storage: Storage, registry: Registry, clock: Clock) -> None:
        """Write there; definitions of kinds go into the registry."""
        self.storage = storage
        self.registry = registry
        self.clock = clock

    def now(self) -> str:
        """Return the present, to the second, as objects have it."""
        return format_time(int(self.clock.now_s()))

    # -- create ----------------------------------------------------------------------------------

    def create(self, resource: Resource, request: Request) -> Answer:
        """Create an object.

        Raises:
            ApiError: the object is wrong, not allowed, or there already.

        """
        obj = self._typed(resource, request.object())
        record, warnings = self._create(resource, request, obj)
        return _answer(201, resource, record, warnings)

    def _create(
        self, resource: Resource, request: Request, obj: dict[str, Any]
    ) -> tuple[bytes, list[str]]:
        stamp(resource, obj, request.namespace, self.now())
        name = obj["metadata"]["name"]
        key = f"{request.namespace}/{name}" if request.namespace else name
        if self.storage.get(resource.key, key) is not None:
            raise already_exists(resource, name)
        if request.namespace:
            self._check_namespace(resource, request.namespace, name)
        obj["metadata"].pop("resourceVersion", None)
        obj = kept(resource, obj)
        warnings = complete(self._write(resource, request), obj)
        if request.is_dry_run:
            return encode(obj), warnings
        if resource.key == _EVENTS:
            self._make_room_for_event()
        return self.put(resource, obj).body, warnings

    def put(self, resource: Resource, obj: dict[str, Any]) -> Record:
        """Keep an object; a definition takes effect at once."""
        record = self.storage.put(resource.key, obj)
        if resource.key == definitions.KEY:
            for served in definitions.serve(self.registry, obj):
                paths = {it: tuple(it.split(".")) for it in served.selectable}
                self.storage.collection(served.key).paths = paths
        return record

    def _make_room_for_event(self) -> None:
        """Events are of no use for long: the oldest one goes when there are very many."""
        records = self.storage.collection(_EVENTS).records
        if len(records) >= MOST_EVENTS:
            self.storage.remove(_EVENTS, next(iter(records.values())))

    def _check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        found = self.storage.get(_NAMESPACES, namespace)
        if found is None:
            raise not_found(self.registry.must("", "namespaces"), namespace)
        if found.fields["status.phase"] == "Terminating":
            why = (
                f"unable to create new content in namespace {namespace} because it is being"
                " terminated"
            )
            raise forbidden(resource, name, why)

    # -- update ----------------------------------------------------------------------------------

    def update(self, resource: Resource, request: Request) -> Answer:
        """Replace an object, or its status.

        Raises:
            ApiError: it is not there, is not as supposed, or the new one is wrong.

        """
        obj = self._typed(resource, request.object())
        return self.change(resource, request, lambda _old: obj, is_patch=False)

    def patch(self, resource: Resource, request: Request) -> Answer:
        """Patch an object, or its status; server-side apply creates what is not there.

        Raises:
            ApiError: as for an update, or the patch cannot be read or applied.

        """
        type_ = request.content_type
        patch = read_patch(resource, type_, request.body)
        if type_ == APPLY:
            if not request.query.get("fieldManager"):
                raise bad_request(
                    'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is'
                    " required for apply patch"
                )
            if self.storage.get(resource.key, key_of(request)) is None and not request.subresource:
                obj = self._typed(resource, patch)
                obj.setdefault("metadata", {})["name"] = request.name
                body, warnings = self._create(resource, request, obj)
                return _answer(201, resource, body, warnings)
        return self.change(resource, request, lambda old: patched(type_, old, patch), is_patch=True)

    def change(
        self,
        resource: Resource,
        request: Request,
        edit: Callable[[dict[str, Any]], dict[str, Any]],
        *,
        is_patch: bool,
    ) -> Answer:
        """Put what ``edit`` makes of an object in its place; nothing happens if that is the same.

        Raises:
            ApiError: it is not there, is not as supposed, or the new one is wrong.

        """
        record = must_get(self.storage, resource, request)
        old = record.object()
        seen_old = old if not is_patch else _decoded_view(resource, record)
        edited = edit(seen_old)
        check_object(resource, edited)
        new = kept(resource, edited)
        new["apiVersion"], new["kind"] = old["apiVersion"], old["kind"]
        new["metadata"] = dict(new.get("metadata") or {})
        carry_over(resource, old, new, is_patch=is_patch)
        warnings = renew(self._write(resource, request), old, new, request.subresource)
        if new == old:
            return _answer(200, resource, record.body, warnings)
        if request.subresource != "status":
            count_generation(resource, old, new)
        if request.is_dry_run:
            return _answer(200, resource, encode(new), warnings)
        return _answer(200, resource, self._keep_or_end(resource, new), warnings)

    def _keep_or_end(self, resource: Resource, obj: dict[str, Any]) -> bytes:
        """Keep a changed object; it goes if it only waited for its finalizers, and they are off."""
        record = self.put(resource, obj)
        meta = obj["metadata"]
        is_waiting = "deletionTimestamp" in meta and not meta.get("finalizers")
        # A namespace waits for what is in it; its finalizers are in its spec.
        if (
            resource.key != _NAMESPACES
            and is_waiting
            and not meta.get("deletionGracePeriodSeconds")
        ):
            self.end(resource, record)
        return record.body

    # -- delete ----------------------------------------------------------------------------------

    def delete(self, resource: Resource, request: Request) -> Answer:
        """Delete an object: at once, or with grace if it is a pod on a node.

        Raises:
            ApiError: it is not there or not as supposed.

        """
        record = must_get(self.storage, resource, request)
        options = request.options()
        is_dry_run = request.is_dry_run or bool(options.get("dryRun"))
        left = self.let_go(resource, record, options, is_dry_run=is_dry_run)
        if resource.key == ("", "pods") or "deletionTimestamp" in left.object()["metadata"]:
            return _answer(200, resource, left.body, [])
        group = {"group": resource.group} if resource.group else {}
        details = {"name": record.name, **group, "kind": resource.plural, "uid": record.uid}
        return Answer(200, success(details=details))

    def delete_collection(self, resource: Resource, request: Request) -> Answer:
        """Delete all objects that a request selects.

        Raises:
            ApiError: 400, a selector cannot be read.

        """
        found = selected(self.storage, resource, request)
        options = request.options()
        is_dry_run = request.is_dry_run or bool(options.get("dryRun"))
        for record in found:
            self.let_go(resource, record, options, is_dry_run=is_dry_run)
        bodies = [seen(resource, record.body) for record in found]
        meta = {"resourceVersion": str(self.storage.version)}
        return Answer(200, list_body(resource, bodies, meta))

    def let_go(
        self, resource: Resource, record: Record, options: dict[str, Any], *, is_dry_run: bool
    ) -> Record:
        """Delete an object and return it as it was, or as it stays for its grace.

        Raises:
            ApiError: 409, it is not the one that is meant.

        """
        obj = record.object()
        check_preconditions(resource, obj, options)
        grace_s = grace_of(resource, obj, options)
        if resource.key == _NAMESPACES:
            obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
            mark_deleted(obj, 0, self.clock.now_s())
            is_staying = True
        else:
            is_staying = mark_deleted(obj, grace_s, self.clock.now_s())
        if is_dry_run:
            return record
        # Watchers see that a pod leaves before it has left.
        if (is_staying or resource.key == ("", "pods")) and obj != record.object():
            record = self.storage.put(resource.key, obj)
        if not is_staying:
            self.end(resource, record)
        return record

    def end(self, resource: Resource, record: Record) -> None:
        """Remove an object now; with a definition, all objects of its kind."""
        self.storage.remove(resource.key, record)
        if resource.key == definitions.KEY:
            spec = record.object()["spec"]
            kind = (spec["group"], spec["names"]["plural"])
            self.registry.remove(*kind)
            for orphan in list(self.storage.collection(kind).records.values()):
                self.storage.remove(kind, orphan)

    # -- helpers ---------------------------------------------------------------------------------

    def _write(self, resource: Resource, request: Request) -> Write:
        validation = request.query.get("fieldValidation", "Warn")
        return Write(resource, self.storage, self.now(), validation)

    @staticmethod
    def _typed(resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
        """Return an object with its kind first.

        Raises:
            ApiError: 400, it says that it is of another kind or version.

        """
        check_object(resource, obj)
        version, kind = obj.get("apiVersion"), obj.get("kind")
        if version not in {None, "", resource.api_version}:
            raise bad_request(
                f"the API version in the data ({version}) does not match the expected API version"
                f" ({resource.api_version})"
            )
        if kind not in {None, "", resource.kind}:
            raise bad_request(
                f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
            )
        return {**obj, "apiVersion": resource.api_version, "kind": resource.kind}


def _decoded_view(resource: Resource, record: Record) -> dict[str, Any]:
    """Return an object in the version that a patch is written for."""
    obj = record.object()
    is_as_kept = resource.api_version == obj["apiVersion"]
    return obj if is_as_kept else decode(seen(resource, record.body))


def _answer(status: int, resource: Resource, body: bytes, warnings: list[str]) -> Answer:
    headers = tuple(("Warning", f'299 - "{_quoted(text)}"') for text in warnings)
    return Answer(status, seen(resource, body), headers=headers)


def _quoted(text: str) -> str:
    """Return a text for a header: names of fields may hold line ends, which would end it."""
    text = "".join(it if it.isprintable() else "?" for it in text)
    return text.replace("\\", "\\\\").replace('"', '\\"')


# What is done to a pod through its subresources: it is bound, or evicted.


_DONE: Final = success(201)


def bind_pod(writer: Writer, pods: Resource, request: Request) -> Answer:
    """Bind the pod of a request; of a Binding posted to ``bindings``, the one it names.

    Raises:
        ApiError: 404, there is no such pod; 409, it cannot be bound.

    """
    binding = request.object()
    check(Binding, binding, "Binding")
    name = request.name or (binding.get("metadata") or {}).get("name", "")
    record = writer.storage.get(pods.key, f"{request.namespace}/{name}")
    if record is None:
        raise not_found(pods, name)
    pod = record.object()
    bind(pods, pod, binding, writer.now())
    if not request.is_dry_run:
        writer.storage.put(pods.key, pod)
    return Answer(201, _DONE)


def evict_pod(writer: Writer, pods: Resource, request: Request) -> Answer:
    """Evict the pod of a request.

    A pod on a node first gets the condition that says why, then leaves with its grace.

    Raises:
        ApiError: 404, there is no such pod; 409, another one is meant; 429, a budget forbids it.

    """
    eviction = request.object()
    check(Eviction, eviction, "Eviction")
    options = eviction.get("deleteOptions") or {}
    is_dry_run = request.is_dry_run or bool(options.get("dryRun"))
    record = must_get(writer.storage, pods, request)
    pod = record.object()
    check_preconditions(pods, pod, options)
    now = writer.now()
    take_from_budget(writer.storage, pod, now, is_dry_run=is_dry_run)
    if not is_dry_run:
        if "deletionTimestamp" not in pod["metadata"]:
            set_condition(
                pod,
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "EvictionByEvictionAPI",
                    "message": "Eviction API: evicting",
                },
                now,
            )
            record = writer.storage.put(pods.key, pod)
            # What the caller supposed was true a moment ago; the condition is a new version.
            options = {key: value for key, value in options.items() if key != "preconditions"}
        writer.let_go(pods, record, options, is_dry_run=False)
    return Answer(201, _DONE)
