"""Goes round all laws for as long as there is time, looking for examples that break one."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, Phase, core, is_hypothesis_test, settings

from tests.fuzz.reproduction import reproduction

PROBE = 5
"""Examples that tell how long one takes."""
TURN_S = 10.0
"""About so long a law is looked at in one round, where there is time for several."""
MOST = 100_000
"""Examples in one turn, where they cost next to nothing."""
LINES = 40
"""So much is told of an error."""


@dataclass
class Law:
    """A law, and how many of its examples a second can be looked at."""

    item: pytest.Item
    rate: float = 0.0
    examples: int = 0


def settings_of(item: pytest.Item) -> tuple[Any, str]:
    """Return what has the settings of a law, and under what name."""
    if hasattr(item.obj, "_hypothesis_state_machine_class"):
        return item.cls, "settings"
    return item.obj, "_hypothesis_internal_use_settings"


def searching(fixed: settings, count: int) -> settings:
    """Return the settings under which so many new examples are looked at."""
    return settings(
        fixed,
        max_examples=count,
        derandomize=False,
        database=None,
        phases=(Phase.generate, Phase.target, Phase.shrink),
        report_multiple_bugs=False,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


@dataclass(eq=False)
class Rounds:
    """A plugin of pytest that runs what it collects in its own way."""

    seconds: float
    seed: int
    laws: list[Law] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    """The laws that were broken."""
    clock: Callable[[], float] = time.monotonic
    _errors: list[BaseException] = field(default_factory=list)
    _say: Callable[[str], None] = print

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Keep the laws."""
        items[:] = [item for item in items if is_hypothesis_test(getattr(item, "obj", None))]
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        self._say = reporter.write_line

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Look at the laws instead of running the tests once."""
        if session.testsfailed:
            raise session.Interrupted(f"{session.testsfailed} errors while looking for laws")
        self.laws = [Law(item) for item in session.items]
        dice = random.Random(self.seed)
        dice.shuffle(self.laws)  # where time is short, other laws come first the next time
        self._say(f"{len(self.laws)} laws, {self.seconds / 60:g} minutes, seed {self.seed}")
        for law, count in self._turns():
            if law.item.nodeid not in self.found:
                self._look(law, count, dice.getrandbits(64))
        looked_at = sum(law.examples > 0 for law in self.laws)
        examples = sum(law.examples for law in self.laws)
        self._say(f"{examples} examples of {looked_at} laws; {len(self.found)} laws broken")
        session.testsfailed = len(self.found)
        return True

    def _turns(self) -> Iterator[tuple[Law, int]]:
        """Yield whose turn it is and how many examples there is time for.

        Every turn gets an equal part of the time that is left. A first round only tells how long
        an example takes.
        """
        end = self.clock() + self.seconds
        rounds = 1 + max(1, int(self.seconds / (TURN_S * max(len(self.laws), 1))))
        left = rounds * len(self.laws)
        for number in range(rounds):
            for law in self.laws:
                part_s = (end - self.clock()) / left
                left -= 1
                if part_s <= 0:
                    return
                yield law, int(min(max(part_s * law.rate, 1), MOST)) if number else PROBE

    def _look(self, law: Law, count: int, number: int) -> None:
        """Look at so many new examples of a law; tell of the first that breaks it."""
        holder, name = settings_of(law.item)
        fixed = getattr(holder, name)
        setattr(holder, name, searching(fixed, count))
        core.global_force_seed = number
        self._errors.clear()
        begun = self.clock()
        reports = runtestprotocol(law.item, log=False, nextitem=None)
        setattr(holder, name, fixed)
        law.rate = count / max(self.clock() - begun, 1e-3)
        law.examples += count
        if any(report.failed for report in reports):
            self.found.append(law.item.nodeid)
            self._tell(law.item, next(report for report in reports if report.failed))

    def _tell(self, item: pytest.Item, report: pytest.TestReport) -> None:
        error = self._errors[-1] if self._errors else None
        notes = list(getattr(error, "__notes__", ()))
        self._say(f"\nbroken: {item.nodeid} (seed {self.seed})")
        if not notes:
            self._say("\n".join(report.longreprtext.splitlines()[-LINES:]))
            return
        self._say("\n".join(f"{type(error).__name__}: {error}".splitlines()[:LINES]))
        printed = reproduction(notes, vars(item.module), item.fixturenames)
        if "@example" not in printed:
            self._say("\n".join("\n".join(notes).splitlines()[:LINES]))
        self._say(f"To look at it again, paste this above the law:\n\n{printed}\n")

    def pytest_runtest_makereport(self, call: pytest.CallInfo[Any]) -> None:
        """Keep the error itself: its notes say which example it was."""
        if call.excinfo is not None:
            self._errors.append(call.excinfo.value)
