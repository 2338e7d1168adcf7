"""``python3 -m harness``: the command line from a source tree with nothing installed."""

from harness.cli import main

main()
