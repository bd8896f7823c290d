"""What labels say about the GPUs of a node: the memory of each, and whether pods may share them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kaisched.objects.node import Node
from kaisched.objects.wire import Amount
from kaisched.units import UnitError, count

_MEMORY: Final = "nvidia.com/gpu.memory"
_COUNT: Final = "nvidia.com/gpu.count"
_REPLICAS: Final = "nvidia.com/gpu.replicas"
_MIG_STRATEGY: Final = "nvidia.com/mig.strategy"
_MIG_PRODUCT: Final = "-MIG-"
_PRODUCT: Final = "nvidia.com/gpu.product"
_IN_BYTES: Final = 1 << 20
"""No GPU has so many MiB: such a number is in bytes."""
_DIGITS: Final = 18
_MOST_CARDS: Final = 1000


def card_mib_of(node: Node) -> int:
    """Return the MiB of each GPU of a node, 0 where no label says."""
    number = _number(node, _MEMORY)
    return number >> 20 if number >= _IN_BYTES else number


def can_share(node: Node, gpu_resources: Sequence[str]) -> bool:
    """Tell whether what a node offers as GPUs are whole cards, of which pods may have parts.

    With time slicing a GPU is offered several times, and with MIG in the strategy ``single``
    instances are offered as GPUs. No machine has a thousand cards.
    """
    labels = node.metadata.labels
    if _number(node, _REPLICAS) > 1:
        return False
    if labels.get(_MIG_STRATEGY) == "single" and _MIG_PRODUCT in labels.get(_PRODUCT, ""):
        return False
    amounts = node.status.allocatable or node.status.capacity
    offered = sum(_offered(it) for name, it in amounts.items() if name in gpu_resources)
    return offered <= min(_number(node, _COUNT) or _MOST_CARDS, _MOST_CARDS)


def _offered(amount: Amount) -> int:
    try:
        return count(amount, round_up=False)
    except UnitError:
        return 0  # then the node is left out, and says why


def _number(node: Node, key: str) -> int:
    text = node.metadata.labels.get(key, "")
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else 0
