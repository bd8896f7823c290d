"""Every shipped plugin is described where people look, and its examples are true.

``python tests/reference/test_plugins_readme.py`` prints docs/reference/plugins.md.
"""

import re
import sys
from pathlib import Path

import pytest
import yaml

from kaisched.framework.plugins.loader import describe_plugins, installed_plugins
from kaisched.testing import draw

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "plugins" / "kaisched_plugins"
PAGE = ROOT / "docs" / "reference" / "plugins.md"
SECTIONS = ("What", "Why", "Arguments", "Example", "Limits")
FENCE = re.compile(r"^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def page_of(name):
    """Return the path of a plugin's page: beside its module, or in its folder."""
    module = FOLDER / name.replace("-", "_")
    return module / "README.md" if module.is_dir() else module.with_suffix(".md")


PLUGINS = {each.name: each for each in describe_plugins() if page_of(each.name).is_file()}


def readme_of(name):
    return page_of(name).read_text(encoding="utf-8")


def sections_of(text):
    return re.findall(r"^## (.+)$", text, re.MULTILINE)


def section(text, title):
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def examples():
    """Yield (plugin, number, shard spec, before, after) of every drawing."""
    for name in PLUGINS:
        spec = {}
        for number, fence in enumerate(FENCE.finditer(readme_of(name))):
            if fence["kind"] == "yaml":
                spec = yaml.safe_load(fence["text"])
            elif fence["kind"] == "drawing":
                before, _, after = fence["text"].partition("---\n")
                yield pytest.param(spec, before, after, id=f"{name}-{number}")


@pytest.mark.parametrize("name", PLUGINS)
def test_a_readme_has_the_sections_people_look_for(name):
    text = readme_of(name)
    assert text.startswith(f"# {name}\n")
    assert [title for title in sections_of(text) if title in SECTIONS] == list(SECTIONS)


@pytest.mark.parametrize("name", PLUGINS)
def test_a_readme_names_every_question_the_plugin_answers(name):
    what = section(readme_of(name), "What")
    assert [each for each in PLUGINS[name].questions if f"`{each}`" not in what] == []


@pytest.mark.parametrize("name", PLUGINS)
def test_a_readme_lists_exactly_the_arguments_there_are(name):
    text = section(readme_of(name), "Arguments")
    listed = re.findall(r"^\| `(\w+)` \| `([^`]+)` \| .+ \|$", text, re.MULTILINE)
    assert listed == [(each.name, str(each.default)) for each in PLUGINS[name].arguments]
    assert listed or text.strip() == "None."


@pytest.mark.parametrize(("spec", "before", "after"), list(examples()))
def test_a_drawing_shows_what_happens(spec, before, after):
    assert draw(before).after("allocate", shard=spec) == draw(after)


@pytest.mark.proportion
def test_the_index_names_every_plugin_once():
    index = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `([\w-]+)` \|", index, re.MULTILINE)) == sorted(PLUGINS)


def page():
    """Write docs/reference/plugins.md from the code."""
    lines = [
        "# Plugins",
        "",
        "What ships with kaisched; the pages under `plugins/kaisched_plugins` say why.",
        "A plugin of yours appears in `kaisched plugins list` beside them:",
        "[write one](../tutorial/first-plugin.md).",
        "",
        "This page is printed by `python tests/reference/test_plugins_readme.py`.",
    ]
    for name, plugin in PLUGINS.items():
        made = installed_plugins().by_name[name].plugin
        lines += ["", f"## {name}", "", plugin.summary, ""]
        lines.append("Answers " + ", ".join(f"`{each}`" for each in plugin.questions) + ".")
        if "node_score" in plugin.questions:
            lines.append(
                f"Its scores count {made.default_weight:g} times unless the shard says otherwise."
            )
        if plugin.arguments:
            lines += ["", "| argument | type | default | meaning |", "|---|---|---|---|"]
            lines += [
                f"| `{each.name}` | {each.type} | `{each.default}` | {each.description} |"
                for each in plugin.arguments
            ]
    return "\n".join(lines) + "\n"


@pytest.mark.proportion
def test_the_reference_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == page()


PIECE = re.compile(r"^`([\w/.-]+)`\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BUILT = {
    "first-plugin": ("example", "kaisched_plugin_example"),
    "your-own-policy": ("example-policy", "kaisched_example_policy"),
}
"""Lesson to the package that it builds: its folder and its module."""


def pieces_of(lesson):
    text = (ROOT / "docs" / "tutorial" / f"{lesson}.md").read_text(encoding="utf-8")
    return PIECE.findall(text)


@pytest.mark.parametrize(
    ("lesson", "path", "piece"), [(it, *piece) for it in BUILT for piece in pieces_of(it)]
)
def test_a_lesson_shows_what_is_in_the_package(lesson, path, piece):
    folder = ROOT / "plugins" / BUILT[lesson][0]
    assert piece in (folder / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("lesson", BUILT)
def test_who_follows_a_lesson_has_the_whole_plugin(lesson):
    folder, module = BUILT[lesson]
    path = f"src/{module}/__init__.py"
    whole = (ROOT / "plugins" / folder / path).read_text(encoding="utf-8")
    for at, piece in pieces_of(lesson):
        if at == path:
            assert whole.lstrip("\n").startswith(piece)
            whole = whole.lstrip("\n")[len(piece) :]
    assert not whole.strip()


if __name__ == "__main__":
    sys.stdout.write(page())
