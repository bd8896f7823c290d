"""What tests of the fake server share."""

import time

from kaisched.core.usage import PARTS
from tests.unit.usage.samples import RESOURCES, sample
from tests.waiting import until

QUEUES = ["a", "b", "c"]
HALF_AND_A_FIFTH = [0.5, 0.2, 0.0]


def told(store, *words):
    """Wait until the answer has all these words in its reasons, and return it."""

    def is_told():
        reasons = store.usage(time.time(), QUEUES, RESOURCES).reasons
        return all(any(word in reason for reason in reasons) for word in words)

    until(is_told)
    return store.usage(time.time(), QUEUES, RESOURCES)


def shares(usage, resource="gpu"):
    return (usage.parts[RESOURCES.index(resource)] / PARTS).tolist()


def ready(store):
    until(store.is_ready)
    return store.usage(time.time(), QUEUES, RESOURCES)


def held_now(store, **gpus):
    """What this process sees itself, a minute long, from now on."""
    now_s = time.time()
    store.record(sample(now_s, **gpus))
    store.record(sample(now_s + 60, **gpus))
    return now_s + 60
