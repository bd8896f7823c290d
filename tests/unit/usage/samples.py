"""Short ways to write samples, and a plain loop that computes their sums."""

import numpy as np

from kaisched.usage.history import HOLD_S, Sample

HOUR = 3600.0
RESOURCES = ("cpu", "memory", "gpu")


def sample(time_s, capacity=10, **gpus):
    """GPUs by queue; CPUs ten times as many, MiB a hundred times."""
    held = np.array(list(gpus.values()), np.int64)
    scale = np.array([10_000, 100, 1000])
    return Sample(float(time_s), RESOURCES, tuple(gpus), scale[:, None] * held, scale * capacity)


def fill(store, samples):
    for each in samples:
        store.record(each)
    return store


def units_of(usage, queue=0, resource=2):
    return int(usage.parts[resource, queue])


def independent(samples, now_s, start_s, half_life_s, queue):
    """Usage of GPUs by the definition, in slices of a second."""
    used = capacity = 0.0
    for this, following in zip(samples, [*samples[1:], None], strict=True):
        end_s = now_s if following is None else min(following.time_s, now_s)
        end_s = min(end_s, this.time_s + HOLD_S)
        moments = np.arange(max(this.time_s, start_s), end_s, 1.0) + 0.5
        weights = 0.5 ** ((now_s - moments) / half_life_s) if half_life_s else np.ones(len(moments))
        held = this.allocated[2, this.queues.index(queue)] if queue in this.queues else 0
        used += held * weights.sum()
        capacity += this.capacity[2] * weights.sum()
    return used / capacity if capacity else 0.0
