"""What there is for claims, as its objects say: slices, classes, and rules that taint devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from kaisched.cluster.claims.gpus import GpuClasses
from kaisched.cluster.claims.kinds import OfferedObject
from kaisched.cluster.claims.reading import class_of, slice_of, tainted
from kaisched.core.claims.model import ClaimError, Identity, Slice
from kaisched.core.claims.offer import Offer
from kaisched.objects.devices import DeviceClass, DeviceTaintRule, ResourceSlice


class Offered:
    """Slices, classes and rules, and what they come to once they are asked for."""

    def __init__(self) -> None:
        """Know none."""
        self.gpus = GpuClasses()
        self._slices: dict[str, Slice] = {}
        self._rules: dict[str, DeviceTaintRule] = {}
        self._offer: Offer | None = None
        self._is_counted = True
        """Whether GPUs are counted that were offered since."""

    def put(self, obj: OfferedObject) -> None:
        """Take in an object that came or changed."""
        match obj:
            case DeviceClass():
                self.gpus.classes[obj.name] = class_of(obj)
            case ResourceSlice():
                try:
                    self._slices[obj.name] = slice_of(obj)
                except ClaimError:
                    self._slices.pop(obj.name, None)  # an API server accepts no such slice
            case DeviceTaintRule():
                self._rules[obj.name] = obj
        self._offer, self._is_counted = None, False

    def remove(self, obj: OfferedObject) -> None:
        """Drop an object."""
        match obj:
            case DeviceClass():
                self.gpus.classes.pop(obj.name, None)
            case ResourceSlice():
                self._slices.pop(obj.name, None)
            case DeviceTaintRule():
                self._rules.pop(obj.name, None)
        self._offer, self._is_counted = None, False

    def count(self, used: Callable[[], set[Identity]]) -> tuple[Counter[str], bool] | None:
        """Count the GPUs that are offered now; None if they are counted already.

        Return how many there were by node, and whether claims count for other numbers than before.
        ``used`` returns the devices that claims have, or have parts of.
        """
        if self._is_counted:
            return None
        self._is_counted = True
        before = self.gpus.of_node
        return before, self.gpus.count(self._slices.values(), used)

    @property
    def offer(self) -> Offer:
        """Slices and classes as claims find them."""
        if self._offer is None:
            slices = tainted(self._slices.values(), self._rules.values())
            self._offer = Offer(slices, dict(self.gpus.classes))
        return self._offer
