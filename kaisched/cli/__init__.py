"""The command line: a module per family of commands, imported only when it is asked for."""

from kaisched.cli.app import complete_main as complete_main
from kaisched.cli.app import kubectl_main as kubectl_main
from kaisched.cli.app import main as main
