"""Exports of Run:ai become queues and shards; what does not is told of, key by key."""

import copy
import json

import pytest
import yaml

from kaisched.engine.migration.runai import from_runai
from kaisched.errors import KaischedError, join_path
from tests.unit.engine.migrating import documents, maps_in, told_of

EXPORT = {
    "departments": [
        {
            "id": "11",
            "name": "research",
            "resources": [
                {
                    "nodePool": {"id": "1", "name": "default"},
                    "gpu": {"deserved": 8, "limit": -1, "overQuotaWeight": 2},
                    "cpu": {"deserved": None, "limit": -1},
                    "rank": "High",
                }
            ],
        }
    ],
    "projects": [
        {
            "id": "21",
            "name": "vision",
            "parentId": "11",
            "createdAt": "2026-01-01T00:00:00Z",
            "schedulingRules": {
                "interactiveJobTimeLimitSeconds": 3600,
                "trainingJobTimeLimitSeconds": 0,
                "trainingJobMaxIdleDurationSeconds": 600,
            },
            "defaultNodePools": ["2", "default"],
            "resources": [
                {
                    "nodePool": {"id": "1", "name": "default"},
                    "gpu": {"deserved": 4, "limit": 6, "overQuotaWeight": 1},
                    "cpu": {"deserved": 64000},
                    "memory": {"deserved": 1000, "units": "Mib"},
                },
                {"nodePool": {"id": "2"}, "gpu": {"deserved": 2, "overQuotaWeight": "High"}},
            ],
        },
        {"id": "22", "name": "research", "departmentName": "research", "deservedGpus": 1.5},
    ],
    "nodepools": [
        {
            "id": "2",
            "name": "h100",
            "labelKey": "gpu",
            "labelValue": "h100",
            "placementStrategy": {"gpu": "spread", "cpu": "binpack"},
        }
    ],
}
CONFIG = {
    "apiVersion": "run.ai/v1",
    "kind": "RunaiConfig",
    "metadata": {"name": "runai"},
    "spec": {
        "runai-scheduler": {
            "fullHierarchyFairness": False,
            "args": {"defaultStalenessGracePeriod": 90, "verbosity": 4},
        },
        "global": {"core": {"swap": {"enabled": True}}},
    },
}


@pytest.fixture
def read(tmp_path):
    """Read some exports, each from a file of its own."""

    def read(*exports):
        files = []
        for number, export in enumerate(exports):
            files.append(tmp_path / f"{number}.json")
            files[-1].write_text(json.dumps(export))
        return from_runai(files)

    return read


def specs(made, kind):
    return {it["metadata"]["name"]: it["spec"] for it in documents(made, kind)}


def test_a_project_has_a_queue_in_each_pool_below_that_of_its_department(read):
    queues = specs(read(EXPORT), "queues")
    assert {name: spec.get("parentQueue", "") for name, spec in queues.items()} == {
        "research-department": "",
        "research-department-h100": "",
        "research": "research-department",
        "vision": "research-department",
        "vision-h100": "research-department-h100",
    }
    labels = {
        it["metadata"]["name"]: it["metadata"].get("labels")
        for it in documents(read(EXPORT), "queues")
    }
    assert labels["vision-h100"] == {
        "kai.scheduler/node-pool": "h100",
        "kaisched.io/project": "vision",
    }
    assert labels["vision"] == {"kaisched.io/project": "vision"}


def test_amounts_weights_ranks_and_lists_keep_their_meaning(read):
    queues = specs(read(EXPORT), "queues")
    assert queues["vision"]["resources"] == {
        "gpu": {"quota": 4, "limit": 6, "overQuotaWeight": 1},
        "cpu": {"quota": 64000},
        "memory": {"quota": 1048.576},
    }
    assert queues["vision-h100"]["resources"]["gpu"] == {"quota": 2, "overQuotaWeight": "High"}
    # What has no quota of CPU and memory is not held back by them.
    assert queues["vision-h100"]["resources"]["cpu"] == {"quota": -1}
    assert queues["research"]["resources"]["gpu"] == {"quota": 1.5}
    assert queues["research-department"]["priority"] == 102
    assert queues["vision"]["nodePools"] == ["h100", "default"]
    assert queues["vision"]["maxRunTime"] == [
        {"workloads": ["interactive"], "time": "3600s", "nonPreemptible": True}
    ]


def test_a_pool_is_a_shard_that_all_projects_may_use(read):
    shards = specs(read(EXPORT, CONFIG), "shards")
    args = {"default-staleness-grace-period": "90s"}
    assert shards == {
        "default": {
            "partitionLabelValue": "",
            "admitsAllProjects": True,
            "args": args,
            "fairness": "projects",
        },
        "h100": {
            "partitionLabelValue": "h100",
            "admitsAllProjects": True,
            "placementStrategy": {"gpu": "spread", "cpu": "binpack"},
            "args": args,
            "fairness": "projects",
        },
    }


@pytest.mark.parametrize(
    ("full", "disabled", "fairness"),
    [
        (True, False, "hierarchy"),
        (False, False, "projects"),
        (True, True, "projects"),
        (None, True, "projects"),
        (None, None, None),
    ],
)
def test_both_switches_of_departments_are_one_here(read, full, disabled, fairness):
    config = copy.deepcopy(CONFIG)
    config["spec"]["runai-scheduler"] |= {
        "fullHierarchyFairness": full,
        "disable_department_fairness": disabled,
    }
    (shard,) = documents(read(config), "shards")
    assert shard["spec"].get("fairness") == fairness


