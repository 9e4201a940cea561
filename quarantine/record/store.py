"""The store: one front for every room, one database behind it."""

from __future__ import annotations

from quarantine.doors import Clock, utc_now
from quarantine.record.alarms import AlarmRepository
from quarantine.record.campaigns import CampaignRepository
from quarantine.record.certificates import CertificateRepository
from quarantine.record.database import engine as door
from quarantine.record.database import migrate
from quarantine.record.documents import DocumentRepository
from quarantine.record.drives import DriveRepository
from quarantine.record.history import HistoryRepository
from quarantine.record.hosts import HostRepository
from quarantine.record.maintenances import MaintenanceRepository
from quarantine.record.messages import MessageRepository
from quarantine.record.pages import PageRepository
from quarantine.record.servers import ServerRepository
from quarantine.record.slots import SlotRepository
from quarantine.record.totals import TotalsRepository


class Store(
    SlotRepository,
    HistoryRepository,
    TotalsRepository,
    HostRepository,
    DriveRepository,
    MessageRepository,
    DocumentRepository,
    CertificateRepository,
    PageRepository,
    ServerRepository,
    MaintenanceRepository,
    CampaignRepository,
    AlarmRepository,
):
    """What the control plane remembers. Threads may share one; a forked process opens its own.

    Losing it frees nothing: drives stay reserved in Placement, and enrolment erases first.
    """

    @classmethod
    def open(cls, url: str, *, clock: Clock = utc_now) -> Store:
        """A store on ``url`` (``sqlite:///FILE``, ``postgresql://...``), as yet unasked.

        Raises :class:`BadInputError` for a URL that is none. Call :meth:`migrate` or
        :meth:`require_schema` next.
        """
        return cls(door.make_engine(url), clock)

    def migrate(self) -> str:
        """Brings the schema to this release's and returns its revision.

        Makes a missing SQLite file. Raises :class:`UnavailableError` where that fails, and for a
        newer schema, without touching it.
        """
        door.make_file_private(self._engine.url)
        with door.upgrading(self._engine) as db:
            migrate.upgrade(db)
        return migrate.head()

    def require_schema(self) -> None:
        """Raises :class:`UnavailableError` unless the schema is this release's."""
        with self._reading() as db:
            if migrate.is_current(db):
                return
        with self._reading() as db:
            # A transaction of its own: in PostgreSQL a failed statement spoils the one it is in.
            revision = migrate.current(db)
        migrate.require_current(revision)

    def answer(self) -> None:
        """Raises :class:`UnavailableError` where the database does not."""
        with self._reading() as db:
            db.exec_driver_sql("SELECT 1")

    def close(self) -> None:
        """Gives the connections back; the store may be used again all the same."""
        self._engine.dispose()
