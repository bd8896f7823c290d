"""``kaisched init``: files that pass ``kaisched lint``, and a list of what is not among them."""

import json

EXPORT = {
    "projects": [
        {"name": "a", "deservedGpus": 2, "createdAt": "x"},
        {"name": "b", "deservedGpus": 1, "createdAt": "y"},
    ],
    "next": 2,
}


def test_files_are_written_and_pass_the_linter(run, tmp_path):
    (tmp_path / "runai.json").write_text(json.dumps(EXPORT))
    into = tmp_path / "out"
    line = ("init", "--from-runai", tmp_path / "runai.json", "--into", into)
    code, out, _ = run(*line)
    assert code == 0
    assert sorted(it.name for it in into.iterdir()) == [
        "notes.txt",
        "queues.yaml",
        "settings.yaml",
        "shards.yaml",
    ]
    assert out.endswith((into / "notes.txt").read_text())
    assert "projects[].createdAt (2 times): it tells of the export, and is no rule" in out
    assert run("lint", into)[:2] == (0, "4 objects of 3 files checked: 0 errors, 0 warnings\n")
    code, _, err = run(*line)
    assert (code, "is there already; add --force, or --into FOLDER" in err) == (2, True)
    assert run(*line, "--force")[0] == 0


def test_nothing_is_written_if_anything_is_wrong(run, tmp_path):
    (tmp_path / "kai.yaml").write_text("kind: Config\nspec: {prometheus: {enabled: perhaps}}\n")
    code, _, err = run("init", "--from-kai", tmp_path / "kai.yaml", "--into", tmp_path / "out")
    assert code == 2
    assert "spec.prometheus.enabled: neither true nor false (value 'perhaps')" in err
    assert not (tmp_path / "out").exists()


def test_one_origin_is_needed(run):
    code, _, err = run("init")
    assert (code, err) == (
        2,
        "kaisched: one of --from-runai and --from-kai is needed; name files to read\n",
    )
