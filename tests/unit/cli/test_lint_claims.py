"""``kaisched lint`` on claims: classes that the files do not have, and selectors with faults."""

import json

import pytest

from kaisched.core.claims import selectors

CLASS = """apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec:
  selectors:
    - cel: {expression: %s}
---
"""
CLAIM = """apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c, namespace: default}
spec:
  devices:
    requests:
      - name: gpu
        exactly:
          deviceClassName: %s
          selectors: [{cel: {expression: %s}}]
---
"""
TEMPLATE = """apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: t, namespace: default}
spec:
  spec:
    devices:
      requests:
        - name: gpu
          firstAvailable:
            - {name: a, deviceClassName: gpu.example.com}
            - name: b
              deviceClassName: %s
              selectors: [{cel: {expression: %s}}]
---
"""
GOOD = "device.driver == 'gpu.example.com'"
NAME = "gpu.example.com"
ASK = "spec.devices.requests[0].exactly"
OPTION = "spec.spec.devices.requests[0].firstAvailable[1]"


@pytest.fixture
def lint(run, tmp_path):
    """Lint one text; returns (level, rule, kind, path, message, value, fix) of what is said."""

    def lint(text):
        file = tmp_path / "f.yaml"
        file.write_text(text, encoding="utf-8")
        code, out, _ = run("lint", file, "-o", "json")
        found = json.loads(out)["findings"]
        assert code == int(any(it["level"] == "error" for it in found))
        assert all(it["file"].endswith("f.yaml") and it["line"] > 0 for it in found)
        keys = ("level", "rule", "kind", "path", "message", "value", "fix")
        return [tuple(it[key] for key in keys) for it in found]

    return lint


def quoted(text):
    return json.dumps(text)


def test_good_claims_are_no_finding(lint):
    text = CLASS % quoted(GOOD) + CLAIM % (NAME, quoted(GOOD)) + TEMPLATE % (NAME, quoted(GOOD))
    assert lint(text) == []


@pytest.mark.parametrize(
    ("text", "kind", "path"),
    [
        (CLAIM % ("gpu.exampl.com", quoted(GOOD)), "ResourceClaim", ASK),
        (TEMPLATE % ("gpu.exampl.com", quoted(GOOD)), "ResourceClaimTemplate", OPTION),
    ],
)
def test_a_class_that_no_file_has_is_told_with_the_nearest(lint, text, kind, path):
    assert lint(CLASS % quoted(GOOD) + text) == [
        (
            "error",
            "unknown-class",
            kind,
            f"{path}.deviceClassName",
            "no such DeviceClass among the files",
            "'gpu.exampl.com'",
            f'did you mean "{NAME}"?',
        )
    ]


def test_a_class_of_several_files_is_named_once(lint):
    found = lint(CLASS % quoted(GOOD) * 2 + CLAIM % ("tpu", quoted(GOOD)))
    assert [it[-1] for it in found if it[1] == "unknown-class"] == [f"known: {NAME}"]


def test_without_a_class_among_the_files_none_is_missed(lint):
    assert lint(CLAIM % ("gpu.exampl.com", quoted(GOOD))) == []


def test_a_class_with_a_fault_is_not_missed_as_well(lint):
    other = "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: x}\nspec: 1\n---\n"
    found = lint(CLASS % quoted(GOOD) + other + CLAIM % ("x", quoted(GOOD)))
    assert [(it[1], it[2]) for it in found] == [("object", "DeviceClass")]


@pytest.mark.parametrize(
    ("text", "kind", "path"),
    [
        (CLASS, "DeviceClass", "spec.selectors[0]"),
        (CLAIM.replace("%s", NAME, 1), "ResourceClaim", f"{ASK}.selectors[0]"),
        (TEMPLATE.replace("%s", NAME, 1), "ResourceClaimTemplate", f"{OPTION}.selectors[0]"),
    ],
)
def test_a_selector_that_does_not_parse_is_an_error(lint, text, kind, path):
    said = lint(text % quoted("device.driver = 'a'"))
    assert said == [
        (
            "error",
            "selector",
            kind,
            f"{path}.cel.expression",
            "does not parse: Syntax error: token recognition error at: '= '",
            "\"device.driver = 'a'\"",
            "write an expression of CEL, such as device.driver == 'gpu.example.com'",
        )
    ]


@pytest.mark.parametrize("has_library", [False, True])
def test_a_selector_that_is_only_not_understood_is_a_warning(lint, monkeypatch, has_library):
    if not has_library:
        monkeypatch.setattr(selectors, "library", lambda: None)
    ((level, rule, _, _, message, _, fix),) = lint(
        CLAIM % (NAME, quoted("device.driver.find('[a-z]+') == 'a'"))
    )
    assert (level, rule) == ("warning", "selector")
    assert message.startswith("not understood here, though it may be right: ")
    assert ("find" if has_library else "cel-expr-python, which is not installed") in message
    assert fix == (
        "claims with it wait: write it another way"
        if has_library
        else "install it, or lint where it is"
    )


def test_a_selector_that_the_library_understands_is_no_finding(lint):
    assert lint(CLAIM % (NAME, quoted("device.driver.matches('^a')"))) == []


def test_a_selector_of_a_kind_that_is_not_known_is_left_alone(lint):
    text = CLAIM % (NAME, quoted(GOOD))
    assert lint(text.replace("cel: {expression:", "later: {expression:")) == []
