"""Shares of GPUs as claims: names of templates, what they ask for, and what pods must name."""

import msgspec
import pytest

from kaisched.objects.gpus import (
    Share,
    claim_fault,
    claim_spec,
    is_ours,
    share_claim_of,
    template_for,
)
from kaisched.objects.requests import unsupported
from kaisched.objects.shard import GPU_RESOURCES
from tests.unit.objects.test_gpu_shares import CARDS, FRACTION, MEMORY, pod

GIB = 1 << 30


def named(template, **more):
    return {"resourceClaims": [{"name": "gpu-share", "resourceClaimTemplateName": template}, *more]}


@pytest.mark.parametrize(
    ("annotations", "template", "asked"),
    [
        ({MEMORY: "20000"}, "kaisched-gpu-memory-20000", 'gpu-memory: "20000"'),
        ({FRACTION: "0.5"}, "kaisched-gpu-fraction-0.5", 'gpu-fraction: "0.5"'),
        ({FRACTION: "0.25", CARDS: "2"}, "kaisched-gpu-fraction-0.25-x2", 'gpu-fraction: "0.25"'),
        ({MEMORY: "1", CARDS: "1"}, "kaisched-gpu-memory-1-x1", 'gpu-memory: "1"'),
    ],
)
def test_the_name_of_the_template_follows_from_what_is_asked(annotations, template, asked):
    made = pod(annotations, **named(template))
    found = share_claim_of(made, GPU_RESOURCES)
    assert (found.template, found.asked) == (template, asked)
    assert claim_fault(made, found) == ""
    assert is_ours(template)
    assert not unsupported(made, has_share_claims=True)
    assert "does not go with resourceClaims" in unsupported(made, offers_shares=True)


@pytest.mark.parametrize(
    "name",
    [
        "gpu-shares",
        "memory-5",
        "kaisched-gpu-",
        "kaisched-gpu-mig-5",
        "kaisched-gpu-memory-",
        "kaisched-gpu-memory-mine",
        "kaisched-gpu-fraction-0.5-x",
        "kaisched-gpu-fraction-0.5-xy",
    ],
)
def test_a_name_that_no_share_gives_is_somebody_elses(name):
    assert is_ours("gpu-share")
    assert not is_ours(name)


@pytest.mark.parametrize("text", [".5", "+0.5", "5e-1"])
def test_a_number_that_can_end_no_name_is_refused(text):
    said = unsupported(pod({FRACTION: text}), has_share_claims=True)
    assert f"gpu-fraction: {text}: " in said
    assert "plain digits" in said


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, ["gpu-share", "resourceClaimTemplateName: kaisched-gpu-fraction-0.5", "gpuClaims"]),
        ({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}, ["names none"]),
        (named("kaisched-gpu-fraction-0.6"), ["comes from kaisched-gpu-fraction-0.6", "-0.5"]),
        (
            {"resourceClaims": [{"name": "gpu-share", "resourceClaimName": "mine"}]},
            ["comes from mine"],
        ),
    ],
)
def test_a_pod_that_does_not_name_its_claim_hears_how(spec, words):
    said = unsupported(pod({FRACTION: "0.5"}, **spec), has_share_claims=True)
    assert all(it in said for it in words)


def test_a_claim_has_at_most_32_devices():
    made = pod({FRACTION: "0.5", CARDS: "33"}, **named("kaisched-gpu-fraction-0.5-x33"))
    assert "at most 32 devices" in unsupported(made, has_share_claims=True)
    made = pod({FRACTION: "0.5", CARDS: "32"}, **named("kaisched-gpu-fraction-0.5-x32"))
    assert not unsupported(made, has_share_claims=True)


def test_a_share_may_have_other_claims_beside_it_but_no_whole_gpus():
    nic = {"name": "nic", "resourceClaimTemplateName": "nic"}
    spec = {"resourceClaims": [nic, *named("kaisched-gpu-memory-5")["resourceClaims"]]}
    assert not unsupported(pod({MEMORY: "5"}, **spec), has_share_claims=True)
    made = pod({MEMORY: "5"}, limits={"nvidia.com/gpu": 1}, **spec)
    assert "does not go with nvidia.com/gpu" in unsupported(made, has_share_claims=True)


@pytest.mark.parametrize(
    ("share", "size", "amount"),
    [
        (Share(0, 20_000, 1), 0, "20000Mi"),
        (Share(500_000, 0, 2), 80 * GIB, "40960Mi"),
        (Share(333_334, 0, 1), 80 * GIB, "27306Mi"),  # three of them have room
        (Share(1, 0, 1), 80 * GIB, "1Mi"),
    ],
)
def test_a_claim_asks_for_memory_of_devices_that_can_be_shared(share, size, amount):
    spec = claim_spec(share, "gpu.nvidia.com", size)
    made = msgspec.to_builtins(template_for("team", "t", spec))
    assert made == {
        "metadata": {
            "name": "t",
            "namespace": "team",
            "labels": {"app.kubernetes.io/managed-by": "kaisched"},
        },
        "spec": {
            "spec": {
                "devices": {
                    "requests": [
                        {
                            "name": "gpu",
                            "exactly": {
                                "deviceClassName": "gpu.nvidia.com",
                                "count": share.cards,
                                "selectors": [
                                    {"cel": {"expression": "device.allowMultipleAllocations"}}
                                ],
                                "capacity": {"requests": {"memory": amount}},
                            },
                        }
                    ]
                }
            }
        },
    }
