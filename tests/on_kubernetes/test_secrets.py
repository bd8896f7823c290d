"""What lets us in is never written: not at debug level, not by an error, not by a server's echo."""

import base64
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml

from kaisched.cluster.kubernetes.access import find_access
from kaisched.errors import KaischedError
from tests.contract.prometheus import free_port
from tests.processes import ANY_PORTS, Daemon
from tests.waiting import until

pytestmark = pytest.mark.slow
TOKEN = "eyJhbGciOiJub25lIn0.sesame-open-4711"
PASSWORD = "swordfish-0815"
BASIC = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
SECRETS = (TOKEN, PASSWORD, BASIC)


class Echo(BaseHTTPRequestHandler):
    """Answers with what it was sent, as a proxy in trouble may."""

    code = 500

    def do_GET(self):
        self.server.seen.append(self.headers.get("Authorization", ""))
        text = f"cannot serve {dict(self.headers)}"
        body = json.dumps({"kind": "Status", "code": self.code, "message": text}).encode()
        self.send_response(self.code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def echoing(code):
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Echo,), {"code": code}))
    server.seen = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def kubeconfig(host, user):
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": host}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


def written(folder, text):
    """All that `kaisched run` writes until it waits for the cluster, or ends."""
    file = folder / "kubeconfig"
    file.write_text(text, encoding="utf-8")
    variables = {"KUBECONFIG": str(file), "KAISCHED_LOG__LEVEL": "debug"}
    daemon = Daemon(folder / "log", "--cluster", "kubernetes", *ANY_PORTS, **variables)

    def log():
        return daemon.log.read_text(encoding="utf-8")

    try:
        until(lambda: "waiting_for_cluster" in log() or daemon.process.poll() is not None)
    finally:
        daemon.end()
    return log()


@pytest.mark.parametrize("code", [401, 500])
@pytest.mark.parametrize("user", [{"token": TOKEN}, {"username": "me", "password": PASSWORD}])
def test_a_server_that_echoes_what_it_was_sent(tmp_path, code, user):
    with echoing(code) as server:
        host = f"http://127.0.0.1:{server.server_port}"
        log = written(tmp_path, kubeconfig(host, user))
        assert any(secret in seen for seen in server.seen for secret in SECRETS)
    assert "waiting_for_cluster" in log
    assert "***" in log
    assert not [secret for secret in SECRETS if secret in log]


@pytest.mark.parametrize("host", ["http://127.0.0.1:{}", "http://me:" + PASSWORD + "@127.0.0.1:{}"])
def test_a_server_that_is_not_there(tmp_path, host):
    log = written(tmp_path, kubeconfig(host.format(free_port()), {"token": TOKEN}))
    assert "waiting_for_cluster" in log
    assert not [secret for secret in SECRETS if secret in log]


@pytest.mark.parametrize(
    "text",
    [
        f"users: [{{name: u, user: {{token: {TOKEN}}}}}\n",
        f"users:\n- name: u\n  user: {{token: {TOKEN}, : ]\n",
        kubeconfig("http://127.0.0.1:1", TOKEN),
        kubeconfig("http://127.0.0.1:1", {"token": [TOKEN]}),
        kubeconfig(
            "http://127.0.0.1:1", {"client-key-data": TOKEN, "client-certificate-data": "?"}
        ),
        kubeconfig(
            "http://127.0.0.1:1",
            {
                "exec": {
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "command": "echo",
                    "args": [f'{{"status": {{"token": "{TOKEN}"'],
                }
            },
        ),
    ],
)
def test_a_kubeconfig_that_cannot_be_used(tmp_path, capfd, caplog, text):
    file = tmp_path / "kubeconfig"
    file.write_text(text, encoding="utf-8")
    said = []
    try:
        find_access(file).authorization()
    except KaischedError as error:
        said = [str(error), repr(error)]
    told = "".join([*said, *capfd.readouterr(), caplog.text])
    assert not [secret for secret in SECRETS if secret in told]


def test_a_token_that_a_plugin_gives(tmp_path):
    told = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    told["status"] = {"token": TOKEN}
    user = {
        "exec": {
            "apiVersion": told["apiVersion"],
            "command": "echo",
            "args": [json.dumps(told)],
            "interactiveMode": "Never",
        }
    }
    with echoing(500) as server:
        log = written(tmp_path, kubeconfig(f"http://127.0.0.1:{server.server_port}", user))
        assert f"Bearer {TOKEN}" in server.seen
    assert not [secret for secret in SECRETS if secret in log]
