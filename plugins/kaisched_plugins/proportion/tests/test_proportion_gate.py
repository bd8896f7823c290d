"""Proportion: limits, quotas for non-preemptible jobs and arguments."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from kaisched import CPU, GPU, UNLIMITED
from kaisched.testing import check_plugin
from kaisched_plugins.proportion import Proportion, refusals

PLUGIN = Proportion(Proportion.Arguments())
OVER_LIMIT = int(refusals.OVER_LIMIT)
OVER_QUOTA = int(refusals.OVER_QUOTA)
TRAIN, BUILD = 0, 1


class Gate(SimpleNamespace):
    """Two queues, leaf 1 under root 0, in whole GPUs; CPU is unlimited."""

    def __init__(self, limit=(UNLIMITED, UNLIMITED), deserved=(UNLIMITED, UNLIMITED)):
        columns = []
        for bounds in (limit, deserved):
            column = np.full((4, 2), UNLIMITED, np.int64)
            column[GPU] = [min(bound * 1000, UNLIMITED) for bound in bounds]
            columns.append(column)
        super().__init__(
            queues=SimpleNamespace(limit=columns[0], deserved=columns[1]),
            jobs=SimpleNamespace(is_preemptible=np.array([True, False])),
            hints={},
            state={},
            overdrawn=None,
        )

    def ask(self, gpus, job=TRAIN, held=(0, 0), held_non_preemptible=(0, 0), cpu=0):
        """Return the codes of the leaf and of the root."""
        session: Any = self
        self.state["proportion"] = PLUGIN.session_open(session)
        queue = np.array([1, 0])
        asked = np.zeros((4, 2), np.int64)
        asked[GPU], asked[CPU] = gpus * 1000, cpu
        amounts = []
        for each in (held, held_non_preemptible):
            amount = np.zeros((4, 2), np.int64)
            amount[GPU] = np.array(each)[queue] * 1000
            amounts.append(amount)
        codes = PLUGIN.queue_gate(
            session, "allocate", queue, np.full(2, job), asked, amounts[0], amounts[1]
        )
        return None if codes is None else codes.tolist()


def test_without_limits_and_quotas_there_is_nothing_to_say():
    assert Gate().ask(99) is None
    assert Gate().ask(99, job=BUILD) is None


@pytest.mark.parametrize(
    ("limit", "held", "codes"),
    [
        pytest.param((UNLIMITED, 4), (0, 2), None, id="exactly up to the limit"),
        pytest.param((UNLIMITED, 4), (3, 3), [OVER_LIMIT, 0], id="over the leaf's"),
        pytest.param((4, UNLIMITED), (3, 0), [0, OVER_LIMIT], id="over the root's"),
        pytest.param((4, 4), (4, 4), [OVER_LIMIT, OVER_LIMIT], id="over both"),
    ],
)
def test_the_limit_holds_at_every_level(limit, held, codes):
    assert Gate(limit=limit).ask(2, held=held) == codes


def test_a_resource_not_asked_for_is_not_looked_at():
    """Else a queue over its GPU limit could not even run CPU jobs."""
    assert Gate(limit=(1, 1)).ask(0, cpu=500, held=(5, 5)) is None


def test_non_preemptible_work_stays_within_the_quota_at_every_level():
    gate = Gate(deserved=(8, 4))
    assert gate.ask(2, job=BUILD, held=(9, 9), held_non_preemptible=(2, 2)) is None
    assert gate.ask(2, job=BUILD, held_non_preemptible=(3, 3)) == [OVER_QUOTA, 0]
    assert gate.ask(2, job=BUILD, held_non_preemptible=(7, 0)) == [0, OVER_QUOTA]


def test_preemptible_work_may_go_over_the_quota():
    assert Gate(deserved=(1, 1)).ask(2, job=TRAIN, held_non_preemptible=(1, 1)) is None


def test_the_limit_is_named_before_the_quota():
    gate = Gate(limit=(9, 1), deserved=(1, 1))
    assert gate.ask(2, job=BUILD) == [OVER_LIMIT, OVER_QUOTA]


# -- arguments -----------------------------------------------------------------------------------


def test_the_defaults_change_nothing():
    arguments = Proportion.Arguments()
    assert arguments.reclaimer_utilization_multiplier == 1.0
    assert arguments.k_value == 1.0


def test_arguments_may_be_text_as_in_kai():
    arguments = Proportion.Arguments.model_validate(
        {"reclaimerUtilizationMultiplier": "1.5", "kValue": "0"}
    )
    assert (arguments.reclaimer_utilization_multiplier, arguments.k_value) == (1.5, 0.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"reclaimerUtilizationMultiplier": 0.9},
        {"reclaimerUtilizationMultiplier": "nan"},
        {"reclaimerUtilizationMultiplier": "inf"},
        {"kValue": -1},
        {"kvalue": 1},
    ],
)
def test_arguments_out_of_range_and_misspelt_ones_are_refused(wrong):
    with pytest.raises(ValidationError):
        Proportion.Arguments.model_validate(wrong)


def test_it_keeps_the_contract_of_plugins():
    check_plugin(Proportion)
