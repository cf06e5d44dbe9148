"""Run the command as ``python -m weightspace``."""

from weightspace.cli.main import main

main()
