"""Selectors: what expressions of CEL mean for devices, and how often they are evaluated."""

import pytest

from kaisched.core.claims import cel_library
from kaisched.core.claims.cel import CelSelector
from kaisched.core.claims.cel_values import amount_of, version_of
from kaisched.core.claims.model import Capacity, ClaimError, Device, Quantity, Value

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
]


RAW = [("r'a\\' == 'a\\\\'", True), ('r"""\\""" == "\\\\"', True)]
"""With a backslash at the end of a raw string, which the library refuses against the language."""


@pytest.mark.parametrize(("text", "answer"), UNDERSTOOD + RAW)
def test_an_expression_means_what_cel_says(text, answer):
    assert CelSelector(text).matches(device(model="H100", index=3, ok=True)) is answer


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{A}.none == 1", "no such key: none"),
        (f"{A}.model", "is not true or false"),
        (f"{A}.model > 1", "do not compare"),
        (f"{A}.model + 1 == 1", "no such overload"),
        (f"{A}.index / 0 == 1", "division by zero"),
        (f"quantity({A}.model).sign() == 1", "'H100' is no quantity"),
        ("device.nothing", "no such key: nothing"),
        ("device.driver.matches('a')", "the function matches is not understood"),
        (f"{A}.?model.orValue('') == ''", "optional values"),
        ("devices.driver == 'a'", "there is no variable devices"),
        ("", "the end is not understood"),
        ("device.driver ==", "the end is not understood"),
        ("device.driver == 'a' 'b'", "'b' is not understood"),
        ("device.driver == #", "'#' is not understood"),
        ("(" * 100, "nested too deep"),
        ("!" * 100 + "true", "nested too deep"),
        ("true && " * 2000 + "true", "longer than"),
        ("9" * 5000 + " == 1", "is no 64-bit number"),
        ("0x10000000000000000 == 1", "is no 64-bit number"),
        ("device.driver == '\\U00110000'", "is no character"),
        ("device.driver == '\\uD800'", "is no character"),
        (f"{A}.index * 9223372036854775807 == 1", "no 64-bit number"),
        ("-9223372036854775807 - 2 == 1", "no 64-bit number"),
        ("9223372036854775807 + 1 == 1", "no 64-bit number"),
        ("has(device)", "has() takes a field"),
        ("[1].all(1)", "takes a variable and a condition"),
    ],
)
def test_what_cannot_be_evaluated_is_named(text, told, monkeypatch):
    monkeypatch.setattr(cel_library, "library", lambda: None)
    with pytest.raises(ClaimError) as caught:
        CelSelector(text).matches(device(model="H100", index=3))
    assert told in str(caught.value)


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


@pytest.mark.parametrize(("of", "few", "many"), [(doubled, 10, 20), (nested, 3, 12)])
def test_an_evaluation_without_end_is_refused_and_a_long_one_is_not(of, few, many):
    assert CelSelector(of(few)).matches(device())
    with pytest.raises(ClaimError, match=r"it takes more than 100,000 steps for a device"):
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
    assert amount_of(text).nanos == nanos


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
    assert CelSelector(f"has({A}.later)").matches(later)
    with pytest.raises(ClaimError, match=r"attribute later of device gpu-0: .*value"):
        CelSelector(f"{A}.later == 'H100'").matches(later)
    if cel_library.library() is not None:
        assert CelSelector(f"{A}.model.matches('^H')").matches(later)
        with pytest.raises(ClaimError, match="attribute later of device gpu-0"):
            CelSelector(f"{A}.later.matches('^H')").matches(later)
