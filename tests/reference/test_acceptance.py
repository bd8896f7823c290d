"""The page of acceptance: tests that it names exist, and its walks lead to the answers."""

import ast
import re
import shlex
from itertools import takewhile
from pathlib import Path

import pytest

from kaisched.cli.app import run_line

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FIRST = DOCS / "README.md"
PAGE = (DOCS / "reference" / "acceptance.md").read_text(encoding="utf-8")
TESTED, _, WALKED = PAGE.partition("## Questions of newcomers")
ROWS = re.findall(r"^\| (U\d+) \|.*\| (.*) \|$", TESTED, re.MULTILINE)
WALKS = re.findall(r"^\| (U\d+) \| (.*) \| (.*) \| (.*) \|$", WALKED, re.MULTILINE)
EXAMPLE = ("-f", "docs/examples/two-teams.yaml")
TAB = "page: "


def test_no_row_is_missing():
    names = [name for name, *_ in (*ROWS, *WALKS)]
    assert names == [f"U{number}" for number in range(1, 56)]


@pytest.mark.parametrize(("name", "shown"), ROWS, ids=[name for name, _ in ROWS])
def test_the_tests_that_a_row_names_exist(name, shown):
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", shown)
    assert named, name
    for path, function in named:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert function in {it.name for it in tree.body if isinstance(it, ast.FunctionDef)}, path


def linked_from(page):
    """The files to which a page links."""
    links = re.findall(r"\]\(([^)\s#]+)[^)\s]*\)", page.read_text(encoding="utf-8"))
    return {(page.parent / link).resolve() for link in links if "://" not in link}


def section_of(page, fragment):
    """The text of a page, or of its section that a link names."""
    text = page.read_text(encoding="utf-8")
    if not fragment:
        return text
    parts = re.split(r"^(?=#+ )", text, flags=re.MULTILINE)
    titles = [re.sub(r"[^\w\- ]", "", it.partition("\n")[0].lower()).strip() for it in parts]
    at = [it.replace(" ", "-") for it in titles].index(fragment)
    deeper = re.match("#+", parts[at])[0] + "#"
    below = takewhile(lambda it: it.startswith(deeper), parts[at + 1 :])
    return "".join([parts[at], *below])


def of_tab(title):
    """What a tab of the scheduler's page says, by its source."""
    views = (ROOT / "kaisched" / "data" / "page" / "views").glob("*.js")
    (source,) = [
        text
        for text in (it.read_text(encoding="utf-8") for it in views)
        if f'title: "{title}",' in text and "about:" in text
    ]
    return source


def answer_of(words, capsys):
    """What a command prints about the example; `--help` needs none."""
    has_help = "--help" in words
    assert run_line([*words, *(() if has_help else EXAMPLE)]) == 0
    return capsys.readouterr().out


@pytest.mark.proportion
@pytest.mark.parametrize(("name", "question", "walk", "finds"), WALKS, ids=[it[0] for it in WALKS])
def test_a_walk_leads_to_its_answer(name, question, walk, finds, capsys, monkeypatch):
    assert question.endswith("?"), name
    monkeypatch.chdir(ROOT)
    for variable in ("COLUMNS", "KAISCHED_CONFIG", "KAISCHED_SERVER", "KUBECONFIG"):
        monkeypatch.delenv(variable, raising=False)
    steps = walk.replace("; ", " > ").split(" > ")
    assert len(steps) <= 3
    at, said = FIRST, FIRST.read_text(encoding="utf-8")
    for step in steps:
        if step.startswith(TAB):
            said = of_tab(step.removeprefix(TAB))
        elif step.startswith("`"):
            program, *words = shlex.split(step.strip("`"))
            assert program == "kaisched"
            said = answer_of(words, capsys)
        else:
            place, _, fragment = re.fullmatch(r"\[.+\]\((.+)\)", step)[1].partition("#")
            page = (DOCS / "reference" / place).resolve()
            assert page == at or page in linked_from(at) | linked_from(FIRST), step
            at, said = page, section_of(page, fragment)
    assert finds in said
