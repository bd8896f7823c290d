"""What a pod asks of GPUs that an amount of a resource cannot say."""

from __future__ import annotations

from typing import NamedTuple


class DeviceDemand(NamedTuple):
    """A pod's demand on GPUs besides whole GPUs and MIG instances, which are resources."""

    legacy_slices: int = 0
    """MIG slices that a running pod has taken by annotation, unseen by the device plugin."""
