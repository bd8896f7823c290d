"""The live view of a running scheduler, read over HTTP."""

from __future__ import annotations

import math
import os
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from kaisched.cluster.kubernetes.access import has_kubeconfig, is_cluster_named
from kaisched.errors import ClusterUnavailable, ConfigError, root_of
from kaisched.objects.usage import check_url
from kaisched.objects.wire import BAD_JSON
from kaisched.units import UnitError
from kaisched.view.paths import CHANGES, MOST, ROOT, USUAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kaisched.config.settings import Kubernetes

VARIABLE: Final = "KAISCHED_SERVER"
TOKEN: Final = "KAISCHED_TOKEN"  # noqa: S105 - the name of a variable
NEAR: Final = "http://127.0.0.1:8083"
"""Where a scheduler on this machine serves its view, unless its settings say otherwise."""
MOST_JOBS: Final = 1000
"""Jobs whose sentences are asked for: the loop tells them a hundred at a time."""
_WAIT_S: Final = 15.0
_LOOK_S: Final = 0.5
_BLOCK: Final = 1 << 16
_MOST_TAGS: Final = 8
_OK: Final = 200
_SAME: Final = 304
_USAGE: Final = (400, 404)


class Server:
    """A scheduler that serves its live view."""

    problems: tuple[str, ...] = ()
    """None of a state that is read here: a scheduler tells its own in its log and its metrics."""

    def __init__(self, url: str, shard: str = "", *, is_named: bool = False) -> None:
        """Keep the address; only one that the user has named gets the user's token.

        Raises:
            ConfigError: it is none.

        """
        try:
            check_url(url)
        except UnitError:
            raise ConfigError(
                "no address of a scheduler",
                path="--server",
                value=url,
                fix=f"write it like {NEAR}; kubectl port-forward brings the port here",
            ) from None
        parts = urlsplit(url)
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._shard = shard
        token = os.environ.get(TOKEN, "") if is_named else ""
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._pool = urllib3.PoolManager(retries=False, timeout=_WAIT_S)
        self._tags: dict[str, tuple[str, Any]] = {}
        """The last documents by path, with their ETags."""

    def get(self, path: str, **query: object) -> dict[str, Any]:
        """Return a document.

        Raises:
            ConfigError: what is asked for is not there, or the reader may not see it.
            ClusterUnavailable: no scheduler answers, or it has no view.

        """
        asked = {name: it for name, it in query.items() if it not in {"", None}}
        if self._shard:
            asked["shard"] = self._shard
        target = f"{ROOT}{path}" + (f"?{urlencode(asked)}" if asked else "")
        tag, known = self._tags.get(target, ("", None))
        answer = self._ask(target, {"If-None-Match": tag} if tag else {})
        if answer.status == _SAME:
            return dict(known)
        found = _decoded(answer.data, self.url)
        if answer.status != _OK:
            _refuse(answer.status, found, self.url)
        self._tags.pop(target, None)
        while len(self._tags) >= _MOST_TAGS:
            del self._tags[next(iter(self._tags))]
        self._tags[target] = answer.headers.get("ETag", ""), found
        return found

    def _ask(self, target: str, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        try:
            return self._pool.request(
                "GET", self.url + target, headers={**headers, **self._headers}, redirect=False
            )
        except (HTTPError, OSError) as wrong:
            raise ClusterUnavailable(
                f"no answer from {self.url}: {root_of(wrong)}",
                fix="does it run with --view, and is the port forwarded?",
            ) from wrong

    def why(self, name: str) -> dict[str, Any]:
        """Return everything about a job, by its name or that of a pod."""
        return self.get(f"/jobs/{quote(name)}")

    def queues(self, name: str | None) -> dict[str, Any]:
        """Return all queues, or one with those around it and the jobs that wait below it."""
        found = self.queues_around(name)
        if name is None:
            return {**found, "jobs": []}
        waiting = self.entries(
            "/jobs",
            "jobs",
            most=MOST_JOBS,
            queue=name,
            state="waiting",
            messages="true",
            limit=USUAL,
        )
        return {**found, "jobs": list(waiting)}

    def jobs(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Return the jobs that match; ``wanted`` has the parameters of the live view."""
        first = self.get("/jobs", limit=1, **wanted)
        found = list(self.entries("/jobs", "jobs", most=math.inf, limit=MOST, **wanted))
        counts = {it: first[it] for it in ("time", "hidden", "reasons")}
        return {"schemaVersion": "kaisched.io/jobs/v1", **counts, "jobs": found}

    def queues_around(self, name: str | None) -> dict[str, Any]:
        """Return all queues, or one with those above and below it."""
        return self.get("/queues" if name is None else f"/queues/{quote(name)}")

    def nodes(self) -> Iterator[dict[str, Any]]:
        """Yield the entry of each node, by name."""
        return self.entries("/nodes", "nodes", limit=MOST)

    def usage(self) -> dict[str, Any] | None:
        """Return how reliable the usage history is; None without one."""
        found: dict[str, Any] | None = self.get("/overview")["usage"]
        return found

    def entries(
        self, path: str, key: str, *, most: float = math.inf, **query: object
    ) -> Iterator[dict[str, Any]]:
        """Yield the entries of a list that is read in parts."""
        offset: int | None = 0
        while offset is not None and offset < most:
            part = self.get(path, offset=offset, **query)
            yield from part[key]
            offset = part["next"]

    def changes(self) -> Iterator[int]:
        """Yield the revision now and at each change, until the server ends the stream.

        Raises:
            ClusterUnavailable: no scheduler answers.

        """
        with urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(_WAIT_S, 60.0)) as pool:
            try:
                answer = pool.request(
                    "GET", self.url + CHANGES, headers=self._headers, preload_content=False
                )
                if answer.status != _OK:
                    _refuse(answer.status, _decoded(answer.data, self.url), self.url)
                last = -1
                for line in _lines(answer):
                    if not line.startswith(b"data:"):
                        continue
                    event = msgspec.json.decode(line[5:])
                    is_ours = self._shard in {"", event["shard"]}
                    if is_ours and event["revision"] != last:
                        last = event["revision"]
                        yield last
            except (HTTPError, OSError) as wrong:
                raise ClusterUnavailable(
                    f"{self.url} is gone: {type(wrong).__name__}", fix="ask again"
                ) from wrong


def found_server(shard: str, how: Kubernetes, *, is_kubernetes: bool) -> Server | None:
    """Return the scheduler of KAISCHED_SERVER, or one that serves its view on this machine.

    A cluster that the user has named goes before both, and a kubeconfig goes before what happens to
    be served on this machine: that may be another cluster.

    Args:
        shard: which shard.
        how: what settings say of the cluster.
        is_kubernetes: a real cluster is asked for, as by ``kubectl kaisched``.

    """
    if is_cluster_named(how.kubeconfig, how.context):
        return None
    if url := os.environ.get(VARIABLE, ""):
        return Server(url, shard, is_named=True)
    if is_kubernetes or has_kubeconfig():
        return None
    try:
        answer = urllib3.request("GET", NEAR + ROOT, retries=False, timeout=_LOOK_S)
    except (HTTPError, OSError):
        return None
    is_ours = answer.status == _OK and re.search(rb'"kaisched\.io/view/v1"', answer.data)
    return Server(NEAR, shard) if is_ours else None


def _lines(answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """Yield the lines of an answer as they come."""
    rest = b""
    while part := answer.read1(_BLOCK):
        *lines, rest = (rest + part).split(b"\n")
        if len(rest) > _BLOCK:
            return  # no event is so long
        yield from lines


def _decoded(data: bytes, url: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(data)
    except BAD_JSON:
        found = {"error": {"message": data[:300].decode("utf-8", "replace").strip(), "fix": ""}}
    return found if isinstance(found, dict) else {"error": {"message": f"{url} answers oddly"}}


def _refuse(status: int, found: Mapping[str, Any], url: str) -> None:
    error = found.get("error") or {}
    message, fix = error.get("message") or f"answer {status}", error.get("fix") or ""
    if status in _USAGE:
        raise ConfigError(message, path=error.get("path") or "", fix=fix)
    raise ClusterUnavailable(f"{url}: {message}", fix=fix)
