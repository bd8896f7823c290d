"""Every question to plugins and every reason to wait is on its reference page, as the code has it.

``python tests/reference/test_hooks_documented.py hooks`` (or ``refusals``) prints the page.
"""

import inspect
import re
import sys
from pathlib import Path

import pytest

from kaisched.core.refusals import TEXTS, Refusal
from kaisched.framework.advice import MEANINGS
from kaisched.framework.plugins.loader import describe_plugins
from kaisched.framework.plugins.questions import QUESTIONS, Plugin
from kaisched.framework.proposals import MADE_OF

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
COMMAND = "python tests/reference/test_hooks_documented.py"

HOOKS = {name: vars(Plugin)[name] for name in QUESTIONS}
EXAMPLES = sorted((ROOT / "plugins").glob("example*/src/**/*.py"))

CURES = {
    Refusal.QUEUE_MISSING: "Make or mend the queue, or name one that exists.",
    Refusal.QUEUE_ORPHAN: "Make or mend the parent, or undo the cycle: the record says which.",
    Refusal.QUEUE_NOT_LEAF: "Name a queue without children.",
    Refusal.INVALID_GROUP: "Mend the pod group; its event says what is wrong.",
    Refusal.GANG_INCOMPLETE: "Create the missing pods, or lower the minimum.",
    Refusal.SCHEDULING_GATED: "Remove the scheduling gates.",
    Refusal.UNSUPPORTED: "Leave out what is not offered; the record says what.",
    Refusal.BACKOFF: "Nothing: it is tried again when something changes.",
    Refusal.QUEUE_DEPTH: "Raise `queueDepthPerAction`, or wait for the jobs ahead.",
    Refusal.NOT_TRIED: "Enable an action that would try it.",
    Refusal.PUT_OFF: "Nothing: it is tried in turn. Fewer different requests and constraints help.",
    Refusal.QUEUE_ON_HOLD: "Take `stopPolicy` off the queue, or off the one above that has it.",
    Refusal.OVER_LIMIT: "Raise the queue's limit, or let its work end.",
    Refusal.NON_PREEMPTIBLE_OVER_QUOTA: "Raise the quota, or make the job preemptible.",
    Refusal.OVER_FAIR_SHARE: "Wait for the queue's own work to end, or raise its quota or weight.",
    Refusal.OTHERS_SPELL: "Nothing: it waits for its share, or until that job has started.",
    Refusal.NOT_WORTH_IT: "Wait: its queue is owed more with time. Or lower `evictionCost`.",
    Refusal.EXCEEDS_ANY_NODE: "Ask for less in one pod, or add larger nodes.",
    Refusal.NO_NODE_ALLOWED: "Relax selectors and affinity, or tolerate the taints.",
    Refusal.NO_ROOM: "Wait, ask for less, or add nodes.",
    Refusal.GANG_NO_ROOM: "Wait, lower the minimum, or add nodes.",
    Refusal.WAITING_FOR_RELEASE: "Nothing: its room is promised and on its way.",
    Refusal.NO_VICTIMS: "Wait, ask for less, or let other work be preemptible.",
    Refusal.NOT_OVER_SHARE: "Wait for room, or raise the quota or weight of the job's queue.",
    Refusal.SATURATION_ORDER: "Wait; or lower `reclaimerUtilizationMultiplier` if it is above 1.",
    Refusal.MIN_RUNTIME: "Wait for the minimum runtime to pass, or lower it on the queue.",
    Refusal.EVICTION_DELAY: "Wait for the delay to pass, or lower it on the job.",
    Refusal.SEARCH_BUDGET: "Nothing: the next cycle searches again.",
    Refusal.VOLUME_CLAIM: "Make the claim or its volume; the record says which.",
    Refusal.VOLUME_UNBOUND: "Wait for the volume, or mend the claim or its storage class.",
    Refusal.VOLUME_IN_USE: "Wait for the pod that uses the claim, or claim another volume.",
    Refusal.VOLUME_AFFINITY: "Nothing: the node is out of the volume's reach.",
    Refusal.OWNER_NOT_READ: "Let the owner's kind be served and read: see `kaisched doctor`.",
    Refusal.DISRUPTION_BUDGET: "Wait, or let the PodDisruptionBudget allow more disruptions.",
    Refusal.EVICTION_BUDGET: "Wait, or raise the shard's `evictionsPerHour`.",
    Refusal.TAKING_TURNS: "Set a minimum runtime; it is tried again when something changes.",
    Refusal.UNDERSHOOTS: "Let its queue hold more than its quota, or split the work it holds.",
    Refusal.NODE_NOT_READY: "Bring the node back.",
    Refusal.NODE_UNSCHEDULABLE: "Uncordon the node.",
    Refusal.TAINT: "Tolerate the taint.",
    Refusal.NODE_SELECTOR: "Label the node, or select otherwise.",
    Refusal.NODE_AFFINITY: "Label the node, or require otherwise.",
    Refusal.POD_AFFINITY: "Place the pods that it wants to be near.",
    Refusal.POD_ANTI_AFFINITY: "Let the pods end that it keeps away from.",
    Refusal.HOST_PORT: "Use another port, or let its holder end.",
    Refusal.POD_SLOTS: "Let pods end, or raise the node's `maxPods`.",
    Refusal.RESOURCES: "Let pods end, or ask for less.",
    Refusal.NODE_PRESSURE: "Free the node's memory, disk or processes.",
    Refusal.PLUGIN: "Ask whoever runs the plugin that the record names.",
    Refusal.PLUGIN_FAILED: "Mend or disable the plugin that the record names.",
    Refusal.ACTION_FAILED: "Report the line `action_failed` of the log; others go on without it.",
}