def test_a_pool_says_how_its_nodes_get_their_label(read):
    to_do = [note.text for note in read(EXPORT).told.to_do]
    assert "label the nodes: kubectl label nodes -l gpu=h100 kai.scheduler/node-pool=h100" in to_do


@pytest.mark.parametrize("export", [EXPORT, CONFIG], ids=["lists", "config"])
def test_no_key_is_skipped_in_silence(read, export):
    """A key that nobody knows is told of, in whichever map it is."""
    for path in maps_in(export):
        changed = copy.deepcopy(export)
        inner = changed
        for step in path:
            inner = inner[step]
        inner["zzz"] = 1
        assert join_path(*path, "zzz") in told_of(read(changed))


def test_objects_of_the_cluster_are_read_as_well(tmp_path):
    file = tmp_path / "objects.yaml"
    project = {"deservedGpus": 2, "departmentName": "d", "interactiveJobTimeLimitSecs": 60}
    file.write_text(
        yaml.dump_all(
            [
                {
                    "apiVersion": "run.ai/v1",
                    "kind": "Department",
                    "metadata": {"name": "d"},
                    "spec": {"deservedGpus": 4},
                },
                {
                    "apiVersion": "v1",
                    "kind": "List",
                    "items": [
                        {
                            "apiVersion": "run.ai/v1",
                            "kind": "Project",
                            "metadata": {"name": "p"},
                            "spec": project,
                        }
                    ],
                },
            ]
        )
    )
    queues = specs(from_runai([file]), "queues")
    assert queues["p"]["parentQueue"] == "d"
    assert queues["p"]["maxRunTime"][0]["time"] == "60s"
    assert queues["d"]["resources"]["gpu"]["quota"] == 4


@pytest.mark.parametrize(
    "types",
    [
        {"nodeTypes": {"training": ["a100"], "workspace": ["v100", "a100"]}},
        {"nodeAffinityTrain": ["a100"], "nodeAffinityInteractive": ["v100", "a100"]},
        {"trainNodeAffinity": ["a100"], "interactiveNodeAffinity": ["v100", "a100"]},
        {
            "nodeAffinity": {
                "train": {
                    "affinityType": "only_selected",
                    "selectedTypes": [{"id": "1", "name": "a100"}],
                },
                "interactive": {
                    "affinityType": "only_selected",
                    "selectedTypes": [{"name": "v100"}, {"name": "a100"}],
                },
            }
        },
    ],
    ids=["now", "objects", "lists", "rules"],
)
def test_node_types_become_the_node_affinity_of_the_queues(read, types):
    """In every pool, and in the words of every export."""
    export = copy.deepcopy(EXPORT)
    export["projects"][0] |= types
    made = read(export)
    queues = specs(made, "queues")

    def only(workload, *names):
        wanted = {"key": "run.ai/type", "operator": "In", "values": list(names)}
        return {"workloads": [workload], "terms": [{"matchExpressions": [wanted]}]}

    wanted = [only("training", "a100"), only("interactive", "a100", "v100")]
    assert queues["vision"]["nodeAffinity"] == wanted
    assert queues["vision-h100"]["nodeAffinity"] == wanted
    assert "nodeAffinity" not in queues["research"]
    assert made.files()


def test_node_types_without_a_limit_are_none(read):
    rule = {"affinityType": "no_limit", "selectedTypes": [{"name": "a100"}]}
    export = {"projects": [{"name": "p", "nodeAffinity": {"train": rule}, "nodeTypes": {}}]}
    assert "nodeAffinity" not in specs(read(export), "queues")["p"]


def test_a_node_type_that_is_no_label_is_named_with_its_place(read):
    made = read({"projects": [{"name": "p", "nodeTypes": {"training": ["a 100"]}}]})
    with pytest.raises(KaischedError, match=r"nodeTypes\.training: no value of a label"):
        made.files()


def test_all_that_is_wrong_is_named_with_its_place_and_its_fix(read):
    resources = [{"gpu": {"deserved": -4, "overQuotaWeight": "Huge"}, "rank": "top"}]
    made = read({"projects": [{"name": "A b", "resources": resources}, 5], "departments": {}})
    with pytest.raises(KaischedError) as wrong:
        made.files()
    said = sorted(str(it).split(": ", 2)[2] for it in (wrong.value, *wrong.value.others))
    assert said == [
        "departments: no list (value {}); export it again, as it was given out",
        "projects[0].name: no name (value 'A b'); write small letters, digits, hyphens and dots",
        (
            "projects[0].resources[0].gpu.deserved: out of range (value -4);"
            " write a number of at least -1"
        ),
        (
            "projects[0].resources[0].gpu.overQuotaWeight: no weight (value 'Huge');"
            " write a number of at least 0, or None, Low, Medium, High"
        ),
        "projects[0].resources[0].rank: no rank (value 'top'); write one from VeryLow to VeryHigh",
        "projects[1]: no map (value 5); export it again, as it was given out",
    ]


def test_two_queues_of_one_name_are_an_error(read):
    pool = {"nodePool": {"name": "b"}, "gpu": {"deserved": 1}}
    made = read({"projects": [{"name": "a", "resources": [pool]}, {"name": "a-b"}]})
    with pytest.raises(KaischedError, match="two queues would be called a-b"):
        made.files()


def test_secrets_are_not_shown(read):
    config = copy.deepcopy(CONFIG)
    config["spec"]["global"]["clusterSecret"] = "hush-hush"
    assert "hush-hush" not in str(read(config).told.left)
