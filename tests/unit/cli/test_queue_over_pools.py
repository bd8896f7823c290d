"""``kaisched queue show`` adds a project up over the node pools of a running scheduler."""

import json
import re
from pathlib import Path

import pytest

from kaisched.config.settings import ViewListener
from kaisched.daemon.view_server import ViewServer
from tests.unit.view.test_projects import vision

pytestmark = [pytest.mark.usefixtures("rested"), pytest.mark.proportion]

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "use-node-pools.md"


@pytest.fixture(scope="module")
def server():
    publishers = vision().publishers
    running = ViewServer(ViewListener(port=0), lambda: publishers, None)
    yield f"http://127.0.0.1:{running.port}"
    running.close()


def test_the_table_has_each_pool_and_the_sum(run, server):
    show = ("queue", "show", "vision-h100", "--server", server, "--shard-name", "of-h100")
    code, out, _ = run(*show)
    assert code == 0
    table = out[out.index("Over node pools: GPUs") :].partition("\n\n")[0]
    rows = [line.split() for line in table.splitlines()[2:]]
    assert rows == [
        ["vision", "default", "vision", "0", "0", "0", "2"],
        ["vision", "h100", "vision-h100", "8", "8", "9", "4"],
        ["vision", "a100", "seeing", "3", "3", "3", "6"],
        ["vision", "all", "11", "11", "12", "12"],
    ]
    assert table in re.sub(r"[ \t]+\n", "\n", PAGE.read_text(encoding="utf-8"))
    (found,) = json.loads(run(*show, "-o", "json")[1])["queues"]
    assert found["project"]["deserved"]["gpu"] == 12


def test_the_list_has_no_sums(run, server):
    code, out, _ = run("queue", "ls", "--server", server)
    assert (code, "Over node pools" in out) == (0, False)
