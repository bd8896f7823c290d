"""``kaisched explain``: what a setting means, in a sentence and a table."""

from __future__ import annotations

import math
from typing import Annotated, Any, Final

import typer

from kaisched.cli import options
from kaisched.cli.printing import Column, columns, print_document, print_table, say
from kaisched.engine import history_cost as cost
from kaisched.engine.history_cost import Pool, Use
from kaisched.errors import ConfigError
from kaisched.units import UnitError, format_duration, parse_duration

command = typer.Typer()


@command.callback()
def _group() -> None:
    """Say what a setting means."""


@command.command("fairness")
def fairness(
    *,
    weights: Annotated[str, typer.Option(help="Over-quota weights of all queues: A=3,B=1.")],
    usage: Annotated[
        str,
        typer.Option(
            help="What queues used until now: A=8x12h for 8 GPUs for 12 hours, B=0.25 for a "
            "quarter of the cluster all the time."
        ),
    ],
    k: Annotated[float, typer.Option(help="How strongly usage counts: kValue.")] = 1.0,
    gpus: Annotated[int, typer.Option(min=1, max=10**9, help="GPUs of the cluster.")] = 16,
    half_life: Annotated[str, typer.Option(help="halfLifePeriod; 0s for none.")] = "0s",
    window: Annotated[str, typer.Option(help="windowSize.")] = "1w",
    output: options.Output = "table",
) -> None:
    """Say what past usage costs a queue, when it recovers, and when it loses its surplus.

    For queues of one level and priority without quotas that all want everything.
    """
    pool, used = read(weights, usage, (k, gpus, half_life, window))
    if output != "table":
        print_document(document(pool, used), output)
        return
    for queue in used:
        say(sentence(pool, used, queue))
    say(order_sentence(pool, used), "")
    print_tables(pool, used)


_MAX_K: Final = 1e6
_MINUTE: Final = 60
_USAGE_FIX: Final = "write A=8x12h for 8 GPUs for 12 hours, or A=0.25 for a part of the cluster"


# -- reading -------------------------------------------------------------------------------------


def read(
    weights: str, usage: str, options: tuple[float, int, str, str]
) -> tuple[Pool, dict[str, Use]]:
    """Read the options of the command.

    Args:
        weights: such as ``A=3,B=1``.
        usage: such as ``A=8x12h,B=0.25``.
        options: k, GPUs, half-life, window.

    Raises:
        ConfigError: an option is out of range, malformed or names no queue.

    """
    k, gpus, half_life, window = options
    if not (math.isfinite(k) and 0 <= k <= _MAX_K):
        raise ConfigError("out of range", path="--k", value=k, fix="write a number from 0 to 1e6")
    pool = Pool(
        gpus,
        {name: _weight(name, text) for name, text in _pairs("--weights", weights, "A=3,B=1")},
        k,
        _duration("--half-life", half_life),
        _duration("--window", window),
    )
    if not pool.window_s:
        raise ConfigError(
            "must be longer than 0s", path="--window", value=window, fix='write such as "1w"'
        )
    used = {}
    for name, text in _pairs("--usage", usage, "A=8x12h"):
        if name not in pool.weights:
            fix = f"name one of {', '.join(pool.weights)}, or add it to --weights"
            raise ConfigError("no such queue", path="--usage", value=name, fix=fix)
        used[name] = _use(pool, text)
    together = sum(cost.usage_after(pool, use, 0.0) for use in used.values())
    if together > 1 + 1e-9:
        fix = f"the cluster has {gpus} GPUs; see --gpus"
        raise ConfigError("more than the cluster had", path="--usage", value=usage, fix=fix)
    return pool, used


def _pairs(option: str, text: str, example: str) -> list[tuple[str, str]]:
    pairs: dict[str, str] = {}
    for part in text.split(","):
        name, is_pair, value = (word.strip() for word in part.partition("="))
        if not name or not is_pair or not value:
            raise ConfigError(
                "not NAME=VALUE", path=option, value=part, fix=f"write such as {example}"
            )
        if name in pairs:
            raise ConfigError("given twice", path=option, value=name, fix="keep one of the two")
        pairs[name] = value
    return list(pairs.items())


