"""Checks answers of plugins before they are used: shape, type and range.

Each check takes the answer and what it must match: the number of rows, a shape, or the arguments of
the question, the session first.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, get_args

import numpy as np

from kaisched.core.axis import TaskState
from kaisched.core.refusals import FIRST_OF_PLUGINS, PluginRefusal, Refusal, highest_code
from kaisched.framework.report.records import Problem, Reason
from kaisched.framework.session.node_sets import LazyNodeSets, NodeSet
from kaisched.objects.workloads import (
    GROUP_VERSION,
    KIND,
    NOT_OWNERS,
    PLURAL,
    Grouping,
    Workload,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.core.axis import BoolVec
    from kaisched.framework.plugins.combine import Asked

_PENDING: Final = int(TaskState.PENDING)
_TRUE: Final = 1
"""The byte of a flag that is set."""
_ROUNDING: Final = 1 + 1e-12
"""How far above 1 the rounding of a score may bring it."""


def array_fault(answer: object, shape: tuple[int, ...], kinds: str) -> str:
    """Return what keeps an answer from being an array of this shape and these kinds of numbers.

    An empty string if it is one.
    """
    if not isinstance(answer, np.ndarray):
        return f"answered {type(answer).__name__}, not an array of shape {list(shape)}"
    if answer.shape == shape and answer.dtype.kind in kinds:
        return ""
    return f"answered {answer.dtype}{list(answer.shape)}, not '{kinds}'{list(shape)}"


def vector_fault(answer: object, what: str) -> str:
    """Return what keeps an answer from being a vector of rows, or an empty string."""
    is_vector = isinstance(answer, np.ndarray) and answer.ndim == 1 and answer.dtype.kind == "i"
    return "" if is_vector else what


def code_fault(codes: Any, count: int) -> str:
    """Return what is wrong with refusal codes ``(K,)``, or an empty string.

    A number that is no refusal code could become 0 when cut to 16 bits, or have no text.
    """
    if fault := array_fault(codes, (count,), "i"):
        return fault
    if not count or not np.count_nonzero(codes):
        return ""
    least, most, highest = np.minimum.reduce(codes), np.maximum.reduce(codes), highest_code()
    if least < 0 or most > highest or not np.logical_and.reduce(_is_code(highest).take(codes)):
        return "answered a number that is no refusal code"
    return ""


@cache
def _is_code(highest: int) -> BoolVec:
    """Tell for each number up to the highest code whether it is a code."""
    is_code = np.arange(highest + 1) >= FIRST_OF_PLUGINS
    is_code[list(Refusal)] = True
    return is_code


def keys_fault(keys: Any, count: int) -> str:
    """Return what is wrong with key columns ``(K,)``, or an empty string.

    NaN is neither below nor above any number: one NaN makes the whole order undefined.
    """
    if not isinstance(keys, (tuple, list)):
        return f"answered {type(keys).__name__}, not a tuple of key columns"
    shape = (count,)
    for key in keys:
        kind = key.dtype.kind if isinstance(key, np.ndarray) and key.shape == shape else "?"
        if kind not in "iuf":
            return array_fault(key, shape, "iuf")
        # Of a few flags, looking for one among their bytes takes a quarter of the time of any().
        if kind == "f" and _TRUE in np.isnan(key).tobytes():
            return "answered a key that is NaN"
    return ""


def room_fault(room: Any, count: int) -> str:
    """Return what is wrong with numbers of pods ``(K,)``, or an empty string."""
    if fault := array_fault(room, (count,), "i"):
        return fault
    return "answered room for fewer than 0 pods" if count and room.min() < 0 else ""


def score_fault(score: Any, count: int) -> str:
    """Return what is wrong with scores ``(K,)``, or an empty string."""
    if fault := array_fault(score, (count,), "f"):
        return fault
    # NaN compares false with everything.
    if count and not (np.minimum.reduce(score) >= 0.0 and np.maximum.reduce(score) <= _ROUNDING):
        return "answered scores outside [0, 1]"
    return ""


def stale_fault(stale: Any, asked: Asked) -> str:
    """Return what is wrong with (shapes, node rows), or an empty string."""
    del asked
    if not (isinstance(stale, tuple) and len(stale) == 2):  # noqa: PLR2004 - a pair
        return f"answered {type(stale).__name__}, not (shapes, node rows)"
    return vector_fault(stale[0], "answered shapes that are not a vector of shape rows")


def share_fault(share: Any, asked: Asked) -> str:
    """Return what is wrong with fair shares ``(R, Q)``, or an empty string."""
    session = asked[0]
    return array_fault(share, (len(session.axis), len(session.queues)), "i")


def weights_fault(weights: Any, asked: Asked) -> str:
    """Return what is wrong with weights ``(K,)``, or an empty string."""
    if fault := array_fault(weights, asked[-1].shape, "f"):
        return fault
    return "" if np.isfinite(weights).all() else "answered a weight that is no finite number"


def head_start_fault(ahead: Any, asked: Asked) -> str:
    """Return what is wrong with head starts ``(K,)``, or an empty string."""
    _, _, _, group, _, _, wants, surplus = asked
    if fault := array_fault(ahead, wants.shape, "i"):
        return fault
    if np.count_nonzero((ahead < 0) | (ahead > wants)):
        return "answered less than 0 or more than is wanted"
    together = np.bincount(group, ahead)
    return "answered more than the surplus" if np.count_nonzero(together[group] > surplus) else ""


def order_fault(order: Any, asked: Asked) -> str:
    """Return what is wrong with (rows of units, code), or an empty string."""
    count = len(asked[-1])
    if not (isinstance(order, tuple) and len(order) == 2):  # noqa: PLR2004 - a pair
        return f"answered {type(order).__name__}, not (rows, code)"
    rows, code = order
    if fault := vector_fault(rows, "answered rows that are not a vector of rows"):
        return fault
    if rows.size and (rows.min() < 0 or rows.max() >= count or np.bincount(rows).max() > 1):
        return "answered rows that are not distinct units"
    return code_fault(np.array([code], np.int64), 1)


def size_fault(size: Any, asked: Asked) -> str:
    """Return what is wrong with batch sizes ``(K,)``, or an empty string."""
    session, job = asked
    if fault := array_fault(size, job.shape, "i"):
        return fault
    if size.size and (
        np.count_nonzero(size < 0) or np.count_nonzero(size > session.pending_of(job))
    ):
        return "answered a batch of fewer than 0 or more than the pending pods"
    return ""


def batch_fault(tasks: Any, asked: Asked) -> str:
    """Return what is wrong with the task rows of a batch, or an empty string."""
    no_rows = f"answered {type(tasks).__name__}, not a vector of task rows"
    if fault := vector_fault(tasks, no_rows):
        return fault
    session, job = asked
    rows = tasks.tolist()
    state = session.ledger.state if session.has_moved else session.tasks.state
    own = {task for task in session.jobs.tasks[job] if state[task] == _PENDING}
    if len(set(rows)) != len(rows) or not own.issuperset(rows):
        return "answered tasks that are not distinct pending pods of the job"
    return ""


def domains_fault(domains: Any, asked: Asked) -> str:
    """Return what is wrong with numbers of domains ``(N,)``, or an empty string."""
    session, _ = asked
    return array_fault(domains, (len(session.nodes),), "i")


def flags_fault(flags: Any, count: int) -> str:
    """Return what is wrong with flags ``(K,)``, or an empty string."""
    return array_fault(flags, (count,), "b")


def reason_fault(said: Any, against: Asked) -> str:
    """Return what is wrong with the reason of a refusal, or an empty string."""
    del against
    return "" if isinstance(said, Reason) else f"answered {type(said).__name__}, no kaisched.Reason"


def sentence_fault(said: Any, against: Asked) -> str:
    """Return what is wrong with a function that makes a sentence, or an empty string."""
    del against
    return "" if callable(said) else f"answered {type(said).__name__}, no function"


def text_fault(said: Any, against: Asked) -> str:
    """Return what is wrong with a sentence, or an empty string."""
    del against
    return "" if isinstance(said, str) else f"answered {type(said).__name__}, no text"


def problems_fault(said: Any, against: Asked) -> str:
    """Return what is wrong with problems by row, or an empty string."""
    del against
    is_told = isinstance(said, dict) and all(isinstance(it, Problem) for it in said.values())
    return "" if is_told else "answered no dictionary of kaisched.Problem by row"


def figures_fault(said: Any, against: Asked) -> str:
    """Return what is wrong with figures ``(Q,)`` by name, or an empty string."""
    count = len(against[0].queues)
    if not isinstance(said, dict) or not all(isinstance(name, str) for name in said):
        return "answered no dictionary of figures by name"
    return next(filter(None, (array_fault(each, (count,), "f") for each in said.values())), "")


def sets_fault(said: Any, asked: Asked) -> str:
    """Return what is wrong with sets of nodes ``(N,)``, or an empty string."""
    if isinstance(said, (Refusal, PluginRefusal, LazyNodeSets)):
        return ""  # each set is checked when it is made
    if not isinstance(said, (tuple, list)) or not all(isinstance(it, NodeSet) for it in said):
        return f"answered {type(said).__name__}, not a sequence of kaisched.NodeSet or a refusal"
    count = len(asked[0].nodes)
    columns = [(each.nodes, "b") for each in said]
    columns += [(each.order, "i") for each in said if each.order is not None]
    return next(filter(None, (array_fault(it, (count,), of) for it, of in columns)), "")


def rows_fault(rows: list[object], asked: object) -> str:
    """Return what is wrong with a plugin's rows, or an empty string."""
    del asked
    return next((fault for row in rows for fault in row_faults(row)), "")


def row_faults(row: object) -> Iterator[str]:
    """Yield what is wrong with a row."""
    if not isinstance(row, Workload):
        yield f"{row!r} is no kaisched.Workload"
        return
    for version in (row.api_version, *row.other_versions):
        if not GROUP_VERSION.fullmatch(version):
            yield f"{row.kind}: api_version {version!r} is none; write it like example.com/v1"
        elif version.rpartition("/")[0] != row.api_group:
            yield f"{row.kind}: {version!r} is not of API group {row.api_group!r}"
    if row.api_group in NOT_OWNERS:
        yield f"{row.kind}: kinds of API group {row.api_group!r} are not grouped by"
    if not PLURAL.fullmatch(row.plural):
        yield f"{row.kind}: plural {row.plural!r} is none; write it like widgets"
    if not KIND.fullmatch(row.kind):
        yield f"kind {row.kind!r} is none; write it like Widget"
    if row.pods not in get_args(Grouping):
        yield f"{row.kind}: pods {row.pods!r}; write one of {', '.join(get_args(Grouping))}"
