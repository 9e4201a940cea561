"""``python -m quarantine.cli``: ``nvme-quarantine`` from a checkout."""

import sys

from quarantine.cli import main

sys.exit(main())
