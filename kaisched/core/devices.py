"""What a pod asks of GPUs that an amount of a resource cannot say."""

from __future__ import annotations

from typing import Final, NamedTuple

CARD: Final = 1_000_000
"""Millionths: a fraction of a card is a whole number of them."""
_THOUSANDTH: Final = CARD // 1000


class DeviceDemand(NamedTuple):
    """A pod's demand on GPUs besides whole GPUs and MIG instances, which are resources."""

    fraction: int = 0
    """Millionths of each card, rounded up; 0 for a pod that asks for memory, or for no share."""
    memory_mib: int = 0
    """MiB of each card; 0 for a pod that asks for a fraction, or for no share."""
    cards: int = 1
    """Different cards of one node that the pod has a share of."""
    legacy_slices: int = 0
    """MIG slices that a running pod has taken by annotation, unseen by the device plugin."""

    @property
    def is_share(self) -> bool:
        """Whether the pod asks for a part of a card."""
        return bool(self.fraction or self.memory_mib)

    def take(self, card_mib: int) -> int:
        """Return what it takes of a card of so many MiB, in millionths of a MiB (rule V6)."""
        return self.fraction * card_mib or self.memory_mib * CARD

    def milli_gpus(self, card_mib: int) -> int:
        """Return the thousandths of a GPU that it counts in its queue (rule V2).

        ``card_mib`` is the size of a card; 0, when no size is known, counts memory as nothing.
        """
        part = self.fraction
        if self.memory_mib:
            part = min(self.memory_mib * CARD // card_mib, CARD) if card_mib else 0
            if not part:
                return 0
        return max((part + _THOUSANDTH // 2) // _THOUSANDTH, 1) * self.cards if part else 0
