"""The command line: one module per subcommand, imported only when it is asked for."""

from kaisched.cli.app import main as main
from kaisched.cli.kubectl import complete_main as complete_main
from kaisched.cli.kubectl import kubectl_main as kubectl_main
