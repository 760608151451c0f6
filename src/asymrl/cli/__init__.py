"""The command `asymrl`."""

from asymrl.cli.command import main as main
