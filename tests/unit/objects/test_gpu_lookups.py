"""The ConfigMaps in which a container looks up its GPU: their names, and what they say."""

import pytest

from kaisched.errors import ObjectError
from kaisched.objects.decode import decode_object
from kaisched.objects.gpus import Told, config_map, lookup_of, lookups
from kaisched.objects.labels import GPU_CONFIG_MAP as MAP
from kaisched.objects.pod import Pod

CONTAINER = "gpu-fraction-container-name"


def pod(prefix="job-abc1234-shared-gpu", container="", inits=(), containers=("main",), **labels):
    notes = {"gpu-fraction": "0.5", MAP: prefix} if prefix is not None else {}
    notes |= {CONTAINER: container} if container else {}
    spec = {
        "containers": [{"name": it} for it in containers],
        "initContainers": [{"name": it} for it in inits],
    }
    meta = {"name": "p", "annotations": notes, "labels": labels}
    return decode_object({"metadata": meta, "spec": spec}, Pod)[0]


@pytest.mark.parametrize(
    ("how", "place"),
    [
        ({}, "0"),
        ({"containers": ("a", "b", "c"), "container": "c"}, "2"),
        ({"inits": ("x", "y"), "containers": ("a",)}, "0"),
        ({"inits": ("x", "y"), "container": "y"}, "i1"),
        ({"inits": ("x",), "containers": ("a", "b"), "container": "b"}, "1"),
        ({"inits": ("x",), "container": "gone"}, "0"),
    ],
)
def test_the_name_says_which_container_has_the_share(how, place):
    assert lookup_of(pod(**how)) == f"job-abc1234-shared-gpu-{place}"


def test_init_containers_are_looked_through_first():
    assert lookup_of(pod(container="a", inits=("x", "a"), containers=("a",))).endswith("-i1")


def test_a_pod_without_the_annotation_looks_up_nothing():
    assert lookup_of(pod(None)) == ""


@pytest.mark.parametrize(
    "prefix", ["", "A", "a_b", "a/b", "../x", "a..b", "-a", "a?b", "a%2fb", "a\n", "a" * 247]
)
def test_a_prefix_that_makes_no_name_is_refused(prefix):
    with pytest.raises(ObjectError, match="makes no name of a ConfigMap") as caught:
        lookup_of(pod(prefix))
    assert caught.value.path == f"metadata.annotations['{MAP}']"
    assert "make the pod anew" in caught.value.fix


def test_the_longest_prefix_leaves_room_for_both_names():
    assert len(lookup_of(pod("a" * 246))) + len("-evar") == 253


def test_both_config_maps_name_the_gpus():
    assert lookups("p-0", ["GPU-1", "GPU-2"], Told("0.5", 40000), has_cdi_names=False) == {
        "p-0": {
            "NVIDIA_VISIBLE_DEVICES": "GPU-1,GPU-2",
            "GPU_PORTION": "0.5",
            "RUNAI_NUM_OF_GPUS": "0.5",
            "CUDA_DEVICE_MEMORY_LIMIT": "40000m",
        },
        "p-0-evar": {"NVIDIA_VISIBLE_DEVICES": "GPU-1,GPU-2"},
    }


def test_names_of_cdi():
    base = "k8s.device-plugin.nvidia.com/gpu="
    made = lookups("p-0", ["GPU-1", "GPU-2"], Told("0.5", None), has_cdi_names=True)
    assert {it["NVIDIA_VISIBLE_DEVICES"] for it in made.values()} == {f"{base}GPU-1,{base}GPU-2"}


@pytest.mark.parametrize("limit", [None, 0])
def test_no_limit_is_told_that_is_not_known_or_would_be_none(limit):
    made = lookups("p-0", ["GPU-1"], Told("0.000001", limit), has_cdi_names=False)
    assert "CUDA_DEVICE_MEMORY_LIMIT" not in made["p-0"]


def test_a_config_map_belongs_to_its_pod():
    made = config_map("team/p-0", {"a": "1"}, {"note": "x"}, "team/p", "u-1")
    assert made == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "p-0",
            "namespace": "team",
            "annotations": {"note": "x"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u-1"}],
        },
        "data": {"a": "1"},
    }
