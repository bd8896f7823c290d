"""The hypothesis profiles, for every test of the project; nothing else is global.

``dev`` looks for something new in each run and is quick; ``ci`` looks longer and always at the same
examples, so that a red build is about the change in it. Choose with ``HYPOTHESIS_PROFILE``.
"""

import os

from hypothesis import HealthCheck, settings

# No deadlines: a test machine that is busy is no defect of the code.
settings.register_profile(
    "dev",
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    max_examples=200,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))
