"""A cluster for the page to show: departments, racks, gangs, shared GPUs, waiting jobs."""

from dataclasses import replace

from kaisched.framework.advice.standing import StandingAdvice
from kaisched.testing.builder import HOSTNAME, ClusterBuilder
from kaisched.view.publisher import Publisher

START_S = 1_700_000_000.0
TEAMS = {
    "language": {"pretraining": 48, "alignment": 24, "evaluation": 8},
    "vision": {"detection": 24, "video": 16},
    "speech": {"recognition": 16, "synthesis": 8},
    "robotics": {"simulation": 16, "grasping": 8},
}
NODES, GPUS = 24, 8


def lab():
    """192 GPUs in six racks; `pretraining` holds more than its share, and `video` claims."""
    built = ClusterBuilder()
    built.topology("cluster", zone="zone", rack="rack", host=HOSTNAME).queue("lab")
    for at in range(NODES):
        labels = {"zone": f"hall-{at // 12 + 1}", "rack": f"rack-{at // 4 + 1}"}
        built.node(f"gpu-{at:02d}", gpu=GPUS, labels=labels, is_unschedulable=at == NODES - 1)
    for department, teams in TEAMS.items():
        built.queue(department, parent="lab", deserved=sum(teams.values()))
        for team, quota in teams.items():
            limit = 12 if team == "synthesis" else None
            built.queue(team, parent=department, deserved=quota, limit=limit)
    return _work(built)


def _work(built):
    def on(first, count, each):
        return {f"gpu-{at:02d}": each for at in range(first, first + count)}

    pods = {"gpu": 8}
    built.job("llm-70b", queue="pretraining", tasks=8, running=on(0, 8, 1), **pods)
    built.job("ablation", queue="pretraining", tasks=4, running=on(8, 4, 1), **pods)
    built.job("reward", queue="alignment", tasks=3, running=on(12, 3, 1), **pods)
    built.job("boxes", queue="detection", tasks=8, gpu=2, running=on(15, 2, 4))
    built.job("asr", queue="recognition", tasks=8, gpu=1, running=on(17, 1, 8))
    built.job("voices", queue="synthesis", tasks=3, gpu=4, running={"gpu-18": 2, "gpu-19": 1})
    built.job("arm", queue="grasping", tasks=2, gpu=2, running=on(19, 1, 2))
    built.job("world", queue="simulation", tasks=10, gpu=1, running={"gpu-20": 8, "gpu-21": 2})
    for name, part in (("notebook", 0.5), ("probe", 0.25), ("demo", 0.25)):
        built.job(name, queue="evaluation", gpu=part, running=on(21, 1, 1), on_cards=[["a"]])
    built.job("clips", queue="video", tasks=2, priority=60, **pods)
    built.job("llm-405b", queue="pretraining", tasks=16, **pods)
    built.job("tones", queue="synthesis", tasks=1, gpu=4)
    built.job("rlhf", queue="alignment", tasks=2, **pods)
    for at in range(120):
        built.job(f"sweep-{at:03d}", queue="evaluation", gpu=1)
    # Rows of the builder are created seconds after 1970; the page shows ages.
    built._jobs = [
        replace(it, created_s=START_S - 86_400 + 600 * it.created_s, started_s=START_S - 3600)
        for it in built._jobs
    ]
    return built


def published(cycles=40):
    """Return a publisher with the views of some cycles on the lab; the last one moves things."""
    publisher = Publisher("default", StandingAdvice())
    quiet, busy = lab().run("stalegang"), lab().run()
    for cycle in range(1, cycles + 1):
        ran = busy if cycle == cycles else quiet
        took_s = 0.004 + 0.002 * ((cycle * 7) % 5)
        by_action = {"allocate": took_s * 0.5, "reclaim": took_s * 0.3, "preempt": took_s * 0.05}
        by_plugin = {"predicates": took_s * 0.4, "priority": took_s * 0.2}
        publisher.take(
            ran.result,
            cycle=cycle,
            time_s=START_S + cycle,
            duration_s=took_s,
            by_action=by_action,
            by_plugin=by_plugin,
        )
    # Asked from any thread, and answered at once: no loop is under way here.
    publisher.inquiries.ring = lambda: publisher.inquiries.answer(ran.result)
    return publisher
