"""One condition, status or event on its way to the API server."""

from __future__ import annotations

from typing import Any

from kaisched.cluster.kubernetes.client import Answer, Client
from kaisched.cluster.kubernetes.counts import Counts
from kaisched.cluster.kubernetes.failpoints import passing
from kaisched.cluster.kubernetes.pauses import Pauses
from kaisched.cluster.kubernetes.pods import SERVER_FAULT, is_passing
from kaisched.errors import ClusterUnavailable
from kaisched.telemetry.metrics import DONE, DROPPED, FAILED, RETRIED


class Report:
    """One report to be written; after a few failures it is dropped."""

    def __init__(
        self,
        client: Client,
        method: str,
        path: str,
        body: dict[str, Any],
        content_type: str,
        counts: Counts,
    ) -> None:
        """Keep the parts of the request."""
        self._client, self._method, self._path, self._body = client, method, path, body
        self._content_type, self._counts = content_type, counts
        self._pauses, self._tries = Pauses(), 3

    def send(self) -> float | None:
        """Write the report; return when to try again, None for no more."""
        passing("status.before_patch")
        self._tries -= 1
        try:
            answer = self._client.call(
                self._method, self._path, body=self._body, content_type=self._content_type
            )
        except ClusterUnavailable:
            answer = Answer(SERVER_FAULT, b"")
        passing("status.after_patch")
        if is_passing(answer) and self._tries:
            self._counts.add("report", RETRIED)
            return self._pauses.next_s(answer.retry_after_s)
        self._counts.add("report", DONE if answer.is_done else FAILED)
        return None

    def drop(self, why: str) -> None:
        """Drop the report."""
        del why
        self._counts.add("report", DROPPED)
