"""Queries to a Prometheus server through its client library, without the library's surprises.

The library has no timeout of its own, follows redirects, drops warnings and pastes label values
into queries. So only its ``custom_query`` is used, on a session of ours, with queries of ours.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from prometheus_api_client import PrometheusConnect

from kaisched.usage.prometheus.http import BearerFile, BoundedSession, CuttableAdapter, QueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kaisched.usage.settings import PrometheusSettings


class Client:
    """Client of one server, for use by one thread."""

    def __init__(self, settings: PrometheusSettings, session: BoundedSession | None = None) -> None:
        """Set up a session; nothing is connected yet."""
        self._settings = settings
        self._session = session or BoundedSession()
        self._session.verify = settings.ca_file or not settings.is_insecure
        url, auth = _without_credentials(settings.url)
        if settings.bearer_token_file:
            auth = BearerFile(Path(settings.bearer_token_file))
        self._connect = PrometheusConnect(
            url, session=self._session, auth=auth, timeout=settings.timeout_s
        )
        # The library mounts an adapter that retries beyond any deadline.
        self._session.mount(url, CuttableAdapter(self._session.sockets))

    def begin(self) -> None:
        """Start a fetch: all its queries share one ``usageQueryTimeout``."""
        self._session.begin(self._settings.timeout_s)

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings in the server's answers since :meth:`begin`."""
        return tuple(dict.fromkeys(self._session.warnings))

    def ask(self, query: str, at_s: float | None = None) -> list[Any]:
        """Return the answer to an instant query, at the server's time unless a time is given.

        Raises:
            QueryError: there is no usable answer.

        """
        params = {} if at_s is None else {"time": f"{at_s:.3f}"}
        return _list(lambda: self._connect.custom_query(query, params=params))

    def ask_range(self, query: str, start_s: float, end_s: float, step_s: int) -> list[Any]:
        """Return the answer to a query at every step from ``start_s`` on, in whole seconds.

        Raises:
            QueryError: there is no usable answer.

        """
        start, end = (datetime.fromtimestamp(each, UTC) for each in (start_s, end_s))
        return _list(lambda: self._connect.custom_query_range(query, start, end, str(step_s)))

    def close(self) -> None:
        """Close connections."""
        self._session.close()


def _list(ask: Callable[[], Any]) -> list[Any]:
    try:
        found = ask()
    except (KeyError, TypeError) as error:
        raise QueryError("the answer has no result") from error
    if not isinstance(found, list):
        raise QueryError("the answer has no result")
    return found


def _without_credentials(url: str) -> tuple[str, Any]:
    """Split an address from its credentials, so that messages can show it."""
    parts = urlsplit(url)
    if parts.username is None:
        return url, None
    host = parts.netloc.rpartition("@")[2]
    bare = urlunsplit((parts.scheme, host, parts.path, "", ""))
    return bare, (unquote(parts.username), unquote(parts.password or ""))
