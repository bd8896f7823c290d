"""Where it all happens: our API server in a process of its own, or a real one."""

import multiprocessing
import os
import signal
from contextlib import contextmanager
from pathlib import Path

import msgspec

from kaisched.cluster.embedded.apiserver import ApiServer, Fault
from kaisched.cluster.kubernetes.access import Access, find_access
from kaisched.cluster.kubernetes.client import Client
from tests.chaos.objects import Asking, kubeconfig

TOKEN = "the-scheduler"
"""What the replicas come with: faults that answer wrongly meet them only."""


def _serve(pipe):
    """Serve until told to end; between requests do what the pipe asks for."""
    with ApiServer() as server:
        faults = {}

        def put(number, words):
            faults[number] = server.faults.add(Fault(token=TOKEN, **words))

        def take(number):
            fault = faults.pop(number)
            server.faults.remove(fault)
            return fault.met

        def down():
            server.take_down()
            server.call(server.api.storage.forget_history)

        does = {
            "put": put, "take": take, "drop": server.drop_connections, "down": down,
            "up": server.bring_up,
        }  # fmt: skip
        pipe.send(server.url)
        while (request := pipe.recv()) is not None:
            what, *words = request
            pipe.send(does[what](*words))


class Ours:
    """The embedded API server, which can play every fault."""

    has_faults = True

    def __init__(self):
        self._pipe, there = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(target=_serve, args=(there,), daemon=True)
        self._process.start()
        self.url = self._pipe.recv()
        self.access = Access(self.url)
        self._numbers = 0

    def close(self):
        self.go_on()
        self._pipe.send(None)
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()

    def log_in(self, file):
        """Write the kubeconfig of the replicas."""
        file.write_text(kubeconfig(self.url, TOKEN), encoding="utf-8")

    def _ask(self, *request):
        self._pipe.send(request)
        return self._pipe.recv()

    @contextmanager
    def fault(self, **words):
        """Put a fault in force for the replicas."""
        self._numbers += 1
        number = self._numbers
        self._ask("put", number, words)
        try:
            yield
        finally:
            self._ask("take", number)

    def drop(self):
        self._ask("drop")

    def down(self):
        self._ask("down")

    def up(self):
        self._ask("up")

    def pause(self):
        os.kill(self._process.pid, signal.SIGSTOP)

    def go_on(self):
        os.kill(self._process.pid, signal.SIGCONT)


class Real:
    """A server that runs already, which must be empty; what only ours can play is left out."""

    has_faults = False

    def __init__(self, file):
        self.access = find_access(Path(file))
        self.url = self.access.host

    def close(self):
        """Leave it alone: it is somebody else's."""

    def log_in(self, file):
        """Write a kubeconfig with a token of the account that the fence knows."""
        path = "/api/v1/namespaces/kaisched/serviceaccounts/kaisched/token"
        asked = {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": 6 * 3600},
        }  # fmt: skip
        answer = Client(self.access).call("POST", path, body=asked)
        if not answer.is_done:
            raise RuntimeError(answer.text())
        token = msgspec.json.decode(answer.data)["status"]["token"]
        certificate = self.access.pool.get("ca_certs", "")
        file.write_text(kubeconfig(self.url, token, certificate or ""), encoding="utf-8")


@contextmanager
def stage():
    """Give the stage of this run."""
    file = os.environ.get("KAISCHED_TEST_KUBECONFIG", "")
    it = Real(file) if file else Ours()
    try:
        yield it
    finally:
        it.close()


def asking_of(it):
    return Asking(Client(it.access, connections=16, timeout_s=60.0))
