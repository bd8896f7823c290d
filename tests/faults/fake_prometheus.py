"""A server that answers as Prometheus would, until a test tells it to be a bad one."""

import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class FakePrometheus:
    """Ten GPUs for an hour; queue a held five of them, queue b two.

    ``change`` is a function of a query and its usual answer that returns another answer; ``serve``
    takes the whole request over. ``asked`` are the paths and headers of all requests.
    """

    def __init__(self):
        self.change = lambda query, answer: answer
        self.serve = None
        self.ahead_s = 0.0
        self.warnings = []
        self.asked = []
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.http.daemon_threads = True
        self.port = self.http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.end = threading.Event()
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.end.set()
        self.http.shutdown()
        self.http.server_close()

    def now_s(self):
        return time.time() + self.ahead_s

    def usual(self, path, asked):
        """The result of a query, by what is asked for."""
        query = asked["query"][0]
        if path.endswith("query_range"):
            begin, end, step = (float(asked[name][0]) for name in ("start", "end", "step"))
            begin = max(begin, end - 3600)
            times = [begin + step * at for at in range(int((end - begin) // step) + 1)]
            return "matrix", [{"metric": {}, "values": [[at, "10"] for at in times]}]
        if query == "time()":
            return "scalar", [self.now_s(), f"{self.now_s():.3f}"]
        at = self.now_s()
        if "unless" in query or "min_over_time" in query:
            return "vector", []
        if query.startswith("count"):
            return "vector", [{"metric": {}, "value": [at, "2"]}]
        if query.startswith("max(timestamp"):
            return "vector", [{"metric": {}, "value": [at, f"{at - 5:.3f}"]}]
        step = re.search(r":(\d+)s\]", query)
        steps = 3600 // int(step[1]) + 1 if step else 1
        return "vector", [
            {"metric": {"queue_name": name}, "value": [at, str(held * steps)]}
            for name, held in (("a", 5), ("b", 2))
        ]

    def _handler(fake):  # noqa: N805 - the handler inside is the one that has a self
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                fake.asked.append((self.path, dict(self.headers)))
                if fake.serve is not None:
                    fake.serve(self)
                    return
                url = urlsplit(self.path)
                asked = parse_qs(url.query)
                kind, result = fake.usual(url.path, asked)
                result = fake.change(asked["query"][0], result)
                self.answer(200, {"data": {"resultType": kind, "result": result}})

            def answer(self, status, body):
                text = {"status": "success" if status == 200 else "error", **body}
                if fake.warnings:
                    text["warnings"] = fake.warnings
                data = json.dumps(text).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                """Say nothing."""

        return Handler
