"""Look for new examples that break a law: ``python -m tests.fuzz --minutes 10``.

Goes round all laws, each for an equal part of the time. An example that breaks one is made small
and printed as a line to paste above the law, so that it is looked at in every run from then on.
Exit code 0 when none was found, 1 when some were, 2 when there was nothing to look at.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile

import pytest
from hypothesis.configuration import set_hypothesis_home_dir

from tests.fuzz.rounds import Rounds


def main(arguments: list[str] | None = None) -> int:
    """Run and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=minutes, default=10.0, help="how long to look (10)")
    parser.add_argument("--seed", type=int, help="what to begin with; another one each time")
    parser.add_argument("-k", default="", metavar="LAW", help="only laws like this, as for pytest")
    parser.add_argument("paths", nargs="*", help="files or folders of laws; all unless given")
    given = parser.parse_args(arguments)
    begin = secrets.randbits(32) if given.seed is None else given.seed
    rounds = Rounds(given.minutes * 60, begin)
    options = ["-qq", "--no-header", "--no-summary", "-p", "no:cacheprovider", "-p", "no:xdist"]
    # Hypothesis is there before pytest, which need not rewrite it.
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    with tempfile.TemporaryDirectory() as folder:
        set_hypothesis_home_dir(folder)
        code = pytest.main([*options, "-k", given.k, *given.paths], plugins=[rounds])
    if not rounds.laws:
        print("no law to look at" + (f": none is like {given.k!r}" if given.k else ""))
        return 2
    return int(code)


def minutes(text: str) -> float:
    """Read a number of minutes."""
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no time to look; say a number above 0")
    return number


if __name__ == "__main__":
    sys.exit(main())
