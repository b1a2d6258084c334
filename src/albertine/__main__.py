"""`python -m albertine`: the same as the command `albertine`."""

import sys

from albertine.cli import main

sys.exit(main())
