"""The files of the page over HTTP: what is served, and under which policy."""

import re

import pytest

from kaisched.daemon.http_wire import Request
from kaisched.daemon.view_pages import FOLDER, POLICY, PREFIX, static_pages


def get(path, tag=""):
    return static_pages()[PREFIX].make(Request({}, "", path=path, if_none_match=tag))


def test_the_page_is_at_the_root_with_its_policy():
    page = get("/")
    headers = dict(page.headers)
    assert (page.status, page.content_type) == (200, "text/html; charset=utf-8")
    assert b"/page/app.js" in page.body
    assert headers["Content-Security-Policy"] == POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert get("/", headers["ETag"]).status == 304


@pytest.mark.parametrize("path", ["/page/../view_static.py", "/page/", "/page/no.js"])
def test_nothing_else_is_served(path):
    assert get(path).status == 404


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.*")), ids=lambda it: it.name)
def test_files_of_the_page_are_small_and_ask_nobody_else(path):
    text = path.read_text()
    assert text.count("\n") <= 400
    elsewhere = set(re.findall(r"https?://[^\s\"'`<]+", text))
    assert elsewhere <= {"http://www.w3.org/2000/svg", "http://127.0.0.1:8082"}
    assert not re.search(r"\b(innerHTML|outerHTML|insertAdjacentHTML|eval|document\.write)\b", text)


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.js")), ids=lambda it: it.name)
def test_what_a_module_imports_is_there(path):
    for name in re.findall(r'from "(\.[^"]+)"', path.read_text()):
        assert (path.parent / name).is_file(), name
