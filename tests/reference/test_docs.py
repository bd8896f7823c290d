"""The pages keep their promises: links, indexes, commands, snippets, and lists that are whole."""

import ast
import re
import shlex
from functools import cache
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from kaisched.cli.app import COMMANDS, run_line
from kaisched.config.loading import load_settings
from kaisched.engine.policy import build_policy
from kaisched.engine.shards import read_shard
from kaisched.framework.plugins.loader import describe_plugins
from kaisched.objects.load import load_manifests
from kaisched.objects.shard import ACTIONS
from kaisched.sim.ticks import run_ticks, ticks_at
from kaisched.sim.traces import find_trace, read_trace

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PLUGINS = ROOT / "plugins" / "kaisched_plugins"
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
        *DOCS.rglob("*.md"),
        *(ROOT / "config").rglob("*.md"),
        *(ROOT / "deploy").rglob("*.md"),
        *(ROOT / "plugins").glob("*.md"),
        *PLUGINS.glob("*.md"),
        *PLUGINS.glob("*/README.md"),
        *(ROOT / "plugins").glob("example*/README.md"),
    )
)
SHIPPED = [
    each for each in describe_plugins() if any(PLUGINS.glob(f"{each.name.replace('-', '_')}*"))
]
FENCE = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
TESTED_ELSEWHERE = {"demo", "run", "simulate"}
LATER_COMMANDS = {"docs/reference/kai-names.md": {"explain", "replay"}}
"""Commands of later versions that a page may name."""


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def prose_of(path):
    """The page without its fenced blocks."""
    return FENCE.sub("", read(path))


def fences(*kinds):
    """Yield (page and number, text) of every fenced block of these kinds."""
    return [
        pytest.param(fence["text"], id=f"{path}-{number}")
        for path in PAGES
        for number, fence in enumerate(FENCE.finditer(read(path)))
        if fence["kind"] in kinds
    ]


# -- links and indexes ---------------------------------------------------------------------------


def links_of(path):
    return re.findall(r"\]\(([^)\s]+)\)", prose_of(path).replace("\n", " "))


