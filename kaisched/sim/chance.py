"""Random numbers: one seed, and a stream for each purpose.

A stream depends only on the seed and on its names. A new group of jobs, or more draws in one group,
changes no other stream.
"""

from __future__ import annotations

from zlib import crc32

import numpy as np


class Chance:
    """Makes streams."""

    def __init__(self, seed: int) -> None:
        """Take the seed of the run, at least 0."""
        self._seed = seed

    def stream(self, purpose: str, name: str) -> np.random.Generator:
        """Return the stream of a purpose and a name, from its beginning."""
        keys = [self._seed, crc32(purpose.encode()), crc32(name.encode())]
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(keys)))
