"""A server in a process of its own, which is told through a pipe what to do."""

import multiprocessing
import threading
import time
from collections import deque
from contextlib import contextmanager

from kaisched_apiserver import Fault, Faults


class Received(Faults):
    """Faults that remember when requests to evict came in, before anything delays them."""

    def __init__(self):
        super().__init__()
        self._evictions = deque()

    def of(self, request):
        if request.subresource == "eviction":
            self._evictions.append((f"{request.namespace}/{request.name}", time.monotonic()))
        return super().of(request)

    def take(self):
        """Return what came in since the last time, as (pod's key, seconds)."""
        return [self._evictions.popleft() for _ in range(len(self._evictions))]


def attend(pipe, url, faults, **does):
    """Say where we serve, then do what the pipe asks for until it asks for nothing."""
    known = {}

    def put(number, words):
        known[number] = faults.add(Fault(**words))

    does = {
        "put": put,
        "take": lambda number: faults.remove(known.pop(number)),
        "received": faults.take,
        **does,
    }
    pipe.send(url)
    while (request := pipe.recv()) is not None:
        what, *words = request
        answer = does[what](*words)
        pipe.send(answer if what == "received" else None)


class Away:
    """Starts ``serve(pipe, *words)`` in a process of its own; it begins with ``attend``."""

    def __init__(self, serve, *words):
        self._pipe, there = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(target=serve, args=(there, *words), daemon=True)
        self._process.start()
        self.url = self._pipe.recv()
        self._numbers, self._lock = 0, threading.Lock()

    @property
    def pid(self):
        return self._process.pid

    def close(self):
        self._pipe.send(None)
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()

    def ask(self, *request):
        with self._lock:  # or one thread would read the answer to another
            self._pipe.send(request)
            return self._pipe.recv()

    def received(self):
        """Return the evictions that were asked for since the last time, as (pod's key, seconds)."""
        return self.ask("received")

    @contextmanager
    def fault(self, **words):
        """Put a fault in force."""
        self._numbers += 1
        number = self._numbers
        self.ask("put", number, words)
        try:
            yield
        finally:
            self.ask("take", number)
