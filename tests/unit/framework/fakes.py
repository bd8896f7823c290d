"""Small clusters, sessions and plugins made on the spot."""

from __future__ import annotations

from kaisched.actions.allocate import Allocate
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.plugins.plugin import Arguments, Plugin, PluginSetting
from kaisched.framework.plugins.questions import QUESTIONS, hookimpl
from kaisched.framework.policy import Policy
from kaisched.framework.session.session import Session
from kaisched.testing.builder import Group, Job, Task, add_job


def plugin(name="fake", *, weight=1.0, **answers):
    """Return a plugin that answers each question by calling a function with its arguments."""

    def method(question, answer):
        names = QUESTIONS[question].parameters

        def asked(self, *arguments):
            return answer(**dict(zip(names, arguments, strict=True)))

        return hookimpl(asked)

    made = type(
        "Fake",
        (Plugin,),
        {
            "name": name,
            **{question: method(question, answer) for question, answer in answers.items()},
        },
    )
    return PluginSetting(made(Arguments()), weight)


_ACTIONS = (Allocate(),)
_QUEUES = (QueueRow("q"),)


def policy(*plugins, actions=_ACTIONS, depth=None):
    """Return a policy of just these plugins."""
    return Policy(tuple(plugins), tuple(actions), {} if depth is None else {"allocate": depth})


def with_default(*plugins):
    """Return the default policy with some plugins in front."""
    return Policy((*plugins, *default_policy().plugins), (Allocate(),))


def job(name, queue="q", pods=1, minimum=1, gpu=1, **more):
    """Return a job of equal pods."""
    tasks = tuple(Task(f"{name}-{at}", {"gpu": 1000 * gpu}) for at in range(pods))
    return Job(name, queue, tasks, root=Group("default", minimum), **more)


def store(*jobs, nodes=(4, 4), queues=_QUEUES, extra_nodes=()):
    """Return a store with nodes of so many GPUs, queues and jobs."""
    made = RowStore()
    for number, gpus in enumerate(nodes):
        made.put_node(NodeRow(f"n{number}", {"cpu": 64000, "gpu": 1000 * gpus, "pods": 110}))
    for node in extra_nodes:
        made.put_node(node)
    for queue in queues:
        made.put_queue(queue)
    for each in jobs:
        add_job(made, each)
    return made


def session(snapshot, *plugins, memory=None, rules=None):
    """Return an opened session."""
    rules = rules or policy(*plugins)
    opened = Session(snapshot, None, rules, 0.0, memory or Memory(), rules.questions)
    rules.questions.open(opened)
    return opened


def cycle(snapshot, rules=None, memory=None):
    """Run one cycle and return its result."""
    return run_cycle(snapshot, None, rules or default_policy(), 0.0, memory or Memory())[0]


def placed(result):
    """Return pod to node, without the namespace."""
    return {bind.pod.partition("/")[2]: bind.node for bind in result.binds}
