"""Selectors: what expressions of CEL mean for devices, and how often they are evaluated."""

import pytest

from kaisched.core.claims import selectors
from kaisched.core.claims.model import Capacity, ClaimError, Device, Quantity, Value, nanos_of
from kaisched.core.claims.selectors import CelSelector, version_of

GIB = 2**30 * 10**9


def device(name="gpu-0", driver="d.io", *, is_shared=False, memory=80, **attributes):
    kinds = {bool: "bool", int: "int", str: "string"}
    values = {key: Value(kinds[type(it)], it) for key, it in attributes.items()}
    values["version"] = Value("version", "1.2.3-rc.1")
    values["x.org/rack"] = Value("string", "r1")
    capacities = {"memory": Capacity(Quantity(memory * GIB, is_binary=True))}
    return Device(driver, "n1", name, values, capacities, is_shared=is_shared)


A = 'device.attributes["d.io"]'
M = 'device.capacity["d.io"].memory'


UNDERSTOOD = [
    ('device.driver == "d.io"', True),
    ("device.driver in ['a', 'd.io']", True),
    (f"{A}.model == 'H100' && {A}.index > 2", True),
    (f"{A}['model'] != 'H100'", False),
    (f"{A}.ok", True),
    (f"!{A}.ok || {A}.index == 3", True),
    ("device.attributes['x.org'].rack == 'r1'", True),
    ("has(device.attributes['none.org'].rack)", False),
    (f"has({A}.model)", True),
    (f"'model' in {A}", True),
    (f"{A}.index == 3.0", True),
    (f"{A}.index == '3'", False),
    (f"{A}.ok == 1", False),
    (f"{A}.index % 2 == 1 && -{A}.index == -3 && {A}.index * 2 - 1 == 5", True),
    (f"-7 / 2 == -3 && -7 % 2 == -1 && {A}.index >= 3", True),
    (f"{A}.ok ? {A}.index == 3 : false", True),
    (f"{A}.model.startsWith('H') && {A}.model.endsWith('0') && {A}.model.contains('10')", True),
    (f"{A}.model.lowerAscii() == r'h100' && size({A}.model) == 4", True),
    (f"{M}.isGreaterThan(quantity('40Gi')) && {M}.compareTo(quantity('80Gi')) == 0", True),
    (f"{M}.isLessThan(quantity('85899345921'))", True),
    (f"{A}.version.isLessThan(semver('1.2.3')) && {A}.version.major() == 1", True),
    ("isSemver('1.2') || isQuantity('1Gi')", True),
    (f"['A100', 'H100'].exists(it, it == {A}.model)", True),
    (f"['A100', 'H100'].all(it, it == {A}.model)", False),
    (f"cel.bind(a, {A}, a.model == 'H100' && a.ok)", True),
    ("device.allowMultipleAllocations", False),
    (f"{A}.none == 1 || true", True),
    (f"{A}.none == 1 && false", False),
    ("'\\x41\\u0042' == \"AB\" // a comment", True),
    ("-9223372036854775807 - 1 < 9223372036854775806 + 1", True),
    ("'\\U0010ffff' != '\\uE000'", True),
    (f"{A}.model.matches('^H[0-9]+$')", True),
    (f"{A}.model.matches('^A')", False),
    (f"{A}.?model.orValue('none') == 'H100'", True),
    (f"{A}.?none.orValue('none') == 'none'", True),
    ("device.attributes['none.org'].?rack.orValue('r0') == 'r0'", True),
    ("device.attributes[?'x.org'].?rack.hasValue()", True),
    (f"[{A}.model].map(it, it.lowerAscii()) == ['h100']", True),
    (f"'a,H100'.split(',').filter(it, it == {A}.model).size() == 1", True),
    (f"{M}.asInteger() == 85899345920 && {A}.model.matches('.')", True),
    (f"{M}.add(quantity('1Gi')) == quantity('81Gi') && {A}.model.matches('.')", True),
    (f"{M}.isGreaterThan(quantity('1')) && {A}.model.matches('A')", False),
    (f"{A}.version == semver('1.2.3-rc.1') && {A}.model.matches('.')", True),
    (f"{A}.version.compareTo(semver('1.2.3')) == -1 && {A}.model.matches('.')", True),
    (f"{A}.none == 1 || {A}.model.matches('.')", True),
    (f"int('3') == {A}.index && {A}.model.matches('.')", True),
]


@pytest.mark.parametrize(("text", "answer"), UNDERSTOOD)
def test_an_expression_means_what_cel_says(text, answer):
    assert CelSelector(text).matches(device(model="H100", index=3, ok=True)) is answer


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{A}.none == 1", "none"),
        (f"{A}.model", "is not true or false"),
        (f"{A}.model > 1", "No matching overloads"),
        (f"{A}.model + 1 == 1", "No matching overloads"),
        (f"{A}.index / 0 == 1", "divide by zero"),
        (f"quantity({A}.model).sign() == 1", "'H100' is no quantity"),
        (f"{A}.version.sign() == 1", "this value is no quantity"),
        (f"{M}.major() == 1", "this value is no version"),
        ("device.nothing", "nothing"),
        ("devices.driver == 'a'", "devices"),
        (f"{A}.model.findAll('a') == []", "findAll"),
        (f"{A}.model.replace('a', 'b')", "is not true or false"),
        ("quantity('1.5').asInteger() == 1", "is no whole number"),
        ("device.driver.matches('(')", "regular expression"),
        ("", "Syntax error: mismatched input '<EOF>'"),
        ("device.driver == 'a' 'b'", "Syntax error: extraneous input ''b''"),
        ("(" * 100, "recursion limit"),
        ("true && " * 2000 + "true", "longer than"),
        ("9" * 5000 + " == 1", "invalid int literal"),
        (f"{A}.index * 9223372036854775807 == 1", "overflow"),
        ("has(device)", "has() argument must be a field"),
    ],
)
def test_what_cannot_be_evaluated_is_named_in_one_line(text, told):
    with pytest.raises(ClaimError) as caught:
        CelSelector(text).matches(device(model="H100", index=3))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_the_library_every_selector_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(selectors, "library", lambda: None)
    selector = CelSelector("device.driver == 'd.io'")
    assert selector.is_syntax
    with pytest.raises(ClaimError, match="cel-expr-python, which is not installed"):
        selector.matches(device())


