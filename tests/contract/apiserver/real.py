"""A real kube-apiserver for the contract, where the environment has one.

``KAISCHED_TEST_KUBECONFIG`` names the kubeconfig of a running server that may be written to and has
no controllers, which would work out budgets and collect pods in the middle of a test;
``KUBEBUILDER_ASSETS`` a folder with ``etcd`` and ``kube-apiserver``, which are started here.
"""

import os
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

from urllib3.exceptions import HTTPError

from tests.contract.apiserver.client import Client, client_of

PATIENCE_S = 60
TOKEN = "contract"


def is_there():
    return bool(os.environ.get("KAISCHED_TEST_KUBECONFIG") or os.environ.get("KUBEBUILDER_ASSETS"))


@contextmanager
def real_client(folder):
    kubeconfig = os.environ.get("KAISCHED_TEST_KUBECONFIG")
    if kubeconfig:
        yield client_of(kubeconfig)
        return
    with _started(Path(os.environ["KUBEBUILDER_ASSETS"]), folder) as client:
        yield client


def _free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextmanager
def _started(assets, folder):
    etcd, peer, port = _free_port(), _free_port(), _free_port()
    key = folder / "service-account.key"
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    tokens = folder / "tokens.csv"
    tokens.write_text(f"{TOKEN},admin,admin,system:masters\n")
    etcd_url = f"http://127.0.0.1:{etcd}"
    lines = [
        [
            assets / "etcd",
            f"--data-dir={folder / 'etcd'}",
            f"--listen-client-urls={etcd_url}",
            f"--advertise-client-urls={etcd_url}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
        ],
        [
            assets / "kube-apiserver",
            f"--etcd-servers={etcd_url}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={folder / 'certs'}",
            "--authorization-mode=RBAC",
            f"--token-auth-file={tokens}",
            "--service-account-issuer=https://kaisched.invalid",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount",
        ],
    ]
    with (folder / "servers.log").open("wb") as log:
        running = [subprocess.Popen(line, stdout=log, stderr=log) for line in lines]
        try:
            certificate = folder / "certs" / "apiserver.crt"
            _wait_until(certificate.exists, running)
            url = f"https://127.0.0.1:{port}"
            client = Client(url, token=TOKEN, ca_certs=str(certificate))
            _wait_until(lambda: _is_ready(client), running)
            yield client
        finally:
            # Neither has anything to keep, and a graceful end takes a minute.
            for process in running:
                process.kill()
            for process in running:
                process.wait()


def _wait_until(is_done, running):
    deadline = time.monotonic() + PATIENCE_S
    while not is_done():
        assert all(process.poll() is None for process in running), "see servers.log"
        if time.monotonic() > deadline:
            raise TimeoutError(f"kube-apiserver was not ready after {PATIENCE_S} s")
        time.sleep(0.2)


def _is_ready(client):
    try:
        return client.get("/readyz").code == 200
    except (OSError, HTTPError):
        return False