def anchors_of(path):
    """The fragments that GitHub gives to the headings of a page."""
    titles = re.findall(r"^#+ (.+)$", prose_of(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links_into_proportion(path):
    """Mark the page that links to tests of every plugin."""
    is_of_tests = path == "docs/reference/faults.md"
    return pytest.param(path, marks=pytest.mark.proportion if is_of_tests else ())


@pytest.mark.parametrize("path", [links_into_proportion(path) for path in PAGES])
def test_every_link_leads_somewhere(path):
    for link in links_of(path):
        place, _, fragment = link.partition("#")
        if "://" in place:
            continue
        target = (ROOT / path).parent / place if place else ROOT / path
        assert target.exists(), link
        if fragment:
            assert fragment in anchors_of(target.resolve().relative_to(ROOT).as_posix()), link


@pytest.mark.parametrize(
    "folder", sorted({path.parent for path in DOCS.rglob("*.md")}), ids=lambda path: path.name
)
def test_every_page_is_in_the_index_of_its_folder(folder):
    linked = set(links_of((folder / "README.md").relative_to(ROOT).as_posix()))
    pages = {path.name for path in folder.glob("*.md")} - {"README.md"}
    indexes = {f"{path.parent.name}/README.md" for path in folder.glob("*/README.md")}
    examples = {f"{path.parent.name}/{path.name}" for path in folder.glob("examples/*")}
    assert (pages | indexes | examples) - linked == set()


def test_every_picture_is_small_and_on_a_page():
    shown = {
        (ROOT / path).parent.joinpath(link).resolve() for path in PAGES for link in links_of(path)
    }
    pictures = sorted((DOCS / "pictures").iterdir())
    assert pictures
    for picture in pictures:
        most = {".svg": 150_000, ".png": 300_000}[picture.suffix]
        assert picture.stat().st_size < most, picture.name
        assert picture in shown, picture.name


@pytest.mark.parametrize("path", [path for path in PAGES if not path.startswith("docs/tutorial/")])
def test_files_that_a_page_names_exist(path):
    named = re.findall(r"`((?:tests|kaisched|plugins|config|deploy)/[\w/.-]+)`", prose_of(path))
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_pages_that_code_names_exist():
    named = {
        page
        for place in ("kaisched", "plugins", "tests", "config")
        for path in (ROOT / place).rglob("*")
        if path.suffix in {".py", ".yaml", ".md"}
        for page in re.findall(r"\bdocs/[\w/-]+\.md\b", path.read_text(encoding="utf-8"))
    }
    assert {page for page in named if not (ROOT / page).is_file()} == set()


# -- commands ------------------------------------------------------------------------------------


def shown_commands():
    """Yield (line, what is shown under it) of every ``$`` line of the README."""
    for fence in FENCE.finditer(read("README.md")):
        if fence["kind"] == "console":
            for part in re.split(r"^\$ ", fence["text"], flags=re.MULTILINE)[1:]:
                line, _, shown = part.partition("\n")
                yield pytest.param(line, shown, id=line)


@pytest.mark.parametrize(("line", "shown"), list(shown_commands()))
def test_what_the_readme_shows_works(line, shown, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    for name in ("COLUMNS", "KAISCHED_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    program, *words = shlex.split(line)
    assert program == "kaisched"
    assert words[0] in COMMANDS
    if words[0] in TESTED_ELSEWHERE:
        return
    code = run_line(words)
    out = capsys.readouterr().out
    assert code == 0
    assert not shown or [it.rstrip() for it in out.rstrip().splitlines()] == shown.splitlines()


@cache
def options():
    """Command line ("kaisched plan") to its options, from the generated page."""
    page = read("docs/reference/cli.md")
    state = re.search(r"\*State\* is ([^.]+)\.", page)
    assert state is not None
    page = page.replace("*state*", state[1])
    _, shared, *parts = re.split(r"^## ", page, flags=re.MULTILINE)
    rows = [
        set(re.findall(r"`(--?[\w-]+)`", line)) for line in shared.splitlines() if line[:1] == "-"
    ]
    found = {
        part.partition("\n")[0]: set(re.findall(r"`(--?[\w-]+)`", part)) | {"-h", "--help"}
        for part in parts
    }
    found["kaisched config show"] |= found["kaisched run"]
    return {
        path: names.union(*(row for row in rows if row & names)) for path, names in found.items()
    }


def command_lines(path):
    """Yield the words of every kaisched command in the fences of a page, pipes followed."""
    for fence in FENCE.finditer(read(path)):
        if fence["kind"] in {"", "sh", "console"}:
            for line in fence["text"].replace("\\\n", " ").splitlines():
                for part in re.split(r"[|;]|&&", line.partition(" # ")[0]):
                    found = re.match(r"\s*(?:\$ )?(?:\w+=\S+ )*kaisched\s+(.*)", part)
                    if found:
                        yield re.split(r"\s[<>]\s", found[1])[0].split()


@pytest.mark.parametrize("path", PAGES)
def test_pages_mention_commands_and_options_that_exist(path):
    for words in command_lines(path):
        command = next(
            (
                name
                for size in (2, 1)
                if (name := " ".join(("kaisched", *words[:size]))) in options()
            ),
            None,
        )
        assert command is not None, words
        given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert given - options()[command] == set()


@pytest.mark.parametrize("path", PAGES)
def test_commands_in_the_text_exist(path):
    named = set(re.findall(r"`kaisched ([a-z]+)\b", prose_of(path)))
    assert named - COMMANDS.keys() - LATER_COMMANDS.get(path, set()) == set()


def test_the_screen_may_be_wider_or_narrower(capsys, monkeypatch):
    """Command line: COLUMNS is honoured."""
    lines = {}
    for columns in (40, 200):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert run_line(["plugins", "list"]) == 0
        lines[columns] = len(capsys.readouterr().out.splitlines())
    assert lines[40] > lines[200]


# -- snippets and files --------------------------------------------------------------------------


@pytest.mark.parametrize("text", fences("python"))
def test_python_on_a_page_compiles(text):
    ast.parse(dedent(text))  # a lesson may show methods of a class in pieces


@pytest.mark.parametrize("text", fences("yaml"))
def test_yaml_on_a_page_is_yaml(text):
    assert list(yaml.safe_load_all(text))


def test_the_drawing_in_the_reference_shows_what_happens():
    """docs/reference/drawings.md: a drawing as a test."""
    names = {}
    for fence in FENCE.finditer(read("docs/reference/drawings.md")):
        if fence["kind"] == "python":
            exec(compile(fence["text"], "drawings.md", "exec"), names)
    names["test_a_gang_that_fits_is_placed_whole"]()
    names["test_a_pod_gets_a_mig_instance"]()


def test_examples_load_without_a_problem():
    found = load_manifests([DOCS / "examples"])
    assert found.objects
    assert found.problems == []


@pytest.mark.parametrize(
    "file", sorted((ROOT / "config" / "shards").glob("*")), ids=lambda file: file.name
)
def test_a_shipped_shard_makes_a_policy(file):
    policy, warnings = build_policy(read_shard(file).shard, str(file))
    assert {action.name for action in policy.actions} == set(ACTIONS)
    assert warnings == []


@pytest.mark.parametrize(
    "file", sorted((ROOT / "config").glob("*.yaml")), ids=lambda file: file.name
)
def test_a_shipped_settings_file_loads(file):
    assert load_settings(file).settings


# -- lists that are whole ------------------------------------------------------------------------


def table(path, title):
    """The cells of the rows of the table that begins with a column of this title."""
    _, _, rest = read(path).partition(f"\n| {title} |")
    rows = rest.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def quoted(cell):
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize("plugin", SHIPPED, ids=lambda plugin: plugin.name)
def test_a_plugin_has_the_files_that_the_index_says(plugin):
    module = plugin.name.replace("-", "_")
    folder = PLUGINS / module
    if folder.is_dir():
        assert (folder / "plugin.py").is_file()
        assert (folder / "README.md").is_file()
        assert list((folder / "tests").glob("test_*.py"))
    else:
        assert (PLUGINS / f"{module}.py").is_file()
        assert (PLUGINS / f"{module}.md").is_file()
        assert (PLUGINS / "tests" / f"test_{module}.py").is_file()


def test_the_architecture_names_every_package():
    there = {
        f"kaisched.{path.name.removesuffix('.py')}"
        for path in (ROOT / "kaisched").iterdir()
        if not path.name.startswith("_") and (path.is_dir() or path.suffix == ".py")
    }
    rows = table("docs/explanation/architecture.md", "package")
    assert {name for row in rows for name in quoted(row[0])} == there | {"kaisched"}


def test_the_layers_that_are_explained_are_those_that_are_checked():
    checked = re.search(r"^layers =\n((?:    .+\n)+)", read(".importlinter"), re.MULTILINE)
    assert checked is not None
    layers = re.sub(r"[()]|^ +", "", checked[1], flags=re.MULTILINE)
    assert f"```\n{layers}```" in read("docs/explanation/README.md")


def test_the_words_of_the_glossary_are_in_order():
    words = [row[0] for row in table("docs/explanation/glossary.md", "word")]
    assert words == sorted(words)


def test_the_trace_has_as_many_instants_as_the_simulator_says():
    trace = read_trace(find_trace("philly-2017"))
    begins = ticks_at(trace.submit_s)
    ends = begins + run_ticks(trace.duration_s)
    instants = {*begins.tolist(), *ends.tolist()}
    assert f"{len(instants):,} points" in read("docs/explanation/simulator.md")


@pytest.mark.proportion
def test_the_walks_through_the_code_are_of_files_that_exist():
    walks = read("docs/explanation/architecture.md").partition("## Three walks")[2]
    steps = re.findall(r"^(\d+)\. (.*(?:\n   .*)*)$", walks.partition("\n## ")[0], re.MULTILINE)
    starts = [at for at, (number, _) in enumerate(steps) if number == "1"]
    sizes = [end - at for at, end in zip(starts, [*starts[1:], len(steps)], strict=True)]
    assert len(sizes) == 3
    assert [int(it) for it, _ in steps] == [at + 1 for size in sizes for at in range(size)]
    files = [[name for name in quoted(text) if name.endswith(".py")] for _, text in steps]
    folders = {(ROOT / first).parent for first, *_ in files}
    for first, *beside in files:
        assert (ROOT / first).is_file(), first
        for name in beside:
            assert any((folder / name).is_file() for folder in folders), name
    for (_, text), names in zip(steps, files, strict=True):
        code = "".join(
            (folder / name).read_text(encoding="utf-8")
            for name in names
            for folder in (ROOT, *folders)
            if (folder / name).is_file()
        )
        said = {
            word for each in set(quoted(text)) - set(names) for word in re.findall(r"\w+", each)
        }
        assert {word for word in said if not re.search(rf"\b{word}\b", code)} == set()


@pytest.mark.parametrize("text", fences("diff"))
def test_a_change_on_a_page_can_be_made(text):
    first, _, lines = text.partition("\n")
    before = "".join(f"{line[1:]}\n" for line in lines.splitlines() if line[0] != "+")
    assert before in read(first.removeprefix("--- "))
