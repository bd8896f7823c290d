"""A server in a process of its own, which is told through a pipe what to do."""

import multiprocessing
from contextlib import contextmanager

from kaisched_apiserver import Fault


def attend(pipe, url, faults, **does):
    """Say where we serve, then do what the pipe asks for until it asks for nothing."""
    known = {}

    def put(number, words):
        known[number] = faults.add(Fault(**words))

    does = {"put": put, "take": lambda number: faults.remove(known.pop(number)), **does}
    pipe.send(url)
    while (request := pipe.recv()) is not None:
        what, *words = request
        does[what](*words)
        pipe.send(None)


class Away:
    """Starts ``serve(pipe, *words)`` in a process of its own; it begins with ``attend``."""

    def __init__(self, serve, *words):
        self._pipe, there = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(target=serve, args=(there, *words), daemon=True)
        self._process.start()
        self.url = self._pipe.recv()
        self._numbers = 0

    @property
    def pid(self):
        return self._process.pid

    def close(self):
        self._pipe.send(None)
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()

    def ask(self, *request):
        self._pipe.send(request)
        self._pipe.recv()

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
