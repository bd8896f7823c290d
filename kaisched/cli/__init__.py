"""The command line: one module per subcommand, imported only when it is asked for."""

from kaisched.cli.app import main as main
