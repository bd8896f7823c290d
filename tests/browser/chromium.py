"""Chromium without a window, and what a test asks of it."""

import json
import shutil
from contextlib import contextmanager

from tests.waiting import until

NEEDED = ("chromium", "chromedriver")
WIDTHS = (390, 820, 1440)
"""A phone, a tablet, and a desk."""
_OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
)


def missing():
    """Say what is not installed; empty if nothing is missing."""
    names = ", ".join(it for it in NEEDED if shutil.which(it) is None)
    return names and f"missing: {names}; apt-get install chromium chromium-driver"


class Browser:
    """A tab, with what it was asked, sent and said."""

    def __init__(self, driver):
        """Keep the driver; nothing is animated, so that pictures are the same every time."""
        self.driver = driver
        self._requested = []
        driver.set_script_timeout(60)
        self.medium()

    def medium(self, theme="light"):
        features = [
            {"name": "prefers-color-scheme", "value": theme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def size(self, width, height=900):
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def text(self, selector="main"):
        return self.run("return document.querySelector(arguments[0])?.innerText || ''", selector)

    def wait(self, expression):
        """Wait until an expression holds in the browser, and return its value."""
        return until(lambda: self.run(f"return {expression}"), what=expression)

    def view(self, name):
        """Go to a view of the page, and wait until it shows its documents."""
        self.run("location.hash = '#/' + arguments[0]", name)
        return self.shown()

    def shown(self):
        return self.wait(
            "!!document.querySelector('main[data-shown]')"
            " && document.querySelector('main').dataset.shown === decodeURI(location.hash)"
        )

    def keys(self, *names):
        from selenium.webdriver import ActionChains

        chain = ActionChains(self.driver)
        for name in names:
            chain.send_keys(name)
        chain.perform()

    def said(self):
        """Return the errors and warnings of the console since the last call."""
        return [it["message"] for it in self.driver.get_log("browser")]

    def requested(self):
        """Return the addresses that were requested so far."""
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self._requested.append(message["params"]["request"]["url"])
        return self._requested


@contextmanager
def chromium():
    """Start a browser."""
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for option in _OPTIONS:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
