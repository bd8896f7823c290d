"""kaisched: a fair Kubernetes scheduler for shared GPU clusters.

Plugins and other users may rely on the names below; everything else may change. The names are
loaded on first use, so that ``import kaisched`` (and the command line's ``--help``) costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Arguments": "kaisched.framework.plugins.plugin",
    "Plugin": "kaisched.framework.plugins.plugin",
    "hookimpl": "kaisched.framework.plugins.questions",
    "Session": "kaisched.framework.session.session",
    "Claim": "kaisched.framework.session.units",
    "NodeSet": "kaisched.framework.session.node_sets",
    "LazyNodeSets": "kaisched.framework.session.node_sets",
    "Units": "kaisched.framework.session.units",
    "SubGroup": "kaisched.core.tables",
    "TopologyConstraint": "kaisched.core.tables",
    "TopologyLevel": "kaisched.core.tables",
    "domain_paths": "kaisched.core.constraints",
    "level_of": "kaisched.core.constraints",
    "levels_of": "kaisched.core.constraints",
    "topology_of": "kaisched.core.constraints",
    "unique_names": "kaisched.core.constraints",
    "Constraints": "kaisched.core.constraints",
    "CORDON": "kaisched.core.constraints",
    "KEEPS_AWAY": "kaisched.core.constraints",
    "tolerates": "kaisched.core.constraints",
    "NodeStatics": "kaisched.core.constraints",
    "PodTerm": "kaisched.core.constraints",
    "Requirement": "kaisched.core.constraints",
    "NO_PREFERENCES": "kaisched.core.constraints",
    "SpreadRule": "kaisched.core.constraints",
    "Taint": "kaisched.core.constraints",
    "Toleration": "kaisched.core.constraints",
    "UnboundClaim": "kaisched.core.constraints",
    "Gang": "kaisched.objects.workloads",
    "Segments": "kaisched.objects.workloads",
    "SubGroupSpec": "kaisched.objects.podgroup",
    "Workload": "kaisched.objects.workloads",
    "PluginRefusal": "kaisched.core.refusals",
    "Refusal": "kaisched.core.refusals",
    "former_values": "kaisched.framework.shard_settings",
    "shard_setting": "kaisched.framework.shard_settings",
    "TaskState": "kaisched.core.axis",
    "ACTIVE_STATES": "kaisched.core.axis",
    "ALLOCATED_STATES": "kaisched.core.axis",
    "HOLDING_STATES": "kaisched.core.axis",
    "CPU": "kaisched.core.axis",
    "MEMORY": "kaisched.core.axis",
    "GPU": "kaisched.core.axis",
    "PODS": "kaisched.core.axis",
    "PARTS": "kaisched.core.usage",
    "Entitlements": "kaisched.core.fairshare",
    "jobs_by_age": "kaisched.framework.session.order",
    "ordered_jobs": "kaisched.framework.session.order",
    "ordered_tasks": "kaisched.framework.session.order",
    "Unit": "kaisched.framework.session.units",
    "units_of": "kaisched.framework.session.units",
    "Amounts": "kaisched.core.axis",
    "BoolVec": "kaisched.core.axis",
    "CodeVec": "kaisched.core.axis",
    "FloatVec": "kaisched.core.axis",
    "IntVec": "kaisched.core.axis",
    "RowVec": "kaisched.core.axis",
    "Usage": "kaisched.core.usage",
    "UNLIMITED": "kaisched.units",
    "Cron": "kaisched.objects.usage",
    "parse_cron": "kaisched.objects.usage",
    "format_time": "kaisched.objects.labels",
    "parse_duration": "kaisched.units",
    "roll_up": "kaisched.core.tree",
    "divide_level": "kaisched.core.fairshare",
    "fairshare": "kaisched.core",
    "shares": "kaisched.core",
    "worth": "kaisched.core.shares",
    "Change": "kaisched.framework.advice.advice",
    "Kind": "kaisched.framework.advice.advice",
    "Proposal": "kaisched.framework.advice.advice",
    "end_of_work": "kaisched.framework.advice.proposals",
    "larger_bounds": "kaisched.framework.advice.proposals",
    "more_nodes": "kaisched.framework.advice.proposals",
    "charges": "kaisched.core.devices",
    "least_charges": "kaisched.core.devices",
    "asked_of": "kaisched.framework.session.batches",
    "least_asked_of": "kaisched.framework.session.batches",
    "batch_of": "kaisched.framework.session.batches",
    "possible_asks": "kaisched.framework.session.batches",
    "main_resource": "kaisched.framework.session.batches",
    "Moves": "kaisched.framework.invariants.sums",
    "Step": "kaisched.framework.report.records",
    "EvictionReason": "kaisched.framework.report.records",
    "Problem": "kaisched.framework.report.records",
    "Reason": "kaisched.framework.report.records",
    "format_amount": "kaisched.units",
}

__all__ = ["__version__", *sorted(_HOME)]  # noqa: PLE0604 - they are strings

if TYPE_CHECKING:
    from kaisched.core import fairshare as fairshare
    from kaisched.core import shares as shares
    from kaisched.core.axis import ACTIVE_STATES as ACTIVE_STATES
    from kaisched.core.axis import ALLOCATED_STATES as ALLOCATED_STATES
    from kaisched.core.axis import CPU as CPU
    from kaisched.core.axis import GPU as GPU
    from kaisched.core.axis import HOLDING_STATES as HOLDING_STATES
    from kaisched.core.axis import MEMORY as MEMORY
    from kaisched.core.axis import PODS as PODS
    from kaisched.core.axis import Amounts as Amounts
    from kaisched.core.axis import BoolVec as BoolVec
    from kaisched.core.axis import CodeVec as CodeVec
    from kaisched.core.axis import FloatVec as FloatVec
    from kaisched.core.axis import IntVec as IntVec
    from kaisched.core.axis import RowVec as RowVec
    from kaisched.core.axis import TaskState as TaskState
    from kaisched.core.constraints import CORDON as CORDON
    from kaisched.core.constraints import KEEPS_AWAY as KEEPS_AWAY
    from kaisched.core.constraints import NO_PREFERENCES as NO_PREFERENCES
    from kaisched.core.constraints import Constraints as Constraints
    from kaisched.core.constraints import NodeStatics as NodeStatics
    from kaisched.core.constraints import PodTerm as PodTerm
    from kaisched.core.constraints import Requirement as Requirement
    from kaisched.core.constraints import SpreadRule as SpreadRule
    from kaisched.core.constraints import Taint as Taint
    from kaisched.core.constraints import Toleration as Toleration
    from kaisched.core.constraints import UnboundClaim as UnboundClaim
    from kaisched.core.constraints import domain_paths as domain_paths
    from kaisched.core.constraints import level_of as level_of
    from kaisched.core.constraints import levels_of as levels_of
    from kaisched.core.constraints import tolerates as tolerates
    from kaisched.core.constraints import topology_of as topology_of
    from kaisched.core.constraints import unique_names as unique_names
    from kaisched.core.devices import charges as charges
    from kaisched.core.devices import least_charges as least_charges
    from kaisched.core.fairshare import Entitlements as Entitlements
    from kaisched.core.fairshare import divide_level as divide_level
    from kaisched.core.refusals import PluginRefusal as PluginRefusal
    from kaisched.core.refusals import Refusal as Refusal
    from kaisched.core.shares import worth as worth
    from kaisched.core.tables import SubGroup as SubGroup
    from kaisched.core.tables import TopologyConstraint as TopologyConstraint
    from kaisched.core.tables import TopologyLevel as TopologyLevel
    from kaisched.core.tree import roll_up as roll_up
    from kaisched.core.usage import PARTS as PARTS
    from kaisched.core.usage import Usage as Usage
    from kaisched.framework.advice.advice import Change as Change
    from kaisched.framework.advice.advice import Kind as Kind
    from kaisched.framework.advice.advice import Proposal as Proposal
    from kaisched.framework.advice.proposals import end_of_work as end_of_work
    from kaisched.framework.advice.proposals import larger_bounds as larger_bounds
    from kaisched.framework.advice.proposals import more_nodes as more_nodes
    from kaisched.framework.invariants.sums import Moves as Moves
    from kaisched.framework.plugins.plugin import Arguments as Arguments
    from kaisched.framework.plugins.plugin import Plugin as Plugin
    from kaisched.framework.plugins.questions import hookimpl as hookimpl
    from kaisched.framework.report.records import EvictionReason as EvictionReason
    from kaisched.framework.report.records import Problem as Problem
    from kaisched.framework.report.records import Reason as Reason
    from kaisched.framework.report.records import Step as Step
    from kaisched.framework.session.batches import asked_of as asked_of
    from kaisched.framework.session.batches import batch_of as batch_of
    from kaisched.framework.session.batches import least_asked_of as least_asked_of
    from kaisched.framework.session.batches import main_resource as main_resource
    from kaisched.framework.session.batches import possible_asks as possible_asks
    from kaisched.framework.session.node_sets import LazyNodeSets as LazyNodeSets
    from kaisched.framework.session.node_sets import NodeSet as NodeSet
    from kaisched.framework.session.order import jobs_by_age as jobs_by_age
    from kaisched.framework.session.order import ordered_jobs as ordered_jobs
    from kaisched.framework.session.order import ordered_tasks as ordered_tasks
    from kaisched.framework.session.session import Session as Session
    from kaisched.framework.session.units import Claim as Claim
    from kaisched.framework.session.units import Unit as Unit
    from kaisched.framework.session.units import Units as Units
    from kaisched.framework.session.units import units_of as units_of
    from kaisched.framework.shard_settings import former_values as former_values
    from kaisched.framework.shard_settings import shard_setting as shard_setting
    from kaisched.objects.labels import format_time as format_time
    from kaisched.objects.podgroup import SubGroupSpec as SubGroupSpec
    from kaisched.objects.usage import Cron as Cron
    from kaisched.objects.usage import parse_cron as parse_cron
    from kaisched.objects.workloads import Gang as Gang
    from kaisched.objects.workloads import Segments as Segments
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
