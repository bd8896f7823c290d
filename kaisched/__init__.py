"""kaisched: a fair Kubernetes scheduler for shared GPU clusters.

The names below are what plugins and other users may rely on; everything else may change. They are
loaded on first use, so that ``import kaisched`` (and the command line's ``--help``) costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Arguments": "kaisched.framework.plugins.plugin",
    "Plugin": "kaisched.framework.plugins.plugin",
    "hookimpl": "kaisched.framework.plugins.specification",
    "Session": "kaisched.framework.session",
    "Claim": "kaisched.framework.claims",
    "Units": "kaisched.framework.claims",
    "SubGroup": "kaisched.core.tables",
    "Constraints": "kaisched.core.constraints",
    "NodeStatics": "kaisched.core.constraints",
    "PodTerm": "kaisched.core.constraints",
    "Requirement": "kaisched.core.constraints",
    "Taint": "kaisched.core.constraints",
    "Toleration": "kaisched.core.constraints",
    "Gang": "kaisched.objects.workloads",
    "SubGroupSpec": "kaisched.objects.podgroup",
    "Workload": "kaisched.objects.workloads",
    "PluginRefusal": "kaisched.core.refusals",
    "Refusal": "kaisched.core.refusals",
    "shard_setting": "kaisched.framework.shard_settings",
    "TaskState": "kaisched.core.states",
    "ACTIVE_STATES": "kaisched.core.states",
    "ALLOCATED_STATES": "kaisched.core.states",
    "HOLDING_STATES": "kaisched.core.states",
    "CPU": "kaisched.core.axis",
    "MEMORY": "kaisched.core.axis",
    "GPU": "kaisched.core.axis",
    "PODS": "kaisched.core.axis",
    "PARTS": "kaisched.core.usage",
    "Claims": "kaisched.core.division",
    "jobs_by_age": "kaisched.framework.job_order",
    "ordered_jobs": "kaisched.framework.job_order",
    "ordered_tasks": "kaisched.framework.task_order",
    "Part": "kaisched.framework.parts",
    "parts_of": "kaisched.framework.parts",
    "Amounts": "kaisched.core.axis",
    "BoolVec": "kaisched.core.axis",
    "CodeVec": "kaisched.core.axis",
    "FloatVec": "kaisched.core.axis",
    "IntVec": "kaisched.core.axis",
    "RowVec": "kaisched.core.axis",
    "Usage": "kaisched.core.usage",
    "UNLIMITED": "kaisched.units",
    "parse_duration": "kaisched.units",
    "roll_up": "kaisched.core.tree",
    "fairshare": "kaisched.core",
    "shares": "kaisched.core",
    "worth": "kaisched.core.worth",
    "Change": "kaisched.framework.advice",
    "Kind": "kaisched.framework.advice",
    "Proposal": "kaisched.framework.advice",
    "end_of_work": "kaisched.framework.proposals",
    "larger_bounds": "kaisched.framework.proposals",
    "asked_of": "kaisched.framework.batching",
    "batch_of": "kaisched.framework.batching",
    "main_resource": "kaisched.framework.batching",
    "Moves": "kaisched.framework.invariant_sums",
    "Step": "kaisched.framework.records",
    "Problem": "kaisched.framework.reason",
    "Reason": "kaisched.framework.reason",
    "format_amount": "kaisched.units",
}

__all__ = ["__version__", *sorted(_HOME)]  # noqa: PLE0604 - they are strings

if TYPE_CHECKING:
    from kaisched.core import fairshare as fairshare
    from kaisched.core import shares as shares
    from kaisched.core.axis import CPU as CPU
    from kaisched.core.axis import GPU as GPU
    from kaisched.core.axis import MEMORY as MEMORY
    from kaisched.core.axis import PODS as PODS
    from kaisched.core.axis import Amounts as Amounts
    from kaisched.core.axis import BoolVec as BoolVec
    from kaisched.core.axis import CodeVec as CodeVec
    from kaisched.core.axis import FloatVec as FloatVec
    from kaisched.core.axis import IntVec as IntVec
    from kaisched.core.axis import RowVec as RowVec
    from kaisched.core.constraints import Constraints as Constraints
    from kaisched.core.constraints import NodeStatics as NodeStatics
    from kaisched.core.constraints import PodTerm as PodTerm
    from kaisched.core.constraints import Requirement as Requirement
    from kaisched.core.constraints import Taint as Taint
    from kaisched.core.constraints import Toleration as Toleration
    from kaisched.core.division import Claims as Claims
    from kaisched.core.refusals import PluginRefusal as PluginRefusal
    from kaisched.core.refusals import Refusal as Refusal
    from kaisched.core.states import ACTIVE_STATES as ACTIVE_STATES
    from kaisched.core.states import ALLOCATED_STATES as ALLOCATED_STATES
    from kaisched.core.states import HOLDING_STATES as HOLDING_STATES
    from kaisched.core.states import TaskState as TaskState
    from kaisched.core.tables import SubGroup as SubGroup
    from kaisched.core.tree import roll_up as roll_up
    from kaisched.core.usage import PARTS as PARTS
    from kaisched.core.usage import Usage as Usage
    from kaisched.core.worth import worth as worth
    from kaisched.framework.advice import Change as Change
    from kaisched.framework.advice import Kind as Kind
    from kaisched.framework.advice import Proposal as Proposal
    from kaisched.framework.batching import asked_of as asked_of
    from kaisched.framework.batching import batch_of as batch_of
    from kaisched.framework.batching import main_resource as main_resource
    from kaisched.framework.claims import Claim as Claim
    from kaisched.framework.claims import Units as Units
    from kaisched.framework.invariant_sums import Moves as Moves
    from kaisched.framework.job_order import jobs_by_age as jobs_by_age
    from kaisched.framework.job_order import ordered_jobs as ordered_jobs
    from kaisched.framework.parts import Part as Part
    from kaisched.framework.parts import parts_of as parts_of
    from kaisched.framework.plugins.plugin import Arguments as Arguments
    from kaisched.framework.plugins.plugin import Plugin as Plugin
    from kaisched.framework.plugins.specification import hookimpl as hookimpl
    from kaisched.framework.proposals import end_of_work as end_of_work
    from kaisched.framework.proposals import larger_bounds as larger_bounds
    from kaisched.framework.reason import Problem as Problem
    from kaisched.framework.reason import Reason as Reason
    from kaisched.framework.records import Step as Step
    from kaisched.framework.session import Session as Session
    from kaisched.framework.shard_settings import shard_setting as shard_setting
    from kaisched.framework.task_order import ordered_tasks as ordered_tasks
    from kaisched.objects.podgroup import SubGroupSpec as SubGroupSpec
    from kaisched.objects.workloads import Gang as Gang
    from kaisched.objects.workloads import Workload as Workload
    from kaisched.units import UNLIMITED as UNLIMITED
    from kaisched.units import format_amount as format_amount
    from kaisched.units import parse_duration as parse_duration


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'kaisched' has no attribute {name!r}")
    module = import_module(home)
    return import_module(f"{home}.{name}") if home == "kaisched.core" else getattr(module, name)


def __dir__() -> list[str]:
    return list(__all__)
