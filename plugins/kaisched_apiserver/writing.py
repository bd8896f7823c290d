"""Create, update, patch and delete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kaisched.clock import Clock
from kaisched.objects.labels import format_time
from kaisched_apiserver import definitions
from kaisched_apiserver.answers import Answer
from kaisched_apiserver.deletion import (
    check_preconditions,
    grace_of,
    mark_deleted,
)
from kaisched_apiserver.kinds import Write, complete, renew
from kaisched_apiserver.metadata import carry_over, count_generation, stamp
from kaisched_apiserver.patches import APPLY, patched, read_patch
from kaisched_apiserver.reading import key_of, list_body, must_get, selected
from kaisched_apiserver.requests import Request
from kaisched_apiserver.resources import Registry, Resource
from kaisched_apiserver.shapes import check_object
from kaisched_apiserver.statuses import (
    already_exists,
    bad_request,
    forbidden,
    not_found,
    success,
)
from kaisched_apiserver.storage import Record, Storage, decode, encode
from kaisched_apiserver.views import kept, seen

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
