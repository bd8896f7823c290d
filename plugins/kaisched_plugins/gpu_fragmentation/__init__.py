"""GPU fragmentation: places pods where what stays free is of most use to the other pods."""

from kaisched_plugins.gpu_fragmentation.plugin import GpuFragmentation

__all__ = ["GpuFragmentation"]
