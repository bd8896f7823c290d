"""Parts of a GPU as pods ask for them, and what does not go together."""

import pytest

from kaisched.errors import ObjectError
from kaisched.objects.decode import decode_object
from kaisched.objects.gpus import share_of
from kaisched.objects.pod import Pod

FRACTION, MEMORY, CARDS = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"


def pod(annotations, labels=None, limits=None, **spec):
    container = {"name": "main", "resources": {"limits": limits or {}}}
    metadata = {"name": "p", "annotations": annotations, "labels": labels or {}}
    return decode_object({"metadata": metadata, "spec": {"containers": [container], **spec}}, Pod)[
        0
    ]


@pytest.mark.parametrize(
    ("annotations", "share"),
    [
        ({}, None),
        ({"nvidia.com/gpu.memory": "4096"}, None),
        ({FRACTION: "0.5"}, (500_000, 0, 1)),
        ({FRACTION: "1e-1"}, (100_000, 0, 1)),
        ({FRACTION: ".25", CARDS: "2"}, (250_000, 0, 2)),
        ({FRACTION: "0.3333333333"}, (333_334, 0, 1)),
        ({FRACTION: "0.0000000001"}, (1, 0, 1)),
        ({MEMORY: "4096"}, (0, 4096, 1)),
        ({MEMORY: "1", CARDS: "8", "mps": "true"}, (0, 1, 8)),
    ],
)
def test_a_share_is_exact(annotations, share):
    assert share_of(pod(annotations)) == share


def test_a_label_counts_where_there_is_no_annotation():
    assert share_of(pod({}, {FRACTION: "0.5"})) == (500_000, 0, 1)
    assert share_of(pod({FRACTION: "0.25"}, {FRACTION: "0.5"})) == (250_000, 0, 1)


@pytest.mark.parametrize("text", ["1", "0", "0.0", "-0.5", "1.5", "NaN", "inf", "500m", "0x1p-1"])
def test_a_fraction_is_a_number_between_0_and_1(text):
    with pytest.raises(ObjectError, match="above 0 and below 1") as caught:
        share_of(pod({FRACTION: text}))
    assert caught.value.path == "metadata.annotations.gpu-fraction"
    assert "nvidia.com/gpu: 1" in caught.value.fix


@pytest.mark.parametrize("text", ["2000Mi", "4Gi", "0", "-1", "1.5", "", "10000000000"])
@pytest.mark.parametrize("key", [MEMORY, CARDS])
def test_memory_and_cards_are_whole_numbers(key, text):
    annotations = {MEMORY: text} if key == MEMORY else {FRACTION: "0.5", CARDS: text}
    with pytest.raises(ObjectError, match="whole and above 0") as caught:
        share_of(pod(annotations))
    assert (caught.value.path, caught.value.value) == (f"metadata.annotations.{key}", text)


@pytest.mark.parametrize(
    ("made", "word"),
    [
        (pod({CARDS: "2"}), "a number of cards goes with a share"),
        (pod({"mps": "true"}), "MPS goes with a share"),
        (pod({FRACTION: "0.5", MEMORY: "100"}), "two ways"),
        (pod({FRACTION: "0.5"}, limits={"nvidia.com/gpu": 1}), "nvidia.com/gpu in container main"),
        (pod({MEMORY: "100"}, limits={"amd.com/gpu": 1}), "amd.com/gpu"),
        (pod({FRACTION: "0.5"}, limits={"nvidia.com/mig-1g.5gb": 1}), "nvidia.com/mig-1g.5gb"),
        (pod({FRACTION: "0.5"}, resourceClaims=[{"name": "gpu"}]), "resourceClaims"),
        (pod({FRACTION: "0.5", "gpu-fraction-container-name": "x"}), "no such container"),
        (pod({}, {FRACTION: "2"}), "metadata.labels.gpu-fraction"),
    ],
)
def test_what_does_not_go_together_is_refused_with_a_cure(made, word):
    with pytest.raises(ObjectError) as caught:
        share_of(made)
    assert word in str(caught.value)
    assert caught.value.fix


def test_other_resources_and_a_known_container_go_with_a_share():
    annotations = {FRACTION: "0.5", "gpu-fraction-container-name": "main"}
    assert share_of(pod(annotations, limits={"cpu": 1, "example.com/nic": 1}))
