"""A client that hides nothing: raw requests, plain answers."""

import base64
import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import urllib3
import yaml

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
PODS = "/api/v1/namespaces/{}/pods"


@dataclass
class Answer:
    code: int
    body: dict
    headers: dict = field(default_factory=dict)

    @property
    def reason(self):
        return self.body.get("reason")

    @property
    def message(self):
        return self.body.get("message", "")

    @property
    def version(self):
        return self.body["metadata"]["resourceVersion"]


class Client:
    """Talks to one server; keeps its connections."""

    def __init__(self, url, *, token="", **tls):
        self.url = url
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._pool = urllib3.PoolManager(maxsize=8, retries=False, timeout=60, **tls)

    def ask(self, method, path, body=None, *, type_="application/json", accept="", **query):
        headers = {**self._headers, "Content-Type": type_}
        if accept:
            headers["Accept"] = accept
        data = body if isinstance(body, str | bytes | None) else json.dumps(body)
        text = "?" + urlencode(query) if query else ""
        got = self._pool.request(method, self.url + path + text, body=data, headers=headers)
        is_json = "json" in got.headers.get("Content-Type", "")
        return Answer(got.status, json.loads(got.data) if is_json else {}, dict(got.headers))

    def get(self, path, **query):
        return self.ask("GET", path, **query)

    def post(self, path, body, **query):
        return self.ask("POST", path, body, **query)

    def put(self, path, body, **query):
        return self.ask("PUT", path, body, **query)

    def patch(self, path, body, *, type_=MERGE, **query):
        return self.ask("PATCH", path, body, type_=type_, **query)

    def delete(self, path, body=None, **query):
        return self.ask("DELETE", path, body, **query)

    def watch(self, path, *, timeout_s=1, accept="", **query):
        """Return the events of a watch until the server ends it."""
        query = {"watch": "true", "timeoutSeconds": timeout_s, **query}
        headers = {**self._headers, **({"Accept": accept} if accept else {})}
        got = self._pool.request(
            "GET",
            f"{self.url}{path}?{urlencode(query)}",
            headers=headers,
            timeout=timeout_s + 60,
        )
        return got.status, [json.loads(line) for line in got.data.splitlines() if line]

    def watch_for(self, path, count, **query):
        """Return the first events of a watch, as soon as there are so many."""
        query = {"watch": "true", "timeoutSeconds": 60, **query}
        url = f"{self.url}{path}?{urlencode(query)}"
        got = self._pool.request(
            "GET", url, headers=self._headers, timeout=120, preload_content=False
        )
        found, rest = [], b""
        for part in got.stream():
            *lines, rest = (rest + part).split(b"\n")
            found += [json.loads(line) for line in lines if line]
            if len(found) >= count:
                break
        got.close()
        return found

    def close(self):
        self._pool.clear()


def client_of(kubeconfig):
    """Return a client for the current context of a kubeconfig file."""
    config = yaml.safe_load(Path(kubeconfig).read_text())
    contexts = {it["name"]: it["context"] for it in config["contexts"]}
    context = contexts[config["current-context"]]
    cluster = next(it["cluster"] for it in config["clusters"] if it["name"] == context["cluster"])
    user = next(it["user"] for it in config["users"] if it["name"] == context["user"])
    tls = {}
    if cluster["server"].startswith("https"):
        tls["cert_reqs"] = (
            "CERT_NONE" if cluster.get("insecure-skip-tls-verify") else "CERT_REQUIRED"
        )
        for name, place, key in (
            ("ca_certs", cluster, "certificate-authority"),
            ("cert_file", user, "client-certificate"),
            ("key_file", user, "client-key"),
        ):
            if file := _file_of(place, key):
                tls[name] = file
    return Client(cluster["server"], token=user.get("token", ""), **tls)


def _file_of(place, key):
    if f"{key}-data" not in place:
        return place.get(key)
    with tempfile.NamedTemporaryFile(delete=False) as file:
        file.write(base64.b64decode(place[f"{key}-data"]))
    return file.name


def pod(name, *, gpus=0, scheduler="kaisched", labels=None, **spec):
    """A small pod as a manifest says it."""
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    container = {"name": "c", "image": "x", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"schedulerName": scheduler, "containers": [container], **spec},
    }


def binding(name, node, **metadata):
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": target,
    }


def eviction(name, **options):
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name},
        **({"deleteOptions": options} if options else {}),
    }