def signature_of(name):
    """Return the arguments, as a plugin must write them."""
    names = list(inspect.signature(HOOKS[name]).parameters)
    return f"{name}({', '.join(names)})"


def answering(name):
    """Return the shipped plugins that answer a question."""
    return [
        each.name
        for each in describe_plugins()
        if each.distribution == "kaisched" and name in each.questions
    ]


def example_answers(name):
    """Return the example plugins that answer a question, by the folder of their package."""
    method = re.compile(rf"@hookimpl\n    def {name}\(")
    return [path.parent.name for path in EXAMPLES if method.search(path.read_text("utf-8"))]


def plain(text):
    """Return a docstring's reST as Markdown."""
    text = re.sub(r":(?:meth|class):`~?([^`]+)`", lambda found: f"`{found[1]}`", text)
    return re.sub(r"``([^`]+)``", r"`\1`", text)


def combinations():
    """Return a line for each way in which answers combine, in the order of the questions."""
    meanings = {combine.name: plain(combine.meaning) for combine in QUESTIONS.values()}
    return [f"* *{name}*: {meaning}" for name, meaning in meanings.items()]


def facts_of(name):
    """Return what a question declares, a line each."""
    combine = QUESTIONS[name]
    yield f"* Combine: *{combine.name}*"
    if combine.without:
        yield f"* Without an answer: {combine.without}."
    if combine.promise:
        yield f"* Not asked: a plugin whose `{combine.promise.method}` is {combine.promise.silent}."
    yield f"* When it fails: {combine.fails}"
    yield f"* Answered by: {', '.join(answering(name) or example_answers(name))}"


def hooks_page():
    """Return docs/reference/hooks.md."""
    intro = plain(inspect.getdoc(sys.modules[Plugin.__module__])).partition("\n\n")[2]
    lines = [
        "# Hooks",
        "",
        f"<!-- generated by {COMMAND} hooks -->",
        "",
        "Every question that a plugin may answer: when it is asked, what the answer is, how",
        "several combine, and what happens when one fails. The text is that of `kaisched.Plugin`.",
        "",
        intro,
        "",
        "Answers combine in one of these ways:",
        "",
        *combinations(),
    ]
    for name, spec in HOOKS.items():
        doc = plain(inspect.getdoc(spec))
        lines += ["", f"## {name}", "", f"`{signature_of(name)}`", "", doc, "", *facts_of(name)]
    return "\n".join(lines) + "\n"


def refusals_page():
    """Return docs/reference/refusals.md."""
    lines = [
        "# Refusals",
        "",
        f"<!-- generated by {COMMAND} refusals -->",
        "",
        "The closed list of reasons why a job, a pod or a node is refused. A decision record has",
        "one of them as its reason, with the numbers behind it. *Freeable* says whether room given",
        "back by others could cure it: only then do the evicting actions search for victims.",
        "",
        "A plan tries changes for each waiting job: the same cycle runs once more on a copy in",
        "which something is otherwise, and the record says whether the job would then start or be",
        "promised room. *Tried* names the kinds of change; their numbers come from what stopped",
        "the job.",
        "Where none is named, nothing is advised: the message says what is wrong.",
        "",
        "| kind of change | what would be otherwise |",
        "|---|---|",
        *(f"| `{kind.value}` | {meaning} |" for kind, meaning in MEANINGS.items()),
        "",
        "At most four kinds are tried for a job, in this order, and none any more once the trials",
        "of a cycle took about half a second, as counted in rows and waiting jobs: the same input",
        "always gives the same advice. Nothing is tried for a cycle in which a plugin or an action",
        "failed. Each change is tried by itself. Conditions and events of a daemon say the reason",
        "without advice; `kaisched plan` and `kaisched snapshot` try changes.",
        "",
        "| reason | code | meaning | freeable | what cures it | tried |",
        "|---|---|---|---|---|---|",
    ]
    for code, text in TEXTS.items():
        freeable = "yes" if text.is_freeable else ""
        lines.append(
            f"| `{text.name}` | {int(code)} | {text.sentence} | {freeable} | {CURES[code]}"
            f" | {', '.join(f'`{kind.value}`' for kind in MADE_OF.get(code, ()))} |"
        )
    return "\n".join(lines) + "\n"


PAGES = {"hooks": hooks_page, "refusals": refusals_page}


@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_current(page):
    """Edit the code, then print the page anew."""
    assert (REFERENCE / f"{page}.md").read_text(encoding="utf-8") == PAGES[page]()


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_is_documented_with_its_arguments(name):
    text = (REFERENCE / "hooks.md").read_text(encoding="utf-8")
    assert f"\n## {name}\n\n`{signature_of(name)}`\n" in text


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_says_how_answers_combine_and_what_a_failure_does(name):
    combine = QUESTIONS[name]
    assert combine.name
    assert combine.meaning.endswith(".")
    assert combine.fails.endswith(".")
    assert not combine.without.endswith(".")


@pytest.mark.parametrize("name", sorted(HOOKS))
def test_a_hook_is_answered_by_a_shipped_plugin_or_an_example(name):
    assert answering(name) or example_answers(name)


def test_the_answers_of_the_example_are_found():
    assert example_answers("node_score") == ["kaisched_plugin_example"]
    assert example_answers("job_gate") == []


@pytest.mark.parametrize("code", [code for code in Refusal if code])
def test_a_refusal_is_documented(code):
    text = (REFERENCE / "refusals.md").read_text(encoding="utf-8")
    assert f"| `{TEXTS[code].name}` | {int(code)} | {TEXTS[code].sentence} |" in text


def test_names_of_refusals_differ():
    names = [text.name for text in TEXTS.values()]
    assert len(set(names)) == len(names)


if __name__ == "__main__":
    sys.stdout.write(PAGES[sys.argv[1]]())
