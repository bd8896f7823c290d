"""What must hold of claims on devices at every revision, in the order of the revisions."""

from collections import Counter
from dataclasses import dataclass

from tests.chaos.facts import ENDED


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim as the API says it."""

    key: str
    uid: str
    devices: tuple = ()
    """(driver, pool, device) of what it has."""
    users: frozenset = frozenset()
    """UIDs of the pods that may use it."""
    is_protected: bool = False
    is_leaving: bool = False


def claim_of(obj):
    meta, status = obj["metadata"], obj.get("status") or {}
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    return Claim(
        f"{meta['namespace']}/{meta['name']}",
        meta["uid"],
        tuple((it["driver"], it["pool"], it["device"]) for it in results),
        frozenset(it["uid"] for it in status.get("reservedFor") or ()),
        "resource.kubernetes.io/delete-protection" in (meta.get("finalizers") or ()),
        "deletionTimestamp" in meta,
    )


class ClaimChecker:
    """Keeps pods and claims as of one revision, and lists what breaks a promise."""

    def __init__(self):
        self.claims, self.pods = {}, {}
        self.breaches = []
        self.counts = Counter()
        self._owners = {}
        """Device to the claims that have it."""

    def breach(self, event, text):
        self.breaches.append(f"revision {event.order}: {text}")

    def take(self, events):
        """Take in events that are in order."""
        for event in events:
            if event.kind == "claims":
                self._claim(event)
            elif event.kind == "pods":
                self._pod(event)

    def _claim(self, event):
        now = event.facts
        before = self.claims.pop(now.key, None)
        self.counts["claims"] += 1
        if before is not None:
            for device in before.devices:
                self._owners[device].discard(now.key)
            self._look_at_users(event, before, None if event.is_deleted else now)
        if event.is_deleted:
            return
        self.claims[now.key] = now
        if now.devices and (before is None or not before.devices):
            self.counts["allocated"] += 1
            if not now.is_protected:
                self.breach(event, f"{now.key} has devices and no finalizer")
            if not now.users:
                self.breach(event, f"{now.key} has devices and no user")
        if before is not None and before.devices and not now.devices:
            self.counts["given back"] += 1
        for device in now.devices:
            owners = self._owners.setdefault(device, set())
            owners.add(now.key)
            if len(owners) > 1:
                self.breach(event, f"{'/'.join(device)} is given to {', '.join(sorted(owners))}")

    def _look_at_users(self, event, before, now):
        """Look whether pods that run have lost what they use."""
        has = frozenset() if now is None or now.devices != before.devices else now.users
        for uid in before.users - has:
            pod = self.pods.get(uid)
            if pod is not None and pod.phase == "Running" and not pod.is_leaving:
                self.breach(event, f"{before.key} is taken from {pod.key}, which runs")

    def _pod(self, event):
        now = event.facts
        before = self.pods.pop(now.uid, None)
        if event.is_deleted or now.phase in ENDED:
            return
        self.pods[now.uid] = now
        if now.phase == "Running" and (before is None or before.phase != "Running"):
            self.counts["started"] += 1
        if now.node and (before is None or not before.node):
            self.counts["bound"] += 1
            self._look_at_bound(event, now)

    def _look_at_bound(self, event, pod):
        """Look whether what a pod uses is where it runs: devices belong to the node of their pool.

        The reservation came before the bind, so it has been heard.
        """
        mine = [it for it in self.claims.values() if pod.uid in it.users]
        if not mine:
            self.breach(event, f"{pod.key} is bound, and no claim is reserved for it")
        for claim in mine:
            if not claim.devices:
                self.breach(event, f"{pod.key} is bound, and {claim.key} has no devices")
            for _, pool, device in claim.devices:
                if pool != pod.node:
                    self.breach(event, f"{pod.key} is on {pod.node}, its {device} on {pool}")

    def leaks(self):
        """Return what there is of claims although no pod is left, in words."""
        return [
            f"{it.key} is left: {len(it.devices)} devices, {len(it.users)} users"
            for it in self.claims.values()
        ]
