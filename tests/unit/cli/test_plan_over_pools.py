"""``kaisched plan`` with several shards: each decides, and jobs with lists are passed on."""

import json
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "node-pools.yaml"


def cycles(run, file, *options):
    code, out, err = run("plan", "-f", file, "-o", "json", *options)
    assert (code, err) == (0, "")
    return json.loads(out)["cycles"]


def moves(found):
    return [(it["shard"], pod["pod"]) for it in found for pod in it["binds"]]


def test_each_shard_has_a_cycle_and_one_more_if_a_job_is_passed_on_to_it(run):
    found = cycles(run, EXAMPLE)
    assert [(it["shard"], it["nodePool"]) for it in found] == [
        ("h100", "h100"),
        ("rest", "default"),
    ]
    assert [it["podGroup"] for it in found[0]["passedOn"]] == ["vision/pg-wide-uid-8"]
    assert moves(found) == [("h100", "vision/small"), ("rest", "vision/wide")]
    assert [it["podGroup"] for it in found[0]["pending"] if it["reason"] == "NoRoom"] == [
        "vision/pg-waits-uid-7"
    ]


def test_a_job_that_waits_goes_on_after_its_stay(run):
    found = cycles(run, EXAMPLE, "--rounds", 20)
    assert moves(found)[-1] == ("rest", "vision/waits")
    assert sum(len(it["passedOn"]) for it in found) == 2


def test_rounds_end_when_a_job_was_refused_in_all_its_pools(run, tmp_path):
    file = tmp_path / "pools.yaml"
    text = (
        EXAMPLE.read_text("utf-8").replace('gpu: "2"', 'gpu: "4"').replace('gpu: "6"', 'gpu: "8"')
    )
    file.write_text(text, encoding="utf-8")
    found = cycles(run, file, "--rounds", 1000)
    assert len(found) < 40
    assert [it["podGroup"] for it in found[-1]["passedOn"]] == []


def test_tables_name_the_shard_and_tell_each_waiting_job_once(run):
    code, out, _ = run("plan", "-f", EXAMPLE)
    assert code == 0
    assert "Shard h100: Binds\nPOD           NODE\nvision/small  gpu-01\n" in out
    assert "Shard h100: Passed on\nJOB              TO NODE POOL\n" in out
    pending = out.partition("Shard h100: Pending")[2]
    assert "vision/waits" in pending
    assert "vision/wide" not in pending
    assert "vision-default" in pending
    assert out.startswith("2 pods bound; 1 job pending\n")


def test_one_shard_may_be_chosen(run, tmp_path):
    shard = tmp_path / "rest.yaml.txt"
    shard.write_text(EXAMPLE.read_text("utf-8").split("---")[1], encoding="utf-8")
    found = cycles(run, EXAMPLE, "--shard", shard)
    assert [it["shard"] for it in found] == ["rest"]


def test_a_wrong_shard_among_several_stops_the_plan(run, tmp_path):
    file = tmp_path / "pools.yaml"
    file.write_text(EXAMPLE.read_text("utf-8").replace("admitsAll", "admitsall"), encoding="utf-8")
    code, out, err = run("plan", "-f", file)
    assert (code, out) == (2, "")
    assert "document 2 (SchedulingShard rest): spec.admitsallProjects" in err
