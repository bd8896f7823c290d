"""What queues count of resources while one is offered by a device plugin and by claims."""

import numpy as np
import pytest

from kaisched.core.axis import GPU, ResourceAxis
from kaisched.units import CLAIMED_GPU

OTHER = "example.com/gpu"
AXIS = ResourceAxis.of((CLAIMED_GPU, OTHER, "nvidia.com/mig-1g.10gb"))


@pytest.mark.parametrize(
    ("bridged", "amounts", "gpus", "claimed"),
    [
        ("", {"gpu": 1000, CLAIMED_GPU: 2000, OTHER: 4}, 3000, 2000),
        ("gpu", {"gpu": 3000, CLAIMED_GPU: 2000, OTHER: 4}, 3000, 0),
        (OTHER, {"gpu": 1000, CLAIMED_GPU: 2000, OTHER: 4}, 5000, 0),
        ("gpu", {"gpu": 1000, "nvidia.com/mig-1g.10gb": 7}, 1994, 0),
    ],
    ids=["none", "gpus", "other", "with instances"],
)
def test_each_gpu_is_counted_once(bridged, amounts, gpus, claimed):
    axis = AXIS.bridging(bridged)
    charged = axis.charged(axis.vector(amounts))
    assert charged[GPU] == gpus
    assert charged[axis.position[CLAIMED_GPU]] == claimed


def test_amounts_without_claims_are_returned_as_they_are():
    axis = AXIS.bridging("gpu")
    amounts = axis.vector({"gpu": 1000, "cpu": 5})
    assert axis.charged(amounts) is amounts


def test_the_same_bridged_resource_gives_the_same_axis():
    assert AXIS.bridging("") is AXIS
    axis = AXIS.bridging(OTHER)
    assert axis.bridging(OTHER) is axis
    assert axis.wider(["example.com/licence"]).bridged == OTHER
    assert np.array_equal(axis.bridging("").gpu_part, AXIS.gpu_part)


def test_a_new_bridged_resource_joins_the_axis():
    assert OTHER in ResourceAxis.of((CLAIMED_GPU,)).bridging(OTHER).position
