"""What certainly is no expression of CEL, and what is only not understood here."""

import pytest

from kaisched.core.claims.cel_syntax import syntax_fault
from tests.unit.core.test_selectors import RAW, UNDERSTOOD


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the end"),
        ("device.driver ==", "the end"),
        ("device.driver == 'a", '"\'a"'),
        ("device.driver = 'a'", "= 'a'"),
        ("device.driver == 'a' & true", "& true"),
        ("device.driver == 'a' 'b'", "'b'"),
        ("device.driver == 'a') && true", ") closes no ("),
        ("(device.driver == 'a'", "( is not closed"),
        ("device.driver == #", "'#'"),
        ("device.driver == '\\q'", "is no character"),
        ("device.attributes['a'.b == 1", "[ is not closed"),
        ("x ? 1", "the end"),
        ("x.map(a, {a: 1}", "( is not closed"),
        ("x.?a.orValue(1]", "] closes no ["),
        ("{'a': 1}}", "} closes no {"),
        ("true && " * 2000 + "true", "longer than"),
    ],
)
def test_what_certainly_is_no_expression_is_told(text, told):
    assert told in syntax_fault(text)


UNSURE = [
    "device.attributes['a'].?b.orValue('')",
    "device.attributes[?'a'].hasValue()",
    "[?device.x] == []",
    "{'a': 1, ?'b': device.c}['a'] == 1",
    "google.protobuf.Duration{seconds: 1} == duration('1s')",
    "b'abc' == b'abc'",
    "bR'''a''' == b''",
    'br"\\" == b""',
    "device.`a-b` == 1",
    "device.`a[b` == 1",
    ".device.driver == 'a'",
    "true && .device.driver == 'a'",
    "'model' in .device.attributes",
    "[1, 2,].map(it, it + 1) == [2, 3]",
    "device.driver.matches('^[a-z({]+$')",
    "devices.driver == 'a'",
    "device.driver.notAFunction()",
    "(" * 100 + "true" + ")" * 100,
    "!" * 100 + "true",
]


@pytest.mark.parametrize("text", [*UNSURE, *(text for text, _ in UNDERSTOOD + RAW)])
def test_what_may_be_an_expression_is_not(text):
    assert syntax_fault(text) == ""
