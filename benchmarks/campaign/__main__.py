"""What a campaign's turn costs by the number of its slots.

``python -m benchmarks.campaign``: 1,000 and 10,000 drives on offer, a campaign about all of
them, and some of its turns, each of which takes twenty drives. Placement answers at once with
what the record says: what is timed is our processor, SQLite in it. A turn that grew with the
campaign would make the whole of it grow with the square.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import sqlalchemy as sa

from benchmarks.page import record
from quarantine.record.database import models
from quarantine.record.database.engine import make_engine, writing
from quarantine.record.pages import CampaignQuery
from quarantine.record.store import Store
from quarantine.record.words.facts import Initiator
from quarantine.service.campaigns import STEPS, CampaignWork


def main() -> None:
    """Prints the milliseconds of a turn and of a slot that was acted on, for each size."""
    parser = argparse.ArgumentParser(prog="benchmarks.campaign", description=__doc__)
    parser.add_argument("--slots", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--turns", type=int, default=10)
    args = parser.parse_args()
    for count in args.slots:
        with tempfile.TemporaryDirectory(prefix="nvme-campaign-") as directory:
            store = _record(Path(directory, "record.db"), count)
            work = CampaignWork(store, store.slot, lambda _record: ())
            taken, done = [], 0
            for _ in range(args.turns):
                begun = time.process_time()
                done += work.advance_all(STEPS)
                taken.append(1000 * (time.process_time() - begun))
            store.close()
        print(
            f"{count} slots: a turn {statistics.median(taken):.0f} ms, at most {max(taken):.0f}; "
            f"a slot {sum(taken) / max(done, 1):.1f} ms of {done}"
        )


def _record(file: Path, count: int) -> Store:
    """All of its drives are on offer, and one campaign is about each."""
    url = record.write(file, count, 1)
    engine = make_engine(url)
    with writing(engine) as db:
        db.execute(sa.update(models.slots).values(state="available", hold_code=None, alarm=""))
    engine.dispose()
    store = Store.open(url)
    slots = [place[1:4] for place in store.campaign_places(CampaignQuery())]
    by = Initiator("benchmark")
    store.begin_campaign("all", query="{}", reason="benchmark", keep=0.0, by=by, slots=slots)
    return store


if __name__ == "__main__":
    main()
