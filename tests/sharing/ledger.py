"""What containers use of each GPU at any instant, by what they saw when they started."""

import threading
from fractions import Fraction

from kaisched_apiserver.kubelets import gpus_asked, is_agent

GROUPS = "kaisched.io/gpu-groups"


class Ledger:
    """Sums the parts of each GPU, and keeps what was wrong at any time."""

    def __init__(self, kubelet, card_mib):
        self._kubelet, self._card_mib = kubelet, card_mib
        self._parts, self._held, self._lock = {}, {}, threading.Lock()
        self.breaches, self.begun, self.most = [], 0, Fraction(0)
        kubelet.begins, kubelet.ends = self._begins, self._ends

    @property
    def is_empty(self):
        return not self._parts

    def _begins(self, pod, gpus):
        meta = pod["metadata"]
        if is_agent(pod):
            if len(gpus) == 1:
                self._held[meta["uid"]] = (pod["metadata"]["labels"]["runai-gpu-group"], gpus[0])
            return
        part = self._part_of(pod)
        if part is None:
            return
        with self._lock:
            self.begun += 1
            self._parts[meta["uid"]] = (meta["name"], part, gpus)
            for gpu in gpus:
                here = [(name, it) for name, it, seen in self._parts.values() if gpu in seen]
                total = sum(it for _, it in here)
                self.most = max(self.most, total)
                if total > 1:
                    self.breaches.append(f"GPU {gpu} is used {float(total):.4f} times: {here}")
            self._check_sight(pod, gpus)

    def _part_of(self, pod):
        notes = pod["metadata"].get("annotations") or {}
        if "gpu-fraction" in notes:
            return Fraction(notes["gpu-fraction"])
        if "gpu-memory" in notes:
            return Fraction(int(notes["gpu-memory"]), self._card_mib)
        return Fraction(1) if gpus_asked(pod) else None

    def _check_sight(self, pod, gpus):
        """A pod with a share sees the GPUs of its groups, one each, and no other."""
        notes, name = pod["metadata"].get("annotations") or {}, pod["metadata"]["name"]
        if gpus_asked(pod):
            return
        groups = notes.get(GROUPS, "").split(",")
        wanted = int(notes.get("gpu-fraction-num-devices", "1"))
        held = set(self._held.values())
        if len(set(gpus)) != wanted or len(groups) != wanted:
            self.breaches.append(f"{name} sees {gpus}, its groups are {groups}")
        for group, gpu in zip(groups, gpus, strict=False):
            if (group, gpu) not in held:
                self.breaches.append(f"{name} sees {gpu}, which is not held for {group}")

    def _ends(self, uid):
        with self._lock:
            self._parts.pop(uid, None)
            self._held.pop(uid, None)
