"""No gang runs below its minimum for longer than its grace and half a minute."""

from dataclasses import dataclass

from tests.chaos.promise import Promise

SLACK_S = 30.0


@dataclass(slots=True)
class Shortfall:
    """A gang that is between 0 and its minimum."""

    since_s: float
    order: int
    active: int
    succeeded: int
    is_told: bool = False


class WholeGangs(Promise):
    NAME = "P3 no gang between 0 and its minimum past its grace"

    def __init__(self, checker):
        super().__init__(checker)
        self.longest_s = 0.0
        self._members, self._touched, self._shortfalls = {}, set(), {}

    def changed(self, event, before, after):
        if event.kind == "podgroups":
            self._touched.add(event.facts.key)
        if event.kind != "pods":
            return
        for it in (before, after):
            if it is not None and it.group:
                self._touched.add(it.group)
        if before is not None and before.group:
            self._members.get(before.group, {}).pop(before.uid, None)
        if after is not None and after.group:
            self._members.setdefault(after.group, {})[after.uid] = after

    def settle(self, event):
        touched, self._touched = self._touched, set()
        for key in touched:
            group, members = self.cluster.podgroups.get(key), self._members.get(key, {}).values()
            active = sum(it.holds_room and not it.is_leaving for it in members)
            succeeded = sum(it.phase == "Succeeded" for it in members)
            is_below = group is not None and active > 0 and active + succeeded < group.minimum
            shortfall = self._shortfalls.get(key)
            if is_below and shortfall is None:
                self._shortfalls[key] = Shortfall(event.at_s, event.order, active, succeeded)
            elif is_below:
                shortfall.active, shortfall.succeeded = active, succeeded
            elif shortfall is not None:
                self._look(key, group, shortfall, event.at_s)
                del self._shortfalls[key]
            if group is None and not members:
                self._members.pop(key, None)

    def pass_time(self, now_s):
        for key, shortfall in self._shortfalls.items():
            self._look(key, self.cluster.podgroups.get(key), shortfall, now_s)

    def _look(self, key, group, shortfall, now_s):
        if group is None or group.grace_s < 0:
            return
        counted_s = self.checker.outages.counted(shortfall.since_s, now_s)
        self.longest_s = max(self.longest_s, counted_s - group.grace_s)
        if counted_s > group.grace_s + SLACK_S and not shortfall.is_told:
            shortfall.is_told = True
            text = (
                f"{shortfall.active} of its {group.minimum} pods on nodes and {shortfall.succeeded}"
                f" succeeded for {counted_s:.0f} s, with a grace of {group.grace_s:.0f} s"
            )
            self.checker.breach(
                self.NAME, f"pod group {key}", shortfall.order, shortfall.since_s, text
            )
