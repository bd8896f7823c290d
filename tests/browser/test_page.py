"""The page in Chromium: every view at three widths, by keyboard, with a token and without."""

import json
import re
from pathlib import Path

import pytest
from typer.main import get_command

from kaisched.cli.app import build_app
from kaisched.config.settings import ViewListener
from kaisched.daemon import view_pages
from kaisched.daemon.http_server import Server
from kaisched.daemon.view_pages import view_listener
from tests.browser.chromium import WIDTHS, chromium, missing
from tests.browser.lab import published

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
VIEWS = ("overview", "queues", "nodes", "jobs", "evictions", "fairness", "cycles", "whatif")


class Trials:
    """What-if without a worker: of one queue, with one answer."""

    def values(self, shard):
        gpu = {"quota": 16, "limit": -1, "overQuotaWeight": 1}
        queues = [{"name": "video", "gpu": gpu}]
        return {"schemaVersion": "", "enabled": True, "kValue": 1.0, "queues": queues}

    def difference(self, shard, target, assignments):
        state = {"running": 0, "waiting": 2, "runningBefore": 0, "reason": "NoRoom", "message": ""}
        job = {"podGroup": f"{target}?{assignments[0]}", "queue": "video", "without": state}
        job["with"] = {**state, "waiting": 0, "running": 2}
        return json.dumps(
            {"jobs": [job], "evictions": [], "queues": [], "warnings": [], "when": {}}
        ).encode()


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def server():
    patch = pytest.MonkeyPatch()
    patch.setattr(view_pages, "REST", 0.0)  # here is no loop to leave time to
    publisher = published()
    running = Server([view_listener(ViewListener(port=0), lambda: [publisher], None, Trials())])
    yield running
    running.close()
    patch.undo()


@pytest.fixture
def page(browser, server):
    browser.size(1440)
    browser.driver.get(f"http://localhost:{server.port}/")
    assert browser.shown()
    return browser


def test_every_view_fits_every_width_and_nothing_is_wrong(page, server):
    """No view is wider than its window, the console stays empty, and nobody else is asked."""
    wide = {
        (view, width)
        for width in WIDTHS
        for view in (*VIEWS, "queues/video", "jobs/default/clips", "jobs/default/llm-405b")
        if page.size(width) is None
        and page.view(view)
        and page.run("return document.documentElement.scrollWidth > innerWidth")
    }
    assert not wide
    assert page.said() == []
    own = f"http://localhost:{server.port}/"
    assert {it for it in page.requested() if not it.startswith((own, "blob:", "data:"))} == set()


@pytest.mark.proportion
def test_the_views_show_what_the_cycle_found(page):
    assert "184" in page.text(), "all but the idle GPUs of the node that is cordoned"
    assert "no room" in page.text()
    page.view("queues")
    assert "pretraining" in page.text(".tree")
    page.view("nodes")
    assert page.run("return document.querySelectorAll('.node').length") == 24
    assert "hall-1/rack-1" in page.text()
    domains = page.run("return document.querySelectorAll('.domain').length")
    assert domains == 6, "racks: hosts are a level too, but of one node each"
    shared = page.run("return document.querySelectorAll('.node g rect[fill]').length")
    assert shared == 3, "one GPU, in parts of three queues' pods"
    page.view("jobs/default/clips")
    assert "WaitingForRelease" in page.text() or "waiting for release" in page.text()
    page.view("evictions")
    assert "clips" in page.text("table")


def test_everything_is_reached_by_the_keyboard(page):
    from selenium.webdriver.common.keys import Keys

    page.keys("3")
    page.wait("!!document.querySelector('.view-nodes .node')")
    page.run("document.querySelector('.node').focus()")
    page.keys(Keys.ARROW_RIGHT, Keys.ENTER)
    assert page.wait("document.querySelector('.detail')")
    page.keys("4")
    page.wait("!!document.querySelector('.view-jobs td')")
    page.keys("/", "rlhf")
    assert page.wait("document.querySelectorAll('tbody tr').length === 1")
    assert "name=rlhf" in page.run("return location.hash")
    focus = page.run("return document.activeElement.type")
    assert focus == "search", "an update of the page leaves the focus where it is"
    seen = set()
    for _ in range(40):
        page.keys(Keys.TAB)
        seen.add(page.run("return document.activeElement.innerText || document.activeElement.type"))
    assert {"Overview", "Pause", "As a command", "JSON", "CSV", "default/rlhf"} <= seen
    page.run("document.activeElement.blur()")
    page.keys("?")
    assert "curl -s 'http://localhost" in page.wait(
        "document.querySelector('dialog[open]')?.innerText"
    )
    page.keys(Keys.ESCAPE)
    assert page.wait("!document.querySelector('dialog')")


