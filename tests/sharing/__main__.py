"""Shared GPUs under churn: ``python -m tests.sharing --minutes 10 --seed 7``."""

import argparse
import secrets
import sys
import tempfile
from pathlib import Path

from tests.chaos.stage import stage
from tests.sharing.run import Run


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.sharing", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="of churn and faults")
    parser.add_argument("--seed", type=int, help="a number; by chance unless given")
    parser.add_argument("--logs", type=Path, help="folder for the logs of the schedulers")
    asked = parser.parse_args()
    seed = secrets.randbelow(10**6) if asked.seed is None else asked.seed
    print(f"sharing: seed {seed}, {asked.minutes:g} minutes", flush=True)
    with tempfile.TemporaryDirectory(prefix="sharing-") as kept, stage() as here:
        folder = asked.logs or Path(kept)
        folder.mkdir(parents=True, exist_ok=True)
        run = Run(here, folder, seed)
        run.start()
        try:
            run.play(asked.minutes * 60)
            left = run.clear()
        finally:
            run.stop()
        told = ", ".join(f"{what} {number}" for what, number in sorted(run.done.items()))
        print(
            f"{run.ledger.begun} pods saw GPUs; a GPU was used {float(run.ledger.most):.4f} times"
            f" at most; {told}"
        )
        wrong = [*run.ledger.breaches, *(f"left in the end: {it}" for it in left)]
        wrong += [
            f"{name}, {sort}, {number} times: {first}"
            for (name, sort), (number, first, _) in run.replicas.bad.items()
            if sort != "report_refused"  # statuses of queues have a chaos test of their own
        ]
        for line in wrong:
            print(f"BREACH {line}")
        return 1 if wrong or not run.ledger.begun else 0


if __name__ == "__main__":
    sys.exit(main())
