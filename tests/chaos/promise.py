"""What every promise is told."""


class Promise:
    """What a promise may react to. It does nothing unless it says so."""

    def __init__(self, checker):
        self.checker, self.cluster = checker, checker.cluster

    def changed(self, event, before, after):
        """Take in a change of an object; None stands for one that is not there."""

    def settle(self, event):
        """Look at the state as of a revision, which is that of the event."""

    def pass_time(self, now_s):
        """Look at what lasts."""