def test_a_list_is_saved_as_csv_with_all_its_parts(page):
    """No entry is left out that is on another part, and nothing in it is a formula."""
    found = page.driver.execute_async_script(
        "const done = arguments[0];"
        "Promise.all([import('/page/export.js'), import('/page/api.js')]).then(async ([e, a]) => {"
        " const jobs = await a.all('/jobs', {}, 'jobs');"
        " done([e.csvOf(jobs), e.csvOf([{ a: '=1+1', b: -1, c: { d: 'x,y' } }])]); });"
    )
    lines = found[0].splitlines()
    assert lines[0].startswith("podGroup,workload,queue,reason")
    assert len(lines) == 1 + 135
    assert found[1] == 'a,b,c.d\r\n\'=1+1,-1,"x,y"\r\n'


def test_a_slider_tries_another_value(page):
    from selenium.webdriver.common.keys import Keys

    page.view("whatif")
    page.wait("!!document.querySelector('.slider input')")
    page.run("document.querySelector('.slider input').focus()")
    page.keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    page.wait("document.querySelector('.slider output').innerText === '18 instead of 16'")
    page.run("document.querySelector('.whatif .primary').click()")
    page.wait("!!document.querySelector('.view-whatif td')")
    assert "queue/video?gpu.quota=18" in page.text("table")
    page.run("document.activeElement.blur()")
    page.keys("?")
    said = page.wait("document.querySelector('dialog[open]')?.innerText")
    assert "kaisched whatif set queue/video gpu.quota=18" in said
    page.keys(Keys.ESCAPE)


def test_dark_and_light(page):
    ground = "return getComputedStyle(document.body).backgroundColor"
    light = page.run(ground)
    page.keys("d")
    page.wait("document.documentElement.dataset.theme === 'dark'")
    assert page.run(ground) != light
    page.keys("d")
    page.wait("document.documentElement.dataset.theme === 'light'")
    assert page.run(ground) == light


def test_a_page_that_needs_a_token_asks_for_one(browser, server, monkeypatch):
    """Who has none is told what to do; the token goes to the server and is kept by this tab."""
    from selenium.webdriver.common.keys import Keys

    pages = server.listeners[0].news.__self__
    access = pages._access

    def reviewed(request):
        if request.authorization == "Bearer good":
            return access(request)
        return view_pages.Page(401, "text/plain", b"a bearer token is needed\n")

    monkeypatch.setattr(pages, "_access", reviewed)
    browser.driver.get(f"http://localhost:{server.port}/")
    browser.run("sessionStorage.clear()")
    browser.driver.refresh()
    assert browser.wait("document.querySelector('.sign-in')")
    browser.run("document.querySelector('input[name=token]').focus()")
    browser.keys("good", Keys.ENTER)
    assert browser.wait("document.querySelector('.tiles')")
    assert "Sign out" in browser.text(".side")
    browser.said()  # Chromium tells of each refused request there
    browser.run("sessionStorage.clear()")


def test_the_commands_of_the_page_are_commands():
    """Every command that a view shows is one that the command line understands."""
    text = (Path(view_pages.__file__).parents[1] / "data/page/commands.js").read_text()
    commands = json.loads(re.search(r"= (\{.*\});", text, re.DOTALL)[1])
    assert set(VIEWS) - {"cycles"} <= set(commands)
    names = {
        "server": "http://localhost:8083",
        "queue": "q",
        "job": "a/b",
        "target": "queue/q",
        "change": "gpu.quota=8",
        "pods": "2",
        "gpus": "8",
    }
    for command in (it for templates in commands.values() for it in templates):
        words = [word.format(**names) for word in command.split()][1:]
        at = get_command(build_app(None))
        while hasattr(at, "commands"):
            assert words[0] in at.commands, command
            at, name, words = at.commands[words[0]], words[0], words[1:]
        at.make_context(name, words)
