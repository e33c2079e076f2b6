"""`python -m llamaweb.run`: the whole server. See manager.py."""

import sys

from llamaweb.run.manager import main

raise SystemExit(main(sys.argv[1:]))
