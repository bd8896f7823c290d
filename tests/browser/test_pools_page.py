"""The page where a process serves several node pools: what a project has in all of them."""

import pytest

from kaisched.config.settings import ViewListener
from kaisched.daemon import view_pages
from kaisched.daemon.http_server import Server
from kaisched.daemon.view_pages import view_listener
from tests.browser.chromium import WIDTHS, chromium, missing
from tests.unit.view.test_projects import vision

pytestmark = [pytest.mark.skipif(bool(missing()), reason=missing()), pytest.mark.proportion]
TABLE = "[aria-label='vision over node pools, gpu'] table"


@pytest.fixture(scope="module")
def page():
    patch = pytest.MonkeyPatch()
    patch.setattr(view_pages, "REST", 0.0)  # here is no loop to leave time to
    publishers = vision().publishers
    server = Server([view_listener(ViewListener(port=0), lambda: publishers, None)])
    with chromium() as browser:
        browser.size(1440)
        browser.driver.get(f"http://localhost:{server.port}/")
        browser.shown()
        yield browser
    server.close()
    patch.undo()


def cells(page):
    rows = page.run(
        "return [...document.querySelectorAll(arguments[0] + ' tr')].map("
        "(row) => [...row.children].map((it) => it.innerText))",
        TABLE,
    )
    return [tuple(row) for row in rows]


def test_a_queue_shows_what_its_project_has_in_all_pools(page):
    page.view("queues/vision")
    assert [tuple(it.lower() for it in row) for row in cells(page)[:1]] == [
        ("node pool", "queue", "allocated", "fair share", "requested", "deserved")
    ]
    assert cells(page)[1:] == [
        ("default", "vision", "0", "0", "0", "2"),
        ("h100", "vision-h100", "8", "8", "9", "4"),
        ("a100", "seeing", "3", "3", "3", "6"),
        ("all", "", "11", "11", "12", "12"),
    ]
    assert page.said() == []


def test_it_fits_every_width(page):
    for width in WIDTHS:
        page.size(width)
        page.view("queues/vision")
        assert not page.run("return document.documentElement.scrollWidth > innerWidth"), width
    page.size(1440)


def test_the_list_of_queues_has_no_sums(page):
    page.view("queues")
    assert page.run("return document.querySelectorAll(arguments[0]).length", TABLE) == 0
