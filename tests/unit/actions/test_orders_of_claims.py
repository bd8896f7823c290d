"""Unequal pods of a claim are placed in another order where their own leaves one without room."""

from dataclasses import replace

from kaisched.testing import ClusterBuilder


def unequal(builder: ClusterBuilder, *gpus: int) -> ClusterBuilder:
    """Let the pods of the last job ask for so many GPUs each."""
    job = builder._jobs[-1]
    tasks = [
        replace(task, request={**task.request, "gpu": number * 1000})
        for task, number in zip(job.tasks, gpus, strict=True)
    ]
    builder._jobs[-1] = replace(job, tasks=tasks)
    return builder


def test_reclaim_makes_room_for_a_gang_whose_largest_pod_must_go_first() -> None:
    """In their order the first pod takes the node on which the second one has to be."""
    builder = ClusterBuilder().queue("a", deserved=7).queue("b")
    builder.node("n3", gpu=3).node("n4", gpu=4)
    builder.job("b1", queue="b", running={"n4": 1})
    builder.job("a1", queue="a", tasks=3)
    ran = unequal(builder, 2, 3, 2).run("allocate", "reclaim")
    assert list(ran.evicted) == ["b1-0"]
    assert ran.promised == {"a1-0": "n4", "a1-1": "n3", "a1-2": "n4"}


def test_nothing_goes_where_no_order_of_the_pods_fits() -> None:
    builder = ClusterBuilder().queue("a", deserved=5).queue("b")
    builder.node("n2", gpu=2).node("m2", gpu=2).node("n1", gpu=1)
    builder.job("b1", queue="b", running={"n2": 1})
    builder.job("a1", queue="a", tasks=3)
    ran = unequal(builder, 1, 1, 3).run("allocate", "reclaim")
    assert (list(ran.evicted), ran.promised) == ([], {})
