"""The page in Chromium: every view at three widths, by keyboard, with a token and without."""

import json
import re
from contextlib import closing
from pathlib import Path

import pytest
from typer.main import get_command

from kaisched.cli.app import build_app
from kaisched.config.settings import ViewListener
from kaisched.daemon import view_pages
from kaisched.daemon.http_server import Server
from kaisched.daemon.view_pages import view_listener
from kaisched.testing.builder import HOSTNAME, ClusterBuilder
from kaisched.view.publisher import Publisher
from tests.browser.chromium import WIDTHS, chromium, missing
from tests.browser.lab import published

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
WHEN = {
    "earliestSeconds": 3600.0,
    "medianSeconds": 5400.0,
    "latestSeconds": 10800.0,
    "courses": 10,
    "started": 10,
    "lookedAheadSeconds": 86400.0,
    "cycles": 99,
    "cut": False,
    "assumptions": ["no node changes"],
}
VIEWS = ("overview", "queues", "nodes", "jobs", "evictions", "fairness", "cycles", "whatif")


class Trials:
    """What-if without a worker: of one queue, with one answer."""

    def forecast(self, shard, job):
        return json.dumps({"when": WHEN}).encode()

    def starts(self, shard):
        found = {key: it for key, it in WHEN.items() if key != "assumptions"}
        jobs = [{"podGroup": "default/llm-405b", "when": found}]
        return json.dumps({"jobs": jobs, "assumptions": WHEN["assumptions"]}).encode()

    def submission(self, shard, queue, gpus, pods):
        return self.difference(shard, f"submit {pods} of {gpus} to {queue}", [""])

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
    assert "4 pods of default/ablation for default/clips, 32 GPU-hours lost" in page.text()
    page.run("document.querySelector('.decisions button').click()")
    page.wait("document.querySelectorAll('.decisions tbody tr').length === 4")


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


def test_a_number_tries_another_value(page):
    from selenium.webdriver.common.keys import Keys

    page.view("whatif")
    page.wait("!!document.querySelector('.amounts input')")
    page.run("document.querySelector('.amounts input').select()")
    page.keys("18")
    page.wait("document.querySelector('.amounts .field').innerText.includes('now 16')")
    page.run("document.querySelector('.whatif .primary').click()")
    page.wait("!!document.querySelector('.view-whatif td')")
    assert "queue/video?gpu.quota=18" in page.text("table")
    assert "1 job starts, no pod is evicted" in page.text()
    page.run("document.activeElement.blur()")
    page.keys("?")
    said = page.wait("document.querySelector('dialog[open]')?.innerText")
    assert "kaisched whatif set queue/video gpu.quota=18" in said
    page.keys(Keys.ESCAPE)


def test_a_job_leads_to_its_like_in_a_what_if_and_says_who_is_ahead_and_when(page):
    """llm-405b is 16 pods of 8 GPUs; the worker's forecast is asked for, and is a band."""
    page.view("jobs/default/llm-405b")
    page.run(
        "[...document.querySelectorAll('button')]"
        ".find((it) => it.innerText === 'Foresee it').click()"
    )
    page.wait("document.querySelector('main').innerText.includes('In 60 min to 3.0 h')")
    assert "assumed: no node changes" in page.text()
    page.view("jobs/default/rlhf")
    assert "Who is ahead" in page.text()
    turns = page.text(".levels")
    assert ", because queue " in turns
    assert "(0 no" not in turns
    page.view("jobs/default/llm-405b")
    page.run(
        "[...document.querySelectorAll('main a')]"
        ".find((it) => it.hash.startsWith('#/whatif')).click()"
    )
    page.wait("document.querySelectorAll('.amounts input').length === 2")
    found = page.run(
        "return [...document.querySelectorAll('.amounts input')].map((it) => it.value)"
    )
    assert found == ["16", "8"]
    page.run("document.querySelector('.whatif .primary').click()")
    page.wait("!!document.querySelector('.view-whatif td')")
    assert "submit 16 of 8 to pretraining" in page.text("table")


def test_the_list_of_jobs_says_when_they_may_start(page):
    page.view("jobs")
    page.run(
        "[...document.querySelectorAll('button')]"
        ".find((it) => it.innerText === 'Foresee when they start').click()"
    )
    page.wait("[...document.querySelectorAll('th')].some((it) => it.innerText === 'Starts')")
    assert "60 min to 3.0 h" in page.text("table")
    assert "assumed: no node changes" in page.text()


def test_the_tab_of_a_view_is_in_sight_on_a_phone(page):
    page.size(390)
    page.view("cycles")
    page.wait(
        "(() => { const box = document.querySelector('[aria-current]').getBoundingClientRect();"
        " return box.left >= 0 && box.right <= innerWidth; })()"
    )
    page.size(1440)


def test_a_point_of_a_chart_tells_its_sample(page):
    page.view("fairness")
    page.run("document.querySelector('.course svg').focus()")
    from selenium.webdriver.common.keys import Keys

    page.keys(Keys.ARROW_LEFT)
    page.wait("!!document.querySelector('.course .point')")
    tops = page.run(
        "return new Set([...document.querySelectorAll('.course .axis')].slice(1)"
        ".map((it) => it.innerText)).size"
    )
    assert tops == 1, "the queues of a level have one scale"
    page.view("fairness?shown=stacked")
    assert page.run("return document.querySelectorAll('.course').length") == 1


def test_many_nodes_are_told_in_totals_that_lead_to_names(browser):
    """201 nodes in 3 racks, of which one has a pod."""
    made = ClusterBuilder().topology("t", rack="rack", host=HOSTNAME).queue("q", deserved=8)
    for at in range(201):
        made.node(
            f"a-node-with-a-long-name-{at:03d}.example.internal",
            gpu=8,
            labels={"rack": f"r{at % 3}"},
        )
    made.job("one", queue="q", gpu=1, running={"a-node-with-a-long-name-000.example.internal": 1})
    publisher = Publisher("default")
    publisher.take(made.run().result, cycle=1, time_s=1e9, duration_s=0.1)
    with closing(
        Server([view_listener(ViewListener(port=0), lambda: [publisher], None)])
    ) as server:
        browser.size(390)
        browser.driver.get(f"http://localhost:{server.port}/#/nodes")
        browser.wait("document.querySelector('main')?.innerText.includes('Whole free nodes')")
        assert "536" in browser.text(".tiles"), "the largest gang: all GPUs of r1 or r2"
        assert not browser.run("return document.documentElement.scrollWidth > innerWidth")
        assert "What if" not in browser.text(".side"), "it is not offered here"
        browser.view("nodes?nodeState=partly")
        browser.wait("document.querySelectorAll('.node').length === 1")
    browser.size(1440)


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
