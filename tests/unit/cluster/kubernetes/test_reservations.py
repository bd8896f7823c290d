"""Answers to the making of reservation pods: refused for good, or to be asked again."""

import msgspec
import pytest

from kaisched.cluster.kubernetes.binder import PassingError, StepFailedError
from kaisched.cluster.kubernetes.client import Answer
from kaisched.cluster.kubernetes.gpu_reservations import Maker
from kaisched.objects.gpus import Card
from kaisched.objects.shard import GpuSharing

QUOTA = 'pods "r" is forbidden: exceeded quota: none, requested: pods=1, used: pods=0'
RIGHT = 'pods is forbidden: User "ann" cannot create resource "pods" in API group ""'


@pytest.mark.fault("I138")
@pytest.mark.parametrize(
    ("code", "message", "error"),
    [
        (403, QUOTA, StepFailedError),
        (422, "not today", StepFailedError),
        (403, RIGHT, PassingError),
        (401, "who are you", PassingError),
        (503, "busy", PassingError),
    ],
)
def test_what_admission_refuses_is_an_answer(writers, monkeypatch, code, message, error):
    answer = Answer(code, msgspec.json.encode({"code": code, "message": message}))
    monkeypatch.setattr(writers.client, "call", lambda *_, **__: answer)
    with pytest.raises(error, match=message.partition(":")[0]):
        Maker(writers, GpuSharing(), "nvidia.com/gpu").make(Card("n0", "g"))