@pytest.mark.parametrize(
    "text", ["", "device.driver = 'a'", "device.driver == 'a", "(true", "9" * 30]
)
def test_what_certainly_is_no_expression_is_told_apart(text):
    assert not CelSelector(text).is_syntax


@pytest.mark.parametrize("text", ["device.driver.find('a')", "devices.driver == 'a'", "true"])
def test_what_may_be_right_elsewhere_is_told_apart(text):
    assert CelSelector(text).is_syntax


def doubled(times):
    text = "x.size() > 0"
    for _ in range(times):
        text = f"cel.bind(x, x + x, {text})"
    return f"cel.bind(x, 'ten letters', {text})"


def nested(times, of="[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"):
    text = "true"
    for at in range(times):
        text = f"{of}.all(x{at}, {text})"
    return text


def replaced(times):
    text = "x.size() > 0"
    for _ in range(times):
        text = f"cel.bind(x, x.replace('a', x), {text})"
    return f"cel.bind(x, 'aaaa', {text})"


@pytest.mark.parametrize(
    ("of", "few", "many", "told"),
    [
        (doubled, 10, 20, "could grow without end"),
        (replaced, 2, 3, "could grow without end"),
        (nested, 3, 12, "budget exceeded"),
    ],
)
def test_an_evaluation_without_end_is_refused_and_a_long_one_is_not(of, few, many, told):
    assert CelSelector(of(few)).matches(device())
    with pytest.raises(ClaimError, match=told):
        CelSelector(of(many)).matches(device())


def test_equal_devices_are_evaluated_once():
    selector = CelSelector(f"{A}.model == 'H100' && {M}.isGreaterThan(quantity('40Gi'))")
    devices = [device(f"gpu-{at}", model="H100", uuid=f"u{at}") for at in range(100)]
    assert all(selector.matches(it) for it in devices)
    assert selector.profiles == 1
    assert not selector.matches(device(model="L4"))
    assert not selector.matches(device(model="H100", memory=24))
    assert selector.profiles == 3


def test_an_expression_that_may_read_anything_is_evaluated_for_each_kind_of_device():
    selector = CelSelector("device.attributes['d.io'].exists(it, it == 'uuid')")
    assert all(selector.matches(device(uuid=f"u{at}")) for at in range(3))
    assert selector.profiles == 3


def test_attributes_of_another_driver_do_not_count_as_the_own():
    selector = CelSelector(f"has({A}.model)")
    assert not selector.matches(device(driver="other.io", model="H100"))


@pytest.mark.parametrize(
    ("text", "nanos"),
    [("1", 10**9), ("500m", 5 * 10**8), ("1Ki", 1024 * 10**9), ("1e3", 10**12), ("-2", -2 * 10**9)],
)
def test_quantities_are_exact(text, nanos):
    assert nanos_of(text) == nanos


def test_versions_are_in_the_order_of_semver():
    texts = [
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0-rc.1",
        "1.0.0",
        "1.0.1",
        "1.10.0",
    ]
    assert sorted(texts, key=version_of) == texts
    assert version_of("1.0.0+a") == version_of("1.0.0+b")


LATER = [Value("unknown", None), Value("version", "not a version")]
"""Of a kind that a later version of the API has, or against its rules."""


@pytest.mark.parametrize("value", LATER)
def test_a_value_that_is_not_known_matters_to_those_alone_who_read_it(value):
    plain, later = device(model="H100"), device(model="H100")
    later.attributes["later"] = value
    for first, second in ((plain, later), (later, plain)):
        selector = CelSelector(f"device.driver == 'd.io' && {A}.model == 'H100'")
        assert selector.matches(first)
        assert selector.matches(second)
    assert CelSelector(f"{A}.model.matches('^H')").matches(later)
    for text in (f"{A}.later == 'H100'", f"{A}.later.matches('^H')", f"has({A}.later)"):
        with pytest.raises(ClaimError, match=r"attribute later of device gpu-0: .*value"):
            CelSelector(text).matches(later)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f"{A}.model == 'H100'", (("attributes", "d.io/model"),)),
        (
            f"{A}['model'] == 'a' && {M} == {M}",
            (("attributes", "d.io/model"), ("capacity", "d.io/memory")),
        ),
        ("device.driver == 'a' || device.allowMultipleAllocations", ()),
        (f"{A} . model . startsWith('a')", (("attributes", "d.io/model"),)),
        (f"{A}.size() == 1", None),
        (f"{A}.?model.orValue('') == 'a'", None),
        (f"cel.bind(a, {A}, a.model == 'a')", None),
        ("device.attributes['a' + 'b'].c == 1", None),
        (r"device.attributes['a\x62'].c == 1", None),
        ("[device].exists(it, it.driver == 'a')", None),
    ],
)
def test_the_fields_that_an_expression_reads(text, named):
    assert CelSelector(text).named == named


def test_a_selector_with_optional_values_is_asked_for_each_kind_of_device():
    selector = CelSelector(f"{A}.?model.orValue('') == 'H100'")
    assert all(selector.matches(device(model="H100", uuid=f"u{at}")) for at in range(3))
    assert selector.profiles == 3
