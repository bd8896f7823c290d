"""The whole server without its wire: a request in, an answer out, all in one thread."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from kaisched.clock import Clock
from kaisched_apiserver import reading, writing
from kaisched_apiserver.access import Access, review
from kaisched_apiserver.answers import Answer, WatchAnswer, refused
from kaisched_apiserver.discovery import page_of
from kaisched_apiserver.reading import Watches
from kaisched_apiserver.requests import Request
from kaisched_apiserver.resources import Registry, Resource
from kaisched_apiserver.statuses import (
    ApiError,
    bad_request,
    method_not_allowed,
    no_such_path,
)
from kaisched_apiserver.storage import Storage, encode
from kaisched_apiserver.writing import Writer

_log = logging.getLogger(__name__)

_Handler = Callable[[Resource, Request], Answer | WatchAnswer]

_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_CLASSES: Final = (
    ("system-cluster-critical", 2_000_000_000),
    ("system-node-critical", 2_000_001_000),
)


class Api:
    """Objects, kinds, watches and access, and what answers requests on them."""

    def __init__(self, clock: Clock) -> None:
        """Be as a new cluster: with the usual namespaces and priority classes."""
        self.clock = clock
        self.storage = Storage()
        self.registry = Registry()
        self.access = Access()
        self.watches = Watches()
        self.writer = Writer(self.storage, self.registry, clock)
        self.storage.listeners.append(self.watches.handle)
        self._of_verb: dict[str, _Handler] = {
            "get": lambda resource, it: reading.get(self.storage, resource, it, self.clock.now_s()),
            "list": lambda resource, it: reading.list_objects(
                self.storage, resource, it, self.clock.now_s()
            ),
            "watch": lambda resource, it: reading.watch(self.storage, resource, it),
            "create": self.writer.create,
            "update": self.writer.update,
            "patch": self.writer.patch,
            "delete": self.writer.delete,
            "deletecollection": self.writer.delete_collection,
        }
        self._furnish()

    def _furnish(self) -> None:
        for name in _NAMESPACES:
            self.create("", "namespaces", {"metadata": {"name": name}})
        for name, value in _CLASSES:
            class_ = {"metadata": {"name": name}, "value": value}
            self.create("scheduling.k8s.io", "priorityclasses", class_)

    def create(self, group: str, plural: str, obj: dict[str, object]) -> Answer:
        """Create an object of a built-in kind from within.

        Raises:
            ApiError: as for a request.

        """
        resource = self.registry.must(group, plural)
        meta = obj.get("metadata")
        namespace = meta.get("namespace", "") if isinstance(meta, dict) else ""
        request = Request(
            verb="create", group=group, plural=plural, namespace=namespace, body=encode(obj)
        )
        return self.writer.create(resource, request)

    def page(self, path: str, token: str) -> Answer:
        """Answer a request on no object: discovery, version, health."""
        try:
            found = page_of(self.registry, path)
            if found is None:
                raise no_such_path()
            if found.content_type.startswith("application/json"):
                self.access.user_of(token)
            else:
                self.access.check_health(token, path)
        except ApiError as error:
            return refused(error)
        return found

    def answer(self, request: Request) -> Answer | WatchAnswer:
        """Answer a request on objects. A bug is answered with 500, as by a real server."""
        try:
            return self._answered(request)
        except ApiError as error:
            return refused(error)
        except Exception as error:  # noqa: BLE001 - one bad request must not end the server
            _log.exception("a request could not be answered: %s %s", request.method, request.path)
            text = f"Internal error occurred: {type(error).__name__}: {error}"
            return refused(ApiError(500, "InternalError", text))

    def _answered(self, request: Request) -> Answer | WatchAnswer:
        reviewed = review(self.access, request)
        if reviewed is not None:
            return reviewed
        is_binding = (request.group, request.plural) == ("", "bindings")
        plural = "pods" if is_binding else request.plural
        resource = self.registry.find(request.group, request.version, plural)
        if resource is None:
            self.access.user_of(request.token)
            raise no_such_path()
        if not request.verb or (is_binding and request.verb != "create"):
            raise method_not_allowed()
        self.access.check(resource, request)
        if is_binding:
            return writing.bind_pod(self.writer, resource, request)
        self._check_place(resource, request)
        if request.subresource:
            return self._subresource(resource, request)
        if request.verb == "create" and request.name:
            raise method_not_allowed()
        return self._of_verb[request.verb](resource, request)

    def _subresource(self, resource: Resource, request: Request) -> Answer | WatchAnswer:
        name = request.subresource
        if name == "status" and resource.has_status:
            if request.verb not in {"get", "update", "patch"}:
                raise method_not_allowed()
            return self._of_verb[request.verb](resource, request)
        if any(name == known for known, _, _ in resource.subresources):
            if request.verb != "create":
                raise method_not_allowed()
            do = writing.bind_pod if name == "binding" else writing.evict_pod
            return do(self.writer, resource, request)
        raise no_such_path()

    @staticmethod
    def _check_place(resource: Resource, request: Request) -> None:
        """Refuse a namespace where there is none, and its absence where one is needed."""
        if request.namespace and not resource.is_namespaced:
            raise no_such_path()
        is_single = request.name or request.verb == "create"
        if is_single and resource.is_namespaced and not request.namespace:
            raise bad_request(f"{resource.plural} belong to a namespace, and the path names none")
