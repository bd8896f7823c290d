"""The documentation as a site: every page has its place, and every link leads to a file of it."""

import importlib.util
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("site_build", ROOT / "docs" / "site" / "build.py")
build = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(build)


class Settings(yaml.SafeLoader):
    """Reads the settings of mkdocs, which name a function."""


Settings.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


@pytest.fixture(scope="module")
def staged(tmp_path_factory):
    into = tmp_path_factory.mktemp("site")
    build.stage(into)
    return into


def leaves(nav):
    if isinstance(nav, str):
        yield nav
    else:
        for it in nav.values() if isinstance(nav, dict) else nav:
            yield from leaves(it)


def test_every_page_is_in_the_navigation_once_and_the_first_one_first(staged):
    text = (staged / "mkdocs.yml").read_text(encoding="utf-8")
    found = list(leaves(yaml.load(text, Settings)["nav"]))
    pages = {it.relative_to(staged / "src").as_posix() for it in staged.rglob("src/**/*.md")}
    assert sorted(found) == sorted(pages)
    assert found[0] == "README.md"
    assert len(pages) > 90


def test_every_link_leads_to_a_file_of_the_site(staged):
    for page in staged.rglob("src/**/*.md"):
        text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        for link in re.findall(r"\]\(([^)\s#]+)", text):
            assert "://" in link or (page.parent / link).is_file(), (page, link)


def test_what_stands_below_an_item_is_indented_as_python_s_markdown_wants(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("1. One\n\n   ```yaml\n   a: 1\n   ```\n\n- two\n  lines\n\nAfter\n")
    monkeypatch.setattr(build, "DOCS", tmp_path)
    told = build.staged(page, {})
    assert told == "1. One\n\n    ```yaml\n    a: 1\n    ```\n\n- two\n    lines\n\nAfter\n"


def test_a_folder_without_a_page_is_no_link_and_a_dead_link_stays_one(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    page = tmp_path / "page.md"
    page.write_text("[a](folder), [b](nothing.md)\n")
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(build, "DOCS", tmp_path)
    assert build.staged(page, {}) == "a, [b](nothing.md)\n"


def test_the_first_page_answers_in_order():
    text = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    titles = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert titles[:6] == [
        "What is it",
        "Try it",
        "Install",
        "Give a team a quota",
        "Why does my job wait",
        "Migrate",
    ]
