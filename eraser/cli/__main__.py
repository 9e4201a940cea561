"""``python -m eraser.cli``: ``nvme-eraser`` from a checkout."""

import sys

from eraser.cli import main

sys.exit(main())
