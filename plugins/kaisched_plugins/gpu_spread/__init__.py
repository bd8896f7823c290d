"""GPU spread: the plugin ``gpu-spread``."""

from kaisched_plugins.gpu_spread.plugin import GpuSpread as GpuSpread

__all__ = ["GpuSpread"]
