"""The page of a large cluster: ``python -m tests.browser.large`` prints how long its views take."""

import sys
import time

from kaisched.config.settings import ViewListener
from kaisched.daemon.http_server import Server
from kaisched.daemon.view_pages import view_listener
from kaisched.testing.builder import ClusterBuilder
from kaisched.view.publisher import Publisher
from tests.browser.chromium import chromium, missing

DEPARTMENTS, TEAMS, NODES, RUN, WAIT = 20, 49, 6250, 6, 12_500
VIEWS = ("overview", "queues", "nodes", "jobs", "fairness", "jobs?name=wait-0123")
_LONGEST = (
    "const done = arguments[0]; let worst = 0, last = performance.now(); const end = last + 3000;"
    "(function frame() { const now = performance.now(); worst = Math.max(worst, now - last);"
    " last = now; now < end ? requestAnimationFrame(frame) : done(worst); })();"
)


def cluster():
    """1,000 queues, and 50,000 jobs of one pod on as many GPUs."""
    built = ClusterBuilder()
    for department in range(DEPARTMENTS):
        built.queue(f"dep-{department:02d}", deserved=2500)
        for team in range(TEAMS):
            name = f"team-{department:02d}-{team:02d}"
            built.queue(name, parent=f"dep-{department:02d}", deserved=50)

    def queue(at):
        return f"team-{at % DEPARTMENTS:02d}-{at % TEAMS:02d}"

    for node in range(NODES):
        name = f"node-{node:05d}"
        built.node(name, gpu=8)
        for at in range(node * RUN, (node + 1) * RUN):
            built.job(f"run-{at:06d}", queue=queue(at), running={name: 1})
    for at in range(WAIT):
        built.job(f"wait-{at:06d}", queue=queue(at), gpu=4)
    return built


def main():
    """Serve the cluster, and look at it."""
    if missing():
        sys.exit(missing())
    ran, publisher = cluster().run("allocate"), Publisher("default")
    for cycle in (1, 2, 3):
        publisher.take(ran.result, cycle=cycle, time_s=1.7e9 + 2 * cycle, duration_s=0.4)
    server = Server([view_listener(ViewListener(port=0), lambda: [publisher], None)])
    try:
        with chromium() as browser:
            browser.size(1440)
            browser.driver.get(f"http://localhost:{server.port}/")
            browser.shown()
            for view in VIEWS:
                began_s = time.monotonic()
                browser.view(view)
                took_s = time.monotonic() - began_s
                elements = browser.run("return document.querySelectorAll('*').length")
                longest = browser.driver.execute_async_script(_LONGEST)
                print(f"| {view} | {took_s:.1f} | {elements:,} | {longest:.0f} |")
    finally:
        server.close()


if __name__ == "__main__":
    main()
