"""No pod is bound twice, and no epoch of a lease has two leaders."""

from tests.chaos.promise import Promise


class BoundOnce(Promise):
    NAME = "P2 no pod bound twice, no epoch with two leaders"

    def __init__(self, checker):
        super().__init__(checker)
        self.leaders = {}
        """(lease, epoch) to the leaders it was seen with."""
        self.take_overs = []
        """(when, seconds since the last renewal of the leader before) of each new leader."""
        self._newest, self._renewed = {}, {}

    def changed(self, event, before, after):
        if event.kind == "pods":
            self._pod(event, before, after)
        elif event.kind == "leases" and after is not None and after.holder:
            self._leads(event, after.key.rpartition("/")[2], after.epoch, after.holder, "the lease")
            holder, at_s = self._renewed.get(after.key, (after.holder, event.at_s))
            if holder != after.holder:
                left_s = self.checker.outages.counted(at_s, event.at_s)
                self.take_overs.append((event.at_s, left_s))
            self._renewed[after.key] = after.holder, event.at_s

    def _pod(self, event, before, after):
        was, now = (it.node if it is not None else "" for it in (before, after))
        if after is None:
            return
        if was and was != now:
            text = f"was on {was}, is on {now or 'no node'}; epoch {after.epoch}"
            self.checker.breach(self.NAME, f"pod {after.key}", event.order, event.at_s, text)
        if now and not was and after.epoch:
            self.checker.counts["binds"] += 1
            epoch, lease = int(after.epoch), after.lease
            self._leads(event, lease, epoch, after.leader, f"the bind of pod {after.key}")
            if epoch < self._newest.get(lease, epoch):
                self.checker.counts["binds of an earlier epoch"] += 1
            self._newest[lease] = max(epoch, self._newest.get(lease, epoch))

    def _leads(self, event, lease, epoch, leader, who):
        known = self.leaders.setdefault((lease, epoch), {})
        if leader in known:
            return
        known[leader] = who
        if len(known) > 1:
            text = "; ".join(f"{name} says {said}" for name, said in known.items())
            subject = f"epoch {epoch} of lease {lease}"
            self.checker.breach(self.NAME, subject, event.order, event.at_s, text)
