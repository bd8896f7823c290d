"""The chaos test: ``python -m tests.chaos --minutes 20 --seed 7``. It prints its seed first."""

import argparse
import secrets
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.chaos.faults import SLOW_EVICTIONS
from tests.chaos.run import LARGE, SMALL, Run
from tests.chaos.stage import stage
from tests.chaos.summary import told


def options():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="of churn and faults")
    parser.add_argument("--seed", type=int, help="a number; by chance unless given")
    parser.add_argument(
        "--short", action="store_true", help="fewer nodes, and the fixed list of faults"
    )
    parser.add_argument(
        "--slow-evictions", action="store_true", help="answer each after 0.2 to 3 s all the time"
    )
    parser.add_argument(
        "--hostile", action="store_true", help="with a tenant who means no good among the users"
    )
    parser.add_argument("--logs", type=Path, help="folder for the logs of the replicas")
    return parser.parse_args()


def say(text):
    print(text, flush=True)


def main():
    asked = options()
    seed = secrets.randbelow(10**6) if asked.seed is None else asked.seed
    say(f"chaos: seed {seed}, {asked.minutes:g} minutes, to repeat: SEED={seed}")
    with ExitStack() as kept_up:
        kept = kept_up.enter_context(tempfile.TemporaryDirectory(prefix="chaos-"))
        here = kept_up.enter_context(stage())
        for fault in SLOW_EVICTIONS if asked.slow_evictions else ():
            kept_up.enter_context(here.fault(**fault))
        folder = asked.logs or Path(kept)
        folder.mkdir(parents=True, exist_ok=True)
        size = SMALL if asked.short else LARGE
        run = Run(here, folder, seed, size, is_fixed=asked.short, is_hostile=asked.hostile, say=say)
        try:
            run.start()
            run.play(asked.minutes * 60)
            time.sleep(run.sorter.lag_s + 1)
            run.check()
        finally:
            run.stop()
        for line in told(run):
            say(line)
        for breach in run.checker.breaches:
            say(run.described(breach))
        return 1 if run.checker.breaches or run.replicas.bad else 0


if __name__ == "__main__":
    sys.exit(main())
