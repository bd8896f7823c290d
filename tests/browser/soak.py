"""A trace played to the page for some time: ``python -m tests.browser.soak --minutes 10``.

The simulation runs at 3,600 times real time; Chromium shows one view after the other. Memory of
both is printed every half minute, with all that the browser complained of.
"""

import argparse
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import requests

from tests.browser.chromium import chromium, missing
from tests.browser.pictures import take
from tests.waiting import until

VIEWS = ("overview", "queues", "nodes", "jobs", "evictions", "fairness", "cycles")
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


def serve(minutes):
    """Start the simulation; return its process and the address of its page."""
    days = 28 + minutes * 60 * 3600 / 86400 + 2
    line = [shutil.which("kaisched"), "simulate", "--serve", "--port", "0", "--speed", "3600"]
    process = subprocess.Popen(
        [*line, "--from", "28d", "--until", f"{days:.0f}d", "--no-progress"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    for told in process.stderr:
        print(told, end="")
        if found := re.search(r"http://localhost:\d+/", told):
            until(lambda: requests.get(f"{found[0]}api/v1/overview", timeout=30).ok)
            return process, found[0]
    raise SystemExit("the simulation did not start")


def watch(browser, process, minutes):
    """Look at one view after the other; return the rows of the table and all complaints."""
    began_s, rows, said, at = time.monotonic(), [], [], 0
    while time.monotonic() - began_s < minutes * 60:
        browser.view(VIEWS[at % len(VIEWS)])
        at += 1
        time.sleep(_STAY_S)
        said += browser.said()
        passed_s = time.monotonic() - began_s
        if passed_s >= _EVERY_S * (len(rows) + 1):
            cycle = browser.run("return document.querySelector('.live')?.innerText || ''")
            nodes = browser.run("return document.querySelectorAll('*').length")
            row = (passed_s / 60, resident_mib(process.pid), heap_mib(browser), nodes, cycle)
            rows.append(row)
            print("| {:.1f} | {:.0f} | {:.1f} | {} | {} |".format(*row).replace("\n", ", "))
            sys.stdout.flush()
    return rows, said


def main():
    """Run, and end with 1 if anything was complained of."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--pictures", type=Path, help="folder for pictures at the end")
    wanted = parser.parse_args()
    if missing():
        sys.exit(missing())
    process, page = serve(wanted.minutes)
    try:
        with chromium() as browser:
            browser.size(1440)
            browser.driver.get(page)
            browser.shown()
            print("| minute | simulation, MiB | page's heap, MiB | elements | live |")
            print("|---|---|---|---|---|")
            rows, said = watch(browser, process, wanted.minutes)
            if wanted.pictures is not None:
                views = [("fairness", 1440, "light"), ("overview", 1440, "dark")]
                take(browser, wanted.pictures, views, prefix="philly")
    finally:
        process.terminate()
        process.wait()
    print(f"{len(rows)} rows; the browser complained {len(said)} times")
    for text in said:
        print(text)
    sys.exit(1 if said else 0)


if __name__ == "__main__":
    main()
