"""Change the code a little, many times: ``python -m tests.mutants --sample 300``.

Each mutant is one change of one line in a copy of the tree, in which the tests of its part are run.
One that they do not notice has survived: some rule has no test, or the change means nothing. In the
parts that keep limits and leaders every survivor has to be killed by a test of the rule, or argued
in ``ARGUED``. Exit code 0 where that is so, 1 where not, 2 where the tests fail as they are.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from tests.mutants.mutations import Mutation, mutations_of

ROOT: Final = Path(__file__).parents[2]
HOST: Final = "kaisched"
POLICY: Final = "plugins/kaisched_plugins"
UNIT: Final = "tests/unit/framework"


class Part(NamedTuple):
    """Some files, and the tests that should notice a change of them."""

    files: tuple[str, ...]
    tests: tuple[str, ...]
    must_die: bool = False


PARTS: Final[dict[str, Part]] = {
    "fence": Part(
        (f"{HOST}/cluster/kubernetes/leader_election.py",),
        ("tests/unit/cluster/kubernetes/test_leases.py", "tests/on_kubernetes/test_leadership.py"),
        must_die=True,
    ),
    "ledger": Part(
        (f"{HOST}/framework/session/ledger.py",),
        (UNIT, "tests/laws/test_statement_laws.py", "tests/laws/test_cycle_laws.py"),
        must_die=True,
    ),
    "limits": Part(
        (f"{HOST}/framework/session/limits.py",),
        (
            "tests/unit/actions/test_disruption_budgets.py",
            "tests/unit/actions/test_timelimit.py",
            "tests/unit/actions/test_stop_policy.py",
            "tests/unit/actions/test_delay.py",
            "tests/laws/test_eviction_laws.py",
        ),
        must_die=True,
    ),
    "quotas": Part(
        (f"{POLICY}/proportion/reclaim.py",),
        (f"{POLICY}/proportion/tests",),
        must_die=True,
    ),
    "statement": Part(
        (f"{HOST}/framework/session/statement.py",),
        (UNIT, "tests/laws/test_statement_laws.py"),
    ),
    "division": Part(
        (f"{HOST}/core/fairshare.py", f"{POLICY}/proportion/division.py"),
        ("tests/unit/core", "tests/laws/test_division_laws.py", f"{POLICY}/proportion/tests"),
    ),
    "gates": Part(
        (f"{HOST}/actions/order/gates.py", f"{HOST}/actions/order/tries.py"),
        (
            "tests/unit/actions/test_ordered.py",
            "tests/laws/test_order_laws.py",
            "tests/laws/test_try_limit_laws.py",
            f"{POLICY}/proportion/tests/test_proportion_gate.py",
        ),
    ),
}

_LEDGER: Final = f"{HOST}/framework/session/ledger.py"
_RECLAIM: Final = f"{POLICY}/proportion/reclaim.py"
ARGUED: Final[dict[tuple[str, str], str]] = {
    (_LEDGER, "if count == 1 or (count and self._are_of_one_podset(tasks)):: or -> and"): (
        "the ways of counting give the same sums"
    ),
    (_LEDGER, "return bool(np.count_nonzero(podsets == podsets[0]) == len(podsets)): 0 -> 1"): (
        "all are equal to the first or to the second, or not all are equal"
    ),
    (_LEDGER, "queue = int(self._queue_of_job[job]) if job >= 0 else -1: - -> "): (
        "no statement moves a pod without a job"
    ),
    (
        _LEDGER,
        "return roll_up(leaf_amounts, tree) if len(tree.levels) > 1 else leaf_amounts: > -> >=",
    ): "of one level the sums are the leaves' own",
    (_RECLAIM, "above, begin, end = -1, 0, len(tree): 1 -> 2"): (
        "rows begin at 0: a search for the row after -2 finds the same place"
    ),
    (_RECLAIM, "if skipped < len(job.path):: < -> <="): "no queue is left of a path to cover at",
    (_RECLAIM, "amounts[at] > 0 and has[at] - amounts[at] < covered[at]: > -> >="): (
        "a queue has what is covered: units that would take of it are refused"
    ),
    (
        _RECLAIM,
        (
            "sets = [0] * len(units) if units.alternative is None else"
            " units.alternative.tolist(): 0 -> 1"
        ),
    ): "the one alternative is the same one, whatever its number",
}
"""Survivors that mean nothing, by file and change (``before -> after``, with its line's text)."""


class Mutant(NamedTuple):
    """A change of a file of a part."""

    part: str
    file: str
    mutation: Mutation

    def __str__(self) -> str:
        """Return where it is, and what it changes."""
        change = f"{self.mutation.before!r} -> {self.mutation.after!r}"
        return f"{self.file}:{self.mutation.line} {change}"


class Copy:
    """A copy of the tree, in which tests are run."""

    def __init__(self, folder: Path) -> None:
        """Copy what git knows, as it is now."""
        self._folder, self._age_s = folder, time.time()
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        above = (folder, folder / "plugins", folder / "plugins" / "apiserver" / "src")
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, above)),
            "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "examples"),
        }

    def run(self, tests: tuple[str, ...], timeout_s: float | None = None) -> bool:
        """Tell whether some tests pass, within a time."""
        words = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--no-header"]
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", *words, *tests],
                cwd=self._folder,
                env=self._environment,
                capture_output=True,
                check=False,
                timeout=timeout_s,
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def write(self, file: str, source: str) -> None:
        """Replace a file; compiled code is as old as its file, so each gets a time of its own."""
        self._age_s += 10.0
        (self._folder / file).write_text(source, encoding="utf-8")
        os.utime(self._folder / file, (self._age_s, self._age_s))


