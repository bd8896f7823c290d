"""Pictures of the page for the docs: ``python -m tests.browser.pictures docs/pictures``."""

import base64
import sys
from pathlib import Path

from kaisched.config.settings import ViewListener
from kaisched.daemon.http_server import Server
from kaisched.daemon.view_pages import view_listener
from tests.browser.chromium import WIDTHS, chromium, missing
from tests.browser.lab import published

PICTURES = (
    *(("overview", width, "light") for width in WIDTHS),
    *(("queues", width, "light") for width in WIDTHS),
    *(("nodes", width, "dark") for width in WIDTHS),
    *(("jobs/default/llm-405b", width, "light") for width in WIDTHS),
    ("jobs", 1440, "light"),
    ("evictions", 820, "light"),
    ("fairness", 820, "light"),
    ("cycles", 820, "dark"),
)
_LEAST, _MOST = 480, 1400


def take(browser, folder, pictures=PICTURES, prefix="page"):
    """Write a picture of each view, as tall as it is."""
    for view, width, theme in pictures:
        browser.medium(theme)
        browser.size(width, _LEAST)
        browser.view(view)
        tall = browser.run("return document.documentElement.scrollHeight")
        browser.size(width, min(max(tall, _LEAST), _MOST))
        found = browser.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
        name = f"{prefix}-{view.split('/')[0].rstrip('s') if '/' in view else view}-{width}.png"
        (folder / name).write_bytes(base64.b64decode(found["data"]))
        print(folder / name)


def main():
    """Serve the lab and take its pictures."""
    if missing():
        sys.exit(missing())
    publisher = published()
    server = Server([view_listener(ViewListener(port=0), lambda: [publisher], None)])
    try:
        with chromium() as browser:
            browser.driver.get(f"http://localhost:{server.port}/")
            browser.shown()
            take(browser, Path(sys.argv[1]))
    finally:
        server.close()


if __name__ == "__main__":
    main()
