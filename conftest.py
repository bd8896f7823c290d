"""What holds for the tests in ``tests`` and for those beside the plugins alike.

The examples of laws and the check after every cycle; and a test that failed while the machine stood
still is run again. The example plugins have a project of their own, and see nothing of it.
"""

pytest_plugins = ("tests.every_test", "tests.standing_still")
