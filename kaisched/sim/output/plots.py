"""The main pictures of a run as PNG and SVG files, drawn by matplotlib (the extra ``plots``).

For slides and papers; the report draws its own. Matplotlib is imported here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from kaisched.errors import ConfigError
from kaisched.sim.output.files import Result
from kaisched.sim.output.shown import Shown, shown_of
from kaisched.sim.output.svg.scale import time_unit

COLOURS: Final = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#b5549a",
    "#b8860b",
    "#3b8fc4",
    "#5d4b8c",
    "#6b7280",
)
"""Those of the report: told apart by colour-blind readers too."""
_SIZE: Final = (9.0, 4.2)
_DPI: Final = 150
STEADY: Final[dict[Any, Any]] = {
    # Without these, names inside an SVG file and its date differ from run to run.
    "svg.hashsalt": "kaisched",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#d9dee3",
    "font.size": 10.0,
}


def write_plots(result: Result, folder: Path) -> list[Path]:
    """Write each picture twice; the same run gives the same bytes.

    Raises:
        ConfigError: matplotlib is not installed, or the folder cannot be written.

    """
    plt = pyplot()
    written: list[Path] = []
    shown = shown_of(result)
    with plt.rc_context(STEADY):
        for name, draw in _PICTURES.items():
            figure, axes = plt.subplots(figsize=_SIZE, layout="constrained")
            draw(axes, result, shown)
            seconds, unit = time_unit(result.outcome.until_s)
            axes.set_xlim(0.0, result.outcome.until_s / seconds)
            axes.set_ylim(bottom=0.0)
            axes.set_xlabel(f"time, {unit}")
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
            written += save(figure, folder, name)
            plt.close(figure)
    return written


def pyplot() -> Any:
    """Import matplotlib, to draw files only.

    Raises:
        ConfigError: it is not installed.

    """
    try:
        import matplotlib as mpl  # noqa: PLC0415 - half a second, and an extra

        mpl.use("Agg")
        from matplotlib import pyplot as plt  # noqa: PLC0415
    except ImportError:
        fix = "pip install 'kaisched[plots]'; the report needs no extra"
        raise ConfigError("matplotlib is not installed", path="--plots", fix=fix) from None
    return plt


def save(figure: Any, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG; the same figure gives the same bytes.

    Raises:
        ConfigError: the folder cannot be written.

    """
    written = []
    for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
        path = folder / f"{name}.{suffix}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=_DPI, metadata=metadata)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(
                f"cannot be written: {reason}", file=str(path), path="--out"
            ) from None
        written.append(path)
    return written


def _allocation(axes: Any, result: Result, shown: Shown) -> None:
    line = result.timeline
    hours = _edges(result)
    below = np.zeros(len(line.end_s))
    for row, (name, values) in enumerate(zip(shown.names, shown.sums(line.allocated), strict=True)):
        above = below + values
        axes.stairs(above, hours, baseline=below, fill=True, color=COLOURS[row], label=name)
        below = above
    axes.stairs(line.capacity, hours, baseline=None, color="#1b1f24", ls="--", label="there are")
    axes.set_title(f"{result.outcome.name}: GPUs held")
    axes.set_ylabel("GPUs")


def _against_shares(axes: Any, result: Result, shown: Shown) -> None:
    line = result.timeline
    hours = _edges(result)
    columns = zip(shown.names, shown.sums(line.allocated), shown.sums(line.fair_share), strict=True)
    for row, (name, held, fair) in enumerate(columns):
        axes.stairs(held, hours, baseline=None, color=COLOURS[row], lw=1.6, label=name)
        axes.stairs(fair, hours, baseline=None, color=COLOURS[row], lw=1.0, ls="--")
    axes.plot([], [], color="#6b7280", ls="--", label="fair share")
    axes.set_title(f"{result.outcome.name}: GPUs held and fair share")
    axes.set_ylabel("GPUs")


def _cumulative(axes: Any, result: Result, shown: Shown) -> None:
    line = result.timeline
    hours = _edges(result)
    columns = zip(
        shown.names, shown.sums(line.gpu_hours), shown.sums(line.entitled_hours), strict=True
    )
    for row, (name, used, due) in enumerate(columns):
        axes.plot(hours, [0.0, *used], color=COLOURS[row], lw=1.8, label=name)
        axes.plot(hours, [0.0, *due], color=COLOURS[row], lw=1.2, ls=":")
    axes.plot([], [], color="#6b7280", ls=":", label="entitled")
    axes.set_title(f"{result.outcome.name}: GPU-hours against entitlement")
    axes.set_ylabel("GPU-hours")


def _edges(result: Result) -> list[float]:
    line = result.timeline
    seconds, _ = time_unit(result.outcome.until_s)
    return [0.0, *(line.end_s / seconds).tolist()]


_PICTURES: Final[dict[str, Callable[[Any, Result, Shown], None]]] = {
    "allocation": _allocation,
    "fair-share": _against_shares,
    "gpu-hours": _cumulative,
}
