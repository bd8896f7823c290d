"""``kaisched examples``: what comes with kaisched is listed, and written where nothing is."""

import json
import tomllib
from pathlib import Path

from kaisched.cli.examples import _OF_CHECKOUT

ROOT = Path(__file__).parents[3]


def test_every_example_is_listed_with_what_it_is_about(run):
    code, out, _ = run("examples", "-o", "json")
    found = {it["file"]: it["about"] for it in json.loads(out)["examples"]}
    assert code == 0
    files = {
        f"{kind}/{path.relative_to(ROOT / folder)}"
        for kind, folder in _OF_CHECKOUT.items()
        for path in (ROOT / folder).rglob("*.yaml")
    }
    assert found.keys() == files
    assert found["manifests/two-teams.yaml"] == "Two nodes, two teams, and more work than fits"
    assert [name for name, about in found.items() if not about] == []


def test_they_are_written_where_nothing_is(run, tmp_path):
    folder = tmp_path / "examples"
    code, out, _ = run("examples", "--into", folder)
    assert (code, out) == (0, f"{len(list(folder.rglob('*.yaml')))} files written below {folder}\n")
    assert run("plan", "-f", folder / "manifests" / "two-teams.yaml")[0] == 0
    mine = folder / "shards" / "default.yaml"
    mine.write_text("# mine\n", encoding="utf-8")
    code, _, err = run("examples", "--into", folder)
    assert code == 2
    assert "is there already; name a folder without it" in err
    assert mine.read_text(encoding="utf-8") == "# mine\n"


def test_a_wheel_brings_them():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included == {
        folder: f"kaisched/data/examples/{kind}" for kind, folder in _OF_CHECKOUT.items()
    }
