"""The process that renews leases and does nothing else; ``LeaseKeeper`` starts it.

The scheduler holds Python's lock for seconds at a time, while it reads a long list. So
leases are renewed here, where nothing else runs. The process is small: no numpy, store or plugins.

It renews only for a scheduler that is alive. When the scheduler ends, its pipe closes, which ends
this process at once. A stopped scheduler is noticed by its state, a hanging one by its silence.
The leases are not released then: writes of the scheduler that are under way may still arrive.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog
import urllib3

from kaisched.clock import SystemClock, monotonic_s
from kaisched.cluster.kubernetes.access import Access
from kaisched.cluster.kubernetes.client import Client, Counts
from kaisched.cluster.kubernetes.gate import Board, SharedGate
from kaisched.cluster.kubernetes.lease import Elector, LeaseTimes
from kaisched.cluster.kubernetes.lease_messages import (
    ORDERS,
    Asked,
    Beat,
    Begin,
    Gone,
    LetGo,
    Lost,
    Renewed,
    Report,
    Said,
    Try,
    Won,
    line_of,
)

if TYPE_CHECKING:
    from collections.abc import MutableMapping

_STATES: Final = {"T": "is stopped", "t": "is stopped", "Z": "has ended", "X": "has ended"}
_LONGEST: Final = 4096
"""Longest line that a pipe accepts whole or not at all."""


class Out:
    """Sends reports without ever waiting: a stopped reader must not delay a renewal."""

    def __init__(self, descriptor: int) -> None:
        """Write to a pipe."""
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor

    def put(self, report: Report) -> None:
        """Send a report. If the pipe is full, reports for logs and metrics are dropped.

        If any other report cannot be sent this process ends: the next one begins with the present
        state.
        """
        line = line_of(report)
        try:
            if len(line) <= _LONGEST:
                os.write(self._descriptor, line)
        except OSError:
            if not isinstance(report, Said | Asked | Renewed):
                os._exit(1)

    def log(self, _: object, level: str, event: MutableMapping[str, Any]) -> str:
        """Send a log line: the scheduler has the settings of the log, and masks secrets."""
        self.put(Said(level, str(event.pop("event", "")), dict(event)))
        raise structlog.DropEvent


class Asker(Counts):
    """Sends the counts of requests to the scheduler, which exports them."""

    def __init__(self, out: Out) -> None:
        """Keep the way out."""
        super().__init__()
        self._out = out

    def add(self, *labels: str, seconds: float = 0.0) -> None:
        """Send one count."""
        self._out.put(Asked(labels, seconds))


class Principal:
    """The scheduler's process, for which leases are renewed."""

    def __init__(self, pid: int, silence_s: float) -> None:
        """Begin with a heartbeat just now.

        Args:
            pid: its process number; it started us.
            silence_s: it counts as hanging after so long without a heartbeat.

        """
        self._pid, self._silence_s = pid, silence_s
        self._state = Path(f"/proc/{pid}/stat")
        self.heard_s = monotonic_s()
        self.authorization = ""

    def why_not(self) -> str:
        """Return why nothing is renewed for it now; empty while it is alive."""
        if os.getppid() != self._pid:
            return "the scheduler has ended"
        try:
            state = self._state.read_text(encoding="utf-8", errors="replace").rpartition(") ")[2][0]
        except (OSError, IndexError):  # a system without these files: only silence is noticed
            state = ""
        if state in _STATES:
            return f"the scheduler {_STATES[state]}"
        silent_s = monotonic_s() - self.heard_s
        if silent_s > self._silence_s:
            return f"the scheduler hangs: silent for more than {self._silence_s:.0f} s"
        return ""


class Renewer:
    """Carries out the orders of the scheduler."""

    def __init__(self, begin: Begin, principal: Principal, out: Out) -> None:
        """Do nothing yet."""
        self._begin, self._principal, self._out = begin, principal, out
        self._board = Board(begin.descriptor, begin.slots)
        access = Access(begin.host, begin.pool, lambda: principal.authorization)
        if begin.pool.get("cert_reqs") == "CERT_NONE":
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        self._client = Client(access, connections=begin.slots)
        self._client.requests = Asker(out)
        self._electors: dict[str, Elector] = {}

    def obey(self, order: Beat | Try | LetGo) -> None:
        """Carry out one order; slow ones run in a thread."""
        self._principal.heard_s = monotonic_s()
        if isinstance(order, Beat):
            if order.authorization is not None:
                self._principal.authorization = order.authorization
        elif isinstance(order, Try):
            self._electors[order.lease] = elector = self._elector(order)
            elector.start()
        else:
            threading.Thread(target=self._let_go, args=(order.lease,)).start()

    def _elector(self, order: Try) -> Elector:
        begin, out, lease = self._begin, self._out, order.lease
        return Elector(
            self._client,
            SharedGate(self._board, order.slot, begin.identity, lease),
            SystemClock(),
            namespace=begin.namespace,
            name=lease,
            identity=begin.identity,
            times=LeaseTimes(begin.lease_s, begin.renew_s, begin.retry_s),
            epoch=order.epoch,
            why_not=self._principal.why_not,
            on_won=lambda: out.put(Won(lease)),
            on_lost=lambda why: out.put(Lost(lease, why)),
            on_renewed=lambda seconds: out.put(Renewed(lease, seconds)),
        )

    def _let_go(self, lease: str) -> None:
        elector = self._electors.pop(lease, None)
        if elector is not None:
            elector.stop()
        self._out.put(Gone(lease))


def main() -> None:
    """Carry out the orders on standard input, one per line, and end with it."""
    principal_pid = os.getppid()
    out = Out(sys.stdout.fileno())
    structlog.configure(
        processors=[structlog.processors.format_exc_info, out.log],
        wrapper_class=structlog.make_filtering_bound_logger(0),
    )
    orders = map(ORDERS.decode, sys.stdin.buffer)
    begin = next(orders, None)
    if isinstance(begin, Begin):
        renewer = Renewer(begin, Principal(principal_pid, begin.silence_s), out)
        for order in orders:
            if not isinstance(order, Begin):
                renewer.obey(order)
    os._exit(0)  # threads may wait for the server


if __name__ == "__main__":
    main()
