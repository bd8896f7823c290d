"""A server that stops forgets no connection that it has just accepted."""

import gc
import socket
import threading
import warnings
from contextlib import suppress

from kaisched_apiserver import ApiServer


def knock(server, end, found):
    while not end.is_set():
        with suppress(OSError):
            found.append(socket.create_connection((server.address, server.port)))


def test_connections_that_come_while_it_stops_are_closed(monkeypatch):
    left = []
    monkeypatch.setattr("sys.unraisablehook", lambda found: left.append(str(found.exc_value)))
    for _ in range(5):
        server, end, found = ApiServer().start(), threading.Event(), []
        thread = threading.Thread(target=knock, args=(server, end, found))
        thread.start()
        while len(found) < 5:
            pass
        server.stop()
        end.set()
        thread.join()
        for each in found:
            each.close()
        with warnings.catch_warnings():
            warnings.simplefilter("error", ResourceWarning)
            del server
            gc.collect()
    assert left == []
