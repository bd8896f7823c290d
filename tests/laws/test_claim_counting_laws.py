"""Law: as many devices are counted for equal claims as a search, one after the other, finds."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from kaisched.core.claims.counting import counted, pods_with
from kaisched.core.claims.model import (
    Ask,
    Claim,
    Device,
    Place,
    Request,
    Site,
    Slice,
    Taint,
    Toleration,
)
from kaisched.core.claims.offer import Offer
from kaisched.core.claims.selectors import CelSelector, DeviceClass
from kaisched.core.claims.table import Holdings

DRIVER = "gpu.example.com"
TEXTS = (
    f'device.attributes["{DRIVER}"].model == "a"',
    f'device.attributes["{DRIVER}"].index >= 1',
    f'device.attributes["{DRIVER}"].uuid != "n1-0"',
    "device.attributes.size() > 0",
    f'device.driver == "{DRIVER}"',
)
TOLERATION = Toleration("lost", "Exists", "", "NoSchedule")


def device_of(random, node, index):
    attributes = {
        "model": ("string", random.choice("aab")),
        "index": ("int", index),
        "uuid": ("string", f"{node}-{index}"),
    }
    taints = (Taint("lost", "", "NoSchedule"),) if random.random() < 0.2 else ()
    return Device(DRIVER, node, f"gpu-{index}", attributes, taints=taints)


def offer_of(random, nodes):
    """Return pools of a few devices each, most of them alike, some split into two slices."""
    slices = []
    for node in nodes:
        devices = [device_of(random, node, index) for index in range(random.randint(0, 4))]
        cut = random.randint(0, len(devices))
        parts = [devices[:cut], devices[cut:]] if random.random() < 0.5 else [devices]
        for number, part in enumerate(parts):
            one = Slice(f"{node}-{number}", DRIVER, node, 1, len(parts), Place(node), tuple(part))
            slices.append(one)
    classes = {"gpu": DeviceClass("gpu", (CelSelector(random.choice(TEXTS)),))}
    return Offer(slices, classes)


def claim_of(random):
    selectors = tuple(random.sample(TEXTS, random.randint(0, 2)))
    tolerations = (TOLERATION,) if random.random() < 0.5 else ()
    ask = Ask("gpu", "gpu", selectors, random.choice((1, 1, 2)), tolerations=tolerations)
    return Claim((Request("gpu", (ask,)),))


def check(seed):
    """Count for several claims on all nodes, as devices are taken; return how many were found."""
    random = Random(seed)
    nodes = [f"n{number}" for number in range(random.randint(1, 6))]
    offer, selectors = offer_of(random, nodes), {text: CelSelector(text) for text in TEXTS}
    claims = [claim_of(random) for _ in range(3)]
    free, found = Holdings(), 0
    for _ in range(12):
        site, claim = Site(random.choice(nodes), {}), [random.choice(claims)]
        count = counted(offer, claim, selectors)
        number = count(site, free.taken)
        if site.name not in offer.nodes_of(free.taken.devices):
            assert count.on_untaken(site, offer.look(site, count.named)) == number
        assert number == pods_with(offer, site, claim, selectors, free.copy())
        found += number
        for device in offer.identities(site):
            if random.random() < 0.1 and device not in free.taken.devices:
                free.add(((device, None),))
    return found


@settings(max_examples=15)
@given(st.integers(0, 2**31))
def test_counting_devices_finds_as_many_as_searching_them(seed):
    check(seed)


def test_nodes_whose_devices_look_the_same_are_evaluated_once():
    random = Random(0)
    devices = [device_of(random, "n0", 0)] * 2
    slices = [
        Slice(name, DRIVER, name, 1, 1, Place(name), tuple(devices)) for name in ("n0", "n1", "n2")
    ]
    offer = Offer(slices, {"gpu": DeviceClass("gpu")})
    sites = [Site(name, {}) for name in ("n0", "n1", "n2")]
    assert len({offer.look(site, (("attributes", "model"),)) for site in sites}) == 1
