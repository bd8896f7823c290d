"""Law: for equal claims on parts of devices as many are counted as a search finds."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from kaisched.core.claims.counting import MOST, Parts, counted, pods_with
from kaisched.core.claims.model import (
    NANOS,
    Ask,
    Capacity,
    Claim,
    Device,
    Place,
    Policy,
    Quantity,
    Request,
    Site,
    Slice,
    Taint,
)
from kaisched.core.claims.offer import Offer
from kaisched.core.claims.search import allocate
from kaisched.core.claims.selectors import CelSelector, DeviceClass
from kaisched.core.claims.table import Holdings, portions_of

DRIVER = "gpu.example.com"
CAN_BE_SHARED = "device.allowMultipleAllocations"


def whole(number):
    return Quantity(number * NANOS, is_binary=True)


def capacity_of(random, size):
    policy = random.choice(
        [
            None,
            Policy(default=whole(size)),
            Policy(default=whole(0)),
            Policy(whole(size), least=whole(1), most=whole(size), step=whole(4), has_range=True),
            Policy(whole(8), values=(whole(8), whole(16))),
        ]
    )
    return Capacity(whole(size), policy)


def device_of(random, node, index):
    capacities = {"memory": capacity_of(random, random.choice((16, 40)))}
    if random.random() < 0.3:
        capacities["shares"] = Capacity(whole(5), Policy(default=whole(1)))
    taints = (Taint("lost", "", "NoSchedule"),) if random.random() < 0.1 else ()
    is_shared = random.random() < 0.8
    return Device(
        DRIVER, node, f"gpu-{index}", capacities=capacities, taints=taints, is_shared=is_shared
    )


def claim_of(random):
    selectors = (CAN_BE_SHARED,) if random.random() < 0.5 else ()
    asked = random.choice([(), (("memory", whole(random.choice((3, 8, 20)))),)])
    ask = Ask("gpu", "gpu", selectors, random.choice((1, 1, 2, 3)), capacity=asked)
    return Claim((Request("gpu", (ask,)),))


def check(seed):
    """Count for several claims on a node, as parts are taken; return how many were found."""
    random = Random(seed)
    devices = tuple(device_of(random, "n", index) for index in range(random.randint(1, 5)))
    classes = {"gpu": DeviceClass("gpu", (CelSelector(f'device.driver == "{DRIVER}"'),))}
    offer = Offer([Slice("s", DRIVER, "n", 1, 1, Place("n"), devices)], classes)
    selectors, site = {CAN_BE_SHARED: CelSelector(CAN_BE_SHARED)}, Site("n", {})
    claims = [[claim_of(random)] for _ in range(3)]
    free, found = Holdings(), 0
    for _ in range(12):
        claim = random.choice(claims)
        number = counted(offer, claim, selectors)(site, free.taken)
        assert min(number, MOST) == pods_with(offer, site, claim, selectors, free.copy())
        found += number
        if taken := allocate(offer, site, random.choice(claims), selectors, free.taken):
            free.add(portions_of(taken[0].results))
    return found


@settings(max_examples=20)
@given(st.integers(0, 2**31))
def test_counting_parts_finds_as_many_as_searching_them(seed):
    check(seed)


def test_the_law_counts_something():
    assert sum(check(seed) > 0 for seed in range(20)) > 10


def test_a_node_is_looked_at_once():
    devices = (Device(DRIVER, "n", "d", capacities={"memory": Capacity(whole(9))}, is_shared=True),)
    offer = Offer([Slice("s", DRIVER, "n", 1, 1, Place("n"), devices)], {})
    ask = Ask("gpu", "gpu", (), 1, capacity=(("memory", whole(2)),))
    site, free = Site("n", {}), Holdings()
    assert Parts(offer, ask, ())(site, free.taken) == 4
    offer.pools = None
    assert Parts(offer, ask, ())(site, free.taken) == 4
