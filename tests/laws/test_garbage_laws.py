"""What a cycle or a request has made is free as soon as it is let go: no search is needed.

A session that is part of a ring keeps the columns of its snapshot, and the store's lists behind
them, until Python comes to search among old objects, which may take it an hour. A request that
fails keeps its connection and all that its functions had in hand.
"""

import gc
import itertools
import socket
import threading
import types
from contextlib import ExitStack, contextmanager, suppress

import pytest

from kaisched.clock import ManualClock
from kaisched.cluster.kubernetes.access import Access
from kaisched.cluster.kubernetes.client import JSON, Client
from kaisched.engine.policy import default_policy
from kaisched.errors import ClusterUnavailable
from kaisched.framework import cycle
from kaisched.framework.memory import Memory
from kaisched.telemetry.stopwatch import Stopwatch
from tests.laws.clusters import NOW_S, make_cluster
from tests.laws.crowded import make_crowded

POLICY = default_policy()
EVICTING = {"reclaim": 6, "preempt": 14, "consolidate": 34, "stalegang": 57}
"""Seeds of crowded clusters in which the action evicts somebody."""
IDLE_S = 0.05
HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}"
ENDLESS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"


def named(it):
    """Return the name of a function, else that of an object's class."""
    what = it if isinstance(it, types.FunctionType) else type(it)
    return f"{what.__module__}.{what.__qualname__}"


@contextmanager
def rings(of=""):
    """Collect, in a list, the names of what is kept alive by rings, of one package or of any."""
    found = []
    gc.collect()
    gc.freeze()  # what is there already is not looked at
    gc.disable()
    flags = gc.get_debug()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        names = {named(it) for it in gc.garbage}
        found += sorted(it for it in names if it.startswith(of))
    finally:
        gc.set_debug(flags)
        gc.garbage.clear()
        gc.enable()
        gc.unfreeze()


def turns(store):
    """Run three cycles, read all they say, and return the actions that evicted somebody."""
    watch, memory, evicted = Stopwatch(ManualClock(NOW_S).now_s), Memory(), set()
    for later_s in (0.0, 1.0, 100.0):
        store.revision += 1
        snapshot, now_s = store.snapshot(), NOW_S + later_s
        result, memory = cycle.run_cycle(snapshot, None, POLICY, now_s, memory, watch)
        evicted |= {it.action for it in result.evictions}
        assert len(list(result.records)) == len(result.records)
    return evicted


@pytest.mark.fault("I132")
@pytest.mark.parametrize("action", ["", *EVICTING])
def test_a_cycle_leaves_no_rings(action):
    store = (make_crowded(EVICTING[action]) if action else make_cluster(3)).store()
    with rings(of="kaisched") as found:
        evicted = turns(store)
    assert not action or action in evicted
    assert not found


@contextmanager
def server(*, answer=None, is_listening=True):
    """Give the address of a server that hangs up after these bytes; None for one that is silent."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        if is_listening:
            listening.listen()

        def serve():
            with suppress(OSError):
                while True:
                    came = listening.accept()[0]
                    came.recv(1 << 16)
                    came.sendall(answer)
                    came.close()

        if answer is not None:
            threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)


def ask(client, *, is_watch):
    if is_watch:
        list(client.stream("/api/v1/pods", {}, JSON, IDLE_S).chunks())
    else:
        client.call("GET", "/api/v1/pods")


@pytest.mark.fault("I132")
def test_a_request_that_fails_leaves_no_rings():
    silent, refusing = server(), server(is_listening=False)
    with ExitStack() as stack:
        servers = [silent, refusing, *(server(answer=it) for it in (b"", HALF, ENDLESS))]
        addresses = [stack.enter_context(it) for it in servers]
        clients = [Client(Access(it), timeout_s=IDLE_S) for it in addresses]
        with rings() as found:
            for client, is_watch in itertools.product(clients, (False, True)):
                with pytest.raises(ClusterUnavailable):
                    ask(client, is_watch=is_watch)
    assert not found
