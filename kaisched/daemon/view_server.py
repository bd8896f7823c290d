"""Server of the live view: a listener of its own beside probes and metrics, and its stream."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import structlog

from kaisched.clock import monotonic_s
from kaisched.daemon.listening import Tls, serve
from kaisched.daemon.view_access import LocalAccess, OpenAccess, ReviewedAccess
from kaisched.daemon.view_pages import STREAM, ViewPages
from kaisched.daemon.view_static import StaticPages
from kaisched.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaisched.cluster.kubernetes.client import Client
    from kaisched.config.settings import ViewListener
    from kaisched.daemon.view_access import Access
    from kaisched.daemon.view_whatif import Whatif
    from kaisched.view.publisher import Publisher

LOOK_S: Final = 0.25
"""Time between two looks for a new revision: so often may a stream tell of one."""
TELL_S: Final = 5.0
"""A stream tells of the latest cycle so often, also where nothing has changed."""
THREADS: Final = 4
"""Each may wait for the API server, or for a word of the loop."""


class ViewServer:
    """Serves the views of all shards until closed."""

    def __init__(
        self,
        settings: ViewListener,
        publishers: Callable[[], Iterable[Publisher]],
        client: Client | None,
        whatif: Whatif | None = None,
    ) -> None:
        """Start to serve; what-if too, if it is given.

        Raises:
            ConfigError: the address cannot be listened on, or users cannot be told apart.

        """
        self._pages = ViewPages(publishers, _access(settings, client), whatif=whatif)
        self._publishers = publishers
        tls = Tls(settings.cert_file, settings.key_file) if settings.cert_file else None
        pages = {**StaticPages().pages, **self._pages.pages}
        self._server = serve(
            settings.bind_address, settings.port, pages, "view.port", threads=THREADS, tls=tls
        )
        self._end = threading.Event()
        self._teller = threading.Thread(target=self._tell, name="view-stream", daemon=True)
        self._teller.start()
        log: Any = structlog.get_logger()
        log.info("listening", address=settings.bind_address, port=self.port, pages=list(pages))

    @property
    def port(self) -> int:
        """The port that it listens on, even if 0 was configured."""
        return self._server.port

    def close(self) -> None:
        """Stop listening."""
        self._end.set()
        self._server.close()
        self._teller.join()

    def _tell(self) -> None:
        """Push a line to the streams when a view has changed; the loop waits for nothing here."""
        told: dict[str, tuple[int, int, float]] = {}
        while not self._end.wait(LOOK_S):
            for publisher in self._publishers():
                view = publisher.view
                if view is None:
                    continue
                revision, cycle, at_s = told.get(publisher.shard, (-1, -1, 0.0))
                is_due = cycle != view.cycle and monotonic_s() - at_s >= TELL_S
                if revision != view.revision or is_due:
                    told[publisher.shard] = view.revision, view.cycle, monotonic_s()
                    self._server.push(STREAM, self._pages.events(publisher))


def _access(settings: ViewListener, client: Client | None) -> Access:
    if not settings.is_authenticated:
        return LocalAccess() if settings.is_on_loopback else OpenAccess()
    if client is not None:
        return ReviewedAccess(client)
    is_found_out = settings.authentication == "auto"
    because = ", and this address is not a loopback one" if is_found_out else ""
    raise ConfigError(
        f"a cluster in memory knows no tokens{because}",
        path="view.authentication",
        value=settings.authentication,
        fix="listen on 127.0.0.1, or set it to none: the view shows all queues and jobs",
    )
