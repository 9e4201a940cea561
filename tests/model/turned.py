"""A plugin of pytest that turns one guard around before any test is imported.

``NVME_QUARANTINE_TURNED=GUARD python -m pytest -p tests.model.turned tests/unit/...``: for guards
that are about what the model does not have. The test that is named for each has to go red.
"""

from __future__ import annotations

import importlib
import os

from tests.model.mutate import guards, turn_in_place

_NAME = os.environ["NVME_QUARANTINE_TURNED"]
_MODULES = (
    *("eraser.ownership.counters", "eraser.ownership.revocation", "eraser.ownership.atrest"),
    *(
        "eraser.gate.rules",
        "eraser.gate.intake",
        "quarantine.rules.decide",
        "quarantine.rules.reports.receipts",
    ),
)

_MODULE = next(m for m in _MODULES if m.endswith("." + _NAME.split(".")[0]))
_TARGET = importlib.import_module(_MODULE)
turn_in_place(_TARGET, next(guard for guard in guards(_TARGET) if str(guard) == _NAME))
