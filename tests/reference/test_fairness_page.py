"""The first page on fairness: its queues get the shares that it says; reclaim brings them about."""

import re
from collections import Counter
from pathlib import Path

from kaisched.testing.builder import ClusterBuilder

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "fairness.md"
ROW = re.compile(r"^\| (\w+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", re.MULTILINE)


def queues():
    """Name, quota, weight, request and fair share of each queue of the page's first table."""
    return [
        (name, *map(int, numbers))
        for name, *numbers in ROW.findall(PAGE.read_text(encoding="utf-8").partition("##")[2])
    ]


def test_the_shares_of_the_first_page_are_those_of_a_cycle():
    cluster = ClusterBuilder().node("n1", gpu=8).node("n2", gpu=8)
    for name, quota, weight, _, _ in queues():
        cluster.queue(name, deserved=quota, weight=weight)
    for name, _, _, asked, _ in queues():
        for number in range(asked):
            at = "n1" if name == "guests" and number < 8 else "n2"
            runs = name == "guests" or (name == "product" and number < 4)
            cluster.job(f"{name}-{number}", queue=name, running={at: 1} if runs else None)
    ran = cluster.run()
    share = {each.name: each.fair_share["gpu"] // 1000 for each in ran.result.shares}
    assert [(name, share[name]) for name, *_ in queues()] == [
        ("research", 7),
        ("product", 8),
        ("guests", 1),
    ]
    assert [fair for *_, fair in queues()] == [7, 8, 1]
    assert Counter(name.partition("-")[0] for name in ran.evicted) == {"guests": 11}
    promised = Counter(name.partition("-")[0] for name in ran.promised)
    assert promised == {"research": 7, "product": 4}
