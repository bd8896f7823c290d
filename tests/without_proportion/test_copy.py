"""What the copy without the plugin rests on is there: else the command would be found out late."""

import re

import pytest

from tests.without_proportion.__main__ import GONE, INSTEAD, NAMED, ROOT, TURNED_OFF, entry_point

pytestmark = pytest.mark.proportion


def test_what_is_replaced_is_there_once():
    for name, (old, new) in {**NAMED, "pyproject.toml": entry_point()}.items():
        text = (ROOT / name).read_text("utf-8")
        assert text.count(old) == 1, name
        assert re.search(rf"\b{GONE}\b", new) is None


@pytest.mark.parametrize(
    "shard",
    ['{"plugins": {"proportion": {"enabled": False}}}', "plugins: {proportion: {enabled: false}}"],
)
def test_who_turns_the_default_off_turns_off_what_stands_in_its_place(shard):
    assert TURNED_OFF.sub(INSTEAD, shard) == shard.replace(GONE, INSTEAD)
