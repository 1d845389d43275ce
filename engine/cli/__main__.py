"""`python -m engine.cli`: the command `ragdoll` where nothing is installed."""

import sys

from engine.cli import main

sys.exit(main())
