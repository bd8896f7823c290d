"""Where it all happens: our API server in a process of its own, or a real one."""

import os
import shlex
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path

import msgspec

from kaisched.cluster.kubernetes.access import Access, find_access
from kaisched.cluster.kubernetes.client import Client
from kaisched_apiserver import ApiServer
from kaisched_apiserver.access import ADMIN, Rule
from kaisched_apiserver.playground import kubeconfig_of
from tests.chaos.away import Away, Received, attend
from tests.chaos.front import serve as serve_front
from tests.chaos.objects import Asking

TOKEN = "the-scheduler"
"""What the replicas come with: faults that answer wrongly meet them only."""
COMMAND = "KAISCHED_TEST_SERVER_COMMAND"
BY_COMMAND = frozenset({"server_restarted", "server_paused"})
"""Faults of a real server that need a command from who has started it."""


READING_S = 1.0
"""So long the embedded server refuses the replicas after a restart, as a real one does."""


def _serve(pipe):
    """Be the embedded server until told to end."""
    server = ApiServer()
    server.faults = Received()
    with server:
        server.api.access.tokens |= {"": ADMIN, TOKEN: "the-scheduler"}
        server.api.access.rules["the-scheduler"] = [Rule(("*",), ("*",), ("*",), urls=("*",))]

        def down():
            server.take_down()
            server.call(server.api.storage.forget_history)

        attend(
            pipe,
            server.url,
            server.faults,
            drop=server.drop_connections,
            down=down,
            up=lambda: server.bring_up(READING_S),
        )


class Ours:
    """The embedded API server, which can play every fault."""

    cannot = frozenset()

    def __init__(self):
        self._away = Away(_serve)
        self.url = self._away.url
        self.access = Access(self.url)

    def close(self):
        self.go_on()
        self._away.close()

    def log_in(self, file):
        """Write the kubeconfig of the replicas."""
        file.write_text(kubeconfig_of(self.url, TOKEN), encoding="utf-8")

    def fault(self, **words):
        """Put a fault in force for the replicas."""
        return self._away.fault(token=TOKEN, **words)

    def received(self):
        """Return the evictions that were asked for since the last time, as (pod's key, seconds)."""
        return self._away.received()

    def drop(self):
        self._away.ask("drop")

    def down(self):
        self._away.ask("down")

    def up(self):
        self._away.ask("up")

    def pause(self):
        os.kill(self._away.pid, signal.SIGSTOP)

    def go_on(self):
        os.kill(self._away.pid, signal.SIGCONT)


class Real:
    """A server that runs already, which must be empty.

    The replicas come to it through a front, which plays what the server cannot; ``command`` starts
    and stops it, and what needs that is left out where there is none.
    """

    def __init__(self, file, command=""):
        self.access = find_access(Path(file))
        self.cannot = frozenset() if command else BY_COMMAND
        self._command = shlex.split(command)
        self._front = Away(serve_front, self.access.host, dict(self.access.pool))

    def close(self):
        """Leave it alone: it is somebody else's."""
        self._front.close()

    def log_in(self, file):
        """Write a kubeconfig with a token of the account that the fence knows."""
        path = "/api/v1/namespaces/kaisched/serviceaccounts/kaisched/token"
        asked = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 6 * 3600},
        }
        answer = Client(self.access).call("POST", path, body=asked)
        if not answer.is_done:
            raise RuntimeError(answer.text())
        token = msgspec.json.decode(answer.data)["status"]["token"]
        file.write_text(kubeconfig_of(self._front.url, token), encoding="utf-8")

    def fault(self, **words):
        """Put a fault in force for the replicas."""
        return self._front.fault(**words)

    def received(self):
        """Return the evictions that were asked for since the last time, as (pod's key, seconds)."""
        return self._front.received()

    def drop(self):
        self._front.ask("drop")

    def down(self):
        self._call("down")

    def up(self):
        """Return once it is ready."""
        self._call("up")

    def pause(self):
        self._call("pause")

    def go_on(self):
        self._call("go-on")

    def _call(self, word):
        subprocess.run([*self._command, word], check=True, stdout=subprocess.DEVNULL)


@contextmanager
def stage():
    """Give the stage of this run."""
    file = os.environ.get("KAISCHED_TEST_KUBECONFIG", "")
    it = Real(file, os.environ.get(COMMAND, "")) if file else Ours()
    try:
        yield it
    finally:
        it.close()


def asking_of(it):
    return Asking(Client(it.access, connections=16, timeout_s=60.0))
