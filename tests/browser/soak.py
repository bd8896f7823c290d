"""A trace played to the page for some time: ``python -m tests.browser.soak --minutes 10``.

The simulation runs at 3,600 times real time; Chromium shows one view after the other. Memory of
both is printed every half minute, with all that the browser complained of. With ``--playground``
the jobs come as pods to the API server of ``kaisched playground``, and its daemon serves the page.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import requests

from tests.browser.chromium import chromium, missing
from tests.browser.pictures import take
from tests.browser.trace_player import Player
from tests.waiting import until

VIEWS = ("overview", "queues", "nodes", "jobs", "evictions", "fairness", "cycles")
SPEED, NODES, GPUS = 3600, 64, 8
_EVERY_S, _STAY_S = 30.0, 4.0
_MIB = 1 << 20


def resident_mib(pid):
    """Return what a process holds in memory."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024


def heap_mib(browser):
    """Return what the page's objects take, after a collection of garbage."""
    browser.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    found = browser.driver.execute_cdp_cmd("Runtime.getHeapUsage", {})
    return found["usedSize"] / _MIB


def children(pid):
    """Return the processes that a process has started, with theirs."""
    lists = [it.read_text().split() for it in Path(f"/proc/{pid}/task").glob("*/children")]
    return [it for own in lists for child in own for it in (int(child), *children(int(child)))]


@contextmanager
def simulation(minutes):
    """Start the simulation; yield its page, and what says how it does."""
    days = 28 + minutes * 60 * SPEED / 86400 + 2
    line = [shutil.which("kaisched"), "simulate", "--serve", "--port", "0", "--speed", str(SPEED)]
    process = subprocess.Popen(
        [*line, "--from", "28d", "--until", f"{days:.0f}d", "--no-progress"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for told in process.stderr:
            print(told, end="")
            if found := re.search(r"http://localhost:\d+/", told):
                until(lambda: requests.get(f"{found[0]}api/v1/overview", timeout=30).ok)
                yield found[0], {"simulation, MiB": lambda: f"{resident_mib(process.pid):.0f}"}
                return
        raise SystemExit("the simulation did not start")
    finally:
        process.terminate()
        process.wait()


@contextmanager
def playground(log):
    """Start the playground, and play the trace to it; yield its page, and what says how it does."""
    line = [shutil.which("kaisched"), "playground", "--start-delay", "0"]
    size = ["--nodes", str(NODES), "--gpus-per-node", str(GPUS)]
    with log.open("w") as errors:
        process = subprocess.Popen(
            [*line, *size],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    try:
        told = ""
        while "\nnext  " not in told:
            told += process.stdout.readline()
        url, page = re.findall(r"http://\S+", told)
        until(lambda: _answers(f"{page}api/v1/overview"))
        player = Player(url, SPEED)
        player.start(NODES * GPUS)
        daemon, *others = children(process.pid)
        yield (
            page,
            {
                "daemon, MiB": lambda: f"{resident_mib(daemon):.0f}",
                "its process for readers, MiB": lambda: f"{resident_mib(others[0]):.0f}",
                "API server, MiB": lambda: f"{resident_mib(process.pid):.0f}",
                "jobs": lambda: f"{player.submitted:,}",
                "day": lambda: f"{player.day():.1f}",
                "late, s": lambda: f"{player.late_s():.0f}",
            },
        )
        player.stop()
        print(f"{len(player.faults)} requests of the player failed", *player.faults[:5], sep="\n")
    finally:
        process.terminate()
        process.wait()
    lines = log.read_text().splitlines()
    bad = [it for it in lines if re.search(r"Traceback|\b(ERROR|CRITICAL)\b|_failed\b", it)]
    print(f"{len(lines)} lines of the daemon, {len(bad)} of them of errors", *bad[:20], sep="\n")


def _answers(url):
    try:
        return requests.get(url, timeout=30).ok
    except requests.ConnectionError:
        return False


def watch(browser, figures, minutes):
    """Look at one view after the other; print a row now and then; return all complaints."""
    began_s, rows, said, at = time.monotonic(), 0, [], 0
    print("|".join(("", " minute ", *figures, " page's heap, MiB ", " elements ", " live ", "")))
    print("|---" * (len(figures) + 4) + "|")
    while time.monotonic() - began_s < minutes * 60:
        browser.view(VIEWS[at % len(VIEWS)])
        at += 1
        time.sleep(_STAY_S)
        said += browser.said()
        passed_s = time.monotonic() - began_s
        if passed_s >= _EVERY_S * (rows + 1):
            cycle = browser.run("return document.querySelector('.live')?.innerText || ''")
            nodes = browser.run("return document.querySelectorAll('*').length")
            told = [figure() for figure in figures.values()]
            row = (f"{passed_s / 60:.1f}", *told, f"{heap_mib(browser):.1f}", str(nodes), cycle)
            rows += 1
            print("| " + " | ".join(row).replace("\n", ", ") + " |")
            sys.stdout.flush()
    print(f"{rows} rows, {at} views")
    return said


def main():
    """Run, and end with 1 if anything was complained of."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--pictures", type=Path, help="folder for pictures at the end")
    parser.add_argument("--playground", type=Path, help="play to pods; where the daemon logs")
    wanted = parser.parse_args()
    if missing():
        sys.exit(missing())
    served = playground(wanted.playground) if wanted.playground else simulation(wanted.minutes)
    with served as (page, figures), chromium() as browser:
        browser.size(1440)
        browser.driver.get(page)
        browser.shown()
        said = watch(browser, figures, wanted.minutes)
        if wanted.pictures is not None:
            views = [("fairness", 1440, "light"), ("overview", 1440, "dark")]
            prefix = "played" if wanted.playground else "philly"
            take(browser, wanted.pictures, views, prefix=prefix)
    print(f"the browser complained {len(said)} times")
    for text in said:
        print(text)
    sys.exit(1 if said else 0)


if __name__ == "__main__":
    main()