def main(arguments: list[str] | None = None) -> int:
    """Run and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=300, help="how many mutants (300)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (0)")
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all unless given")
    given = parser.parse_args(arguments)
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; here are {', '.join(PARTS)}")
    chosen = _sample(given.parts or list(PARTS), given.sample, given.seed)
    with tempfile.TemporaryDirectory() as folder:
        return _judge(Copy(Path(folder)), chosen)


def _sample(parts: list[str], size: int, seed: int) -> list[Mutant]:
    """Return mutants, as many of each part as of any other, as far as there are so many."""
    chance = random.Random(seed)
    every = {
        part: [
            Mutant(part, file, each)
            for file in PARTS[part].files
            for each in mutations_of((ROOT / file).read_text(encoding="utf-8"))
        ]
        for part in parts
    }
    for mutants in every.values():
        chance.shuffle(mutants)
    chosen: list[Mutant] = []
    while len(chosen) < size and any(every.values()):
        chosen += [mutants.pop() for mutants in every.values() if mutants]
    return sorted(chosen[:size], key=lambda it: (parts.index(it.part), it.file, it.mutation))


def _judge(copy: Copy, chosen: list[Mutant]) -> int:
    limit_s: dict[str, float] = {}
    survivors: list[Mutant] = []
    for mutant in chosen:
        tests = PARTS[mutant.part].tests
        if mutant.part not in limit_s:
            begun_s = time.monotonic()
            if not copy.run(tests):
                print(f"{mutant.part}: its tests fail as they are")
                return 2
            limit_s[mutant.part] = 60.0 + 4 * (time.monotonic() - begun_s)
        source = (ROOT / mutant.file).read_text(encoding="utf-8")
        copy.write(mutant.file, mutant.mutation.applied_to(source))
        has_survived = copy.run(tests, limit_s[mutant.part])
        copy.write(mutant.file, source)
        if has_survived:
            survivors.append(mutant)
        print("survived" if has_survived else "killed", mutant, flush=True)
    left = _told(chosen, survivors)
    return 1 if left else 0


def _told(chosen: list[Mutant], survivors: list[Mutant]) -> list[Mutant]:
    """Print the number of survivors of each part; return those that have to be killed."""
    left = []
    for part in dict.fromkeys(it.part for it in chosen):
        mine = [it for it in survivors if it.part == part]
        open_ = [it for it in mine if _key(it) not in ARGUED]
        total = sum(it.part == part for it in chosen)
        argued = f", {len(mine) - len(open_)} of them argued" if len(open_) < len(mine) else ""
        print(f"{part}: {len(mine)} of {total} mutants survived{argued}")
        left += open_ if PARTS[part].must_die else []
    return left


def _key(mutant: Mutant) -> tuple[str, str]:
    """Return how :data:`ARGUED` names a mutant: also after lines above it have changed."""
    line = (ROOT / mutant.file).read_text(encoding="utf-8").splitlines()[mutant.mutation.line - 1]
    change = f"{mutant.mutation.before} -> {mutant.mutation.after}"
    return mutant.file, f"{line.strip()}: {change}"


if __name__ == "__main__":
    sys.exit(main())