def _number(text: str) -> float:
    """Parse a number; return NaN if the text is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _weight(name: str, text: str) -> float:
    weight = _number(text)
    if not (math.isfinite(weight) and weight > 0):
        fix = "write a number above 0; a queue without weight gets no surplus"
        raise ConfigError("no weight", path=f"--weights {name}", value=text, fix=fix)
    return weight


def _duration(option: str, text: str) -> float:
    try:
        return parse_duration(text)
    except UnitError as error:
        raise ConfigError(str(error), path=option, fix=error.fix) from None


def _use(pool: Pool, text: str) -> Use:
    gpus, is_timed, time = text.partition("x")
    amount = _number(gpus)
    if not is_timed:
        amount, time_s = amount * pool.gpus, pool.window_s
    else:
        time_s = _duration("--usage", time)
    if not (math.isfinite(amount) and amount >= 0):
        raise ConfigError("no usage", path="--usage", value=text, fix=_USAGE_FIX)
    if amount > pool.gpus:
        fix = f"the cluster has {pool.gpus} GPUs; see --gpus"
        raise ConfigError("more than the cluster had", path="--usage", value=text, fix=fix)
    return Use(amount, time_s)


# -- printing ------------------------------------------------------------------------------------


def _gpus(amount: float) -> str:
    small = f"{amount:.1f}".removesuffix(".0")
    return f"{amount:.2f}" if amount and small == "0" else small


def _time(seconds: float) -> str:
    return format_duration(round(seconds / _MINUTE) * _MINUTE) if seconds >= _MINUTE else "1m"


def sentence(pool: Pool, used: dict[str, Use], queue: str) -> str:
    """Say in one sentence what its usage costs a queue."""
    use, plain = used[queue], cost.plain_shares(pool)[queue]
    share = cost.shares_after(pool, used, 0.0)[queue]
    usage = cost.usage_after(pool, use, 0.0)
    weights = _gpus(sum(pool.weights.values()))
    back_s = cost.back_after_s(pool, used, queue)
    edge = cost.no_surplus_from(pool, queue)
    change = "costs it" if share <= plain else "leaves it a gain of"
    lost = abs(plain - share)
    whole = cost.whole_shares(pool, used)[queue]
    back = (
        f"is back within 1 % of the cluster after {_time(back_s)}"
        if back_s
        else "stays within 1 % of the cluster"
    )
    end = f"is nothing from a usage of {edge:.3f} on" if edge is not None else "is never nothing"
    return (
        f"{queue}: using {_gpus(use.gpus)} of {pool.gpus} GPUs for {_time(use.time_s)} is a usage"
        f" of {usage:.3f}; with a weight of {_gpus(pool.weights[queue])} of {weights} and"
        f" k = {pool.k:g} that {change} {_gpus(lost)} of {_gpus(plain)} GPUs of surplus"
        f" ({100 * lost / plain:.0f} %), which makes a share of {whole} in whole GPUs; its share"
        f" {back}, and {end}."
    )


def order_sentence(pool: Pool, used: dict[str, Use]) -> str:
    """Say which queue starts a job next that is larger than its share: shares do not decide it."""
    if not pool.k:
        return "With k = 0 past usage decides nothing."
    order = ", then ".join(cost.order(pool, used))
    return f"Jobs that are larger than the share of their queue start in this order: {order}."


def print_tables(pool: Pool, used: dict[str, Use]) -> None:
    """Print one row for each queue, and the shares over time."""
    facts = document(pool, used)
    print_table(
        "Queues",
        columns(
            "QUEUE", "#WEIGHT", "#USAGE", "#BY WEIGHT", "#NOW", "#WHOLE", "#NONE FROM", "#SLICE"
        ),
        (
            (
                row["queue"],
                _gpus(row["weight"]),
                f"{row['usage']:.3f}",
                _gpus(row["gpusByWeight"]),
                _gpus(row["gpusNow"]),
                str(row["wholeGpusNow"]),
                "never" if row["noSurplusFrom"] is None else f"{row['noSurplusFrom']:.3f}",
                "none" if row["shortestTimeSlice"] is None else row["shortestTimeSlice"],
            )
            for row in facts["queues"]
        ),
    )
    print_table(
        "GPUs of surplus, if nothing more is used",
        (Column("AFTER"), *(Column(queue, is_number=True) for queue in pool.weights)),
        (
            (row["after"], *(_gpus(row["gpus"][queue]) for queue in pool.weights))
            for row in facts["later"]
        ),
    )


def document(pool: Pool, used: dict[str, Use]) -> dict[str, Any]:
    """Return the whole explanation as a JSON-like mapping."""
    plain, now = cost.plain_shares(pool), cost.shares_after(pool, used, 0.0)
    whole = cost.whole_shares(pool, used)
    queues = []
    for queue, weight in pool.weights.items():
        slice_s = cost.shortest_slice_s(pool, queue)
        queues.append(
            {
                "queue": queue,
                "weight": weight,
                "usage": cost.usage_after(pool, used.get(queue, Use(0.0, 0.0)), 0.0),
                "gpusByWeight": plain[queue],
                "gpusNow": now[queue],
                "wholeGpusNow": whole[queue],
                "noSurplusFrom": cost.no_surplus_from(pool, queue),
                "back": format_duration(round(cost.back_after_s(pool, used, queue))),
                "shortestTimeSlice": None if slice_s is None else _time(slice_s),
            }
        )
    return {
        "schemaVersion": "kaisched.io/fairness/v1",
        "queues": queues,
        "order": cost.order(pool, used),
        "later": [
            {"after": format_duration(round(at_s)), "gpus": cost.shares_after(pool, used, at_s)}
            for at_s in _instants(pool)
        ],
    }


def _instants(pool: Pool) -> list[float]:
    """Return the times to show: half-lives, or quarters of the window."""
    if pool.half_life_s:
        steps = [pool.half_life_s * half_lives for half_lives in (0, 1, 2, 3, 4, 6, 8)]
        return [at_s for at_s in steps if at_s <= pool.window_s]
    return [pool.window_s * quarter / 4 for quarter in range(5)]
