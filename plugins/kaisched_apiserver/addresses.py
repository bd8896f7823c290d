"""Addresses of pods and nodes that are not there: each has its own as long as it exists."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Final

NODES: Final = IPv4Network("10.0.0.0/9")
PODS: Final = IPv4Network("10.128.0.0/9")


class Addresses:
    """Gives out the addresses of a network, the next free one each time."""

    def __init__(self, network: IPv4Network) -> None:
        """Begin with the first address for hosts."""
        self._network = network
        self._of_owner: dict[str, int] = {}
        self._taken: set[int] = set()
        self._next = 1

    def of(self, owner: str) -> str:
        """Return the address of an owner, which gets one if it has none."""
        number = self._of_owner.get(owner)
        if number is None:
            number = self._of_owner[owner] = self._free()
            self._taken.add(number)
        return str(self._network[number])

    def release(self, owner: str) -> None:
        """Take an address back."""
        number = self._of_owner.pop(owner, None)
        if number is not None:
            self._taken.discard(number)

    def _free(self) -> int:
        most = self._network.num_addresses - 2
        while self._next in self._taken:
            self._next = self._next % most + 1
        found, self._next = self._next, self._next % most + 1
        return found
