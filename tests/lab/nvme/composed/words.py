"""The words of triggers: conditions over what the host did since the erase, each with its source.

A word is about the read at hand (its order, size, path, place) or about what has happened. The
numbers that may be drawn stand beside it; other numbers are valid, a seed does not draw them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Word:
    """One condition.

    ``says`` is its phrase by choice ("" where there is none to choose), in which ``{n}`` is the
    number. ``undetectable`` is why no eraser can be asked to find it, "" where it can.
    """

    name: str
    says: dict[str, str]
    source: str
    numbers: tuple[int, ...] = (1,)
    of_read: bool = False
    undetectable: str = ""

    @property
    def choices(self) -> tuple[str, ...]:
        """What there is to choose from, at least one."""
        return tuple(self.says)


_LATE = "the host would have to wait for longer than it may keep the drive"
_SECRET = "the host would have to guess a secret"
_WEAR = "the host would have to wear the drive out"

_FAST13 = "Zheng et al., Understanding the Robustness of SSDs under Power Fault, FAST 2013"
_FAST11 = "Wei et al., Reliably Erasing Data from Flash-Based Solid State Drives, FAST 2011"

WORDS: tuple[Word, ...] = (
    Word(
        "order",
        {
            "backward": "to a read before the one before, {n} in a row",
            "jumping": "to a read that does not follow the one before, {n} in a row",
            "sequential": "to a read that follows the one before, {n} in a row",
            "again": "to a read of the place that was read just before, {n} in a row",
        },
        "Read-ahead and its cache: NVM 3.2.4 (Sequential Request and Access Latency in DSM); "
        "stale reads of a DRAM-less drive that depend on how a file is read: "
        "github.com/raspberrypi/linux/issues/7551",
        (1, 1, 2, 3),
        of_read=True,
    ),
    Word(
        "size",
        {
            "block": "to a read of a single block",
            "small": "to a read of less than 4 KiB",
            "page": "to a read of 4 KiB",
            "large": "to a read of more than half of what it transfers at most",
            "odd": "to a read of a number of blocks that is no power of two",
        },
        "MDTS: Base 5.17.2.1; mapping units of 4 KiB under blocks of 512 bytes: NVM, NPWG; "
        "a transfer over a number of pages goes by a PRP list, which drives get wrong: "
        "NVME_QUIRK_DMAPOOL_ALIGN_512 in drivers/nvme/host/pci.c, nvme_id_table, 1217:8760",
        of_read=True,
    ),
    Word(
        "alignment",
        {
            "block": "to a read that does not begin at 4 KiB",
            "buffer": "to a read into memory that does not begin at a page",
        },
        "PRP offset: Base 4.1.1; data errors at 4 KiB misaligned addresses: "
        "github.com/Cosmos-OpenSSD/Cosmos-plus-OpenSSD/issues/7 and /issues/4; "
        "NVME_QUIRK_STRIPE_SIZE in nvme_id_table, 8086:0953",
        of_read=True,
    ),
    Word(
        "path",
        {
            "fua": "to a read with FUA",
            "limited-retry": "to a read with Limited Retry",
            "hinted": "to a read with hints in DSM",
            "metadata": "to a read with a metadata buffer",
            "compare": "to a Compare",
        },
        "FUA, LR, DSM and MPTR of Read: NVM 3.2.4, figures of command dwords 12 and 13; "
        "Compare: NVM 3.2.1. A read with FUA has to come from the media: NVM 3.2.4",
        of_read=True,
    ),
    Word(
        "queue",
        {
            "above": "to a read from an I/O queue above {n}",
            "only": "to a read from I/O queue {n}",
        },
        "Queues: Base 3.3.1; drives that go wrong with more than one queue or entry: "
        "NVME_QUIRK_QDEPTH_ONE, NVME_QUIRK_SHARED_TAGS in nvme_id_table, 106b:2001 and 106b:2005",
        (1, 2, 4),
        of_read=True,
    ),
    Word(
        "unasked",
        {
            "read": "where the host had read nothing before the erase",
            "written": "where the host had written nothing before the erase",
            "either": "where the host had neither read nor written before the erase",
        },
        "None reported: a drive that is made to please whoever probes it, as the lab's "
        "canary-eater is by writes alone",
        of_read=True,
    ),
    Word(
        "nth",
        {"": "from read {n} of a page on"},
        "Read disturb and refresh move a page after a number of reads, NVM 3.2.4 knows no limit; "
        "reads that differ from one to the next: github.com/raspberrypi/linux/issues/7551",
        (2, 3, 5),
        of_read=True,
    ),
    Word(
        "reset",
        {
            "controller": "after {n} resets of the controller",
            "subsystem": "after {n} resets of the subsystem",
            "function": "after {n} function level resets",
            "bus": "after {n} resets of the bus",
            "power": "after {n} power cycles",
            "any": "after {n} resets of whatever kind",
        },
        "Base 3.7; drives with reset methods of their own in drivers/pci/quirks.c: "
        "delay_250ms_after_flr (8086:0953, 8086:0a54), nvme_disable_and_flr (144d:a804); "
        f"an erase that works only on a drive that was reset: {_FAST11}",
        (1, 1, 1, 2, 3),
    ),
    Word(
        "taken",
        {"": "after a driver took it {n} times"},
        "CC.EN: Base 3.5.1; NVME_QUIRK_DELAY_BEFORE_CHK_RDY in nvme_id_table, 144d:a821",
        (1, 2, 3),
    ),
    Word(
        "left",
        {"": "after {n} announced shutdowns"},
        "CC.SHN: Base 3.6.1; what a shutdown flushes and a reset does not: "
        "github.com/pipcet/pearl/issues/4",
        (1, 1, 2),
    ),
    Word(
        "wrote",
        {
            "anywhere": "after {n} writes",
            "here": "after a write to the same 4 KiB",
            "near": "after a write within 64 KiB",
            "far": "after a write further away than 1 MiB",
        },
        "Read, modify, write of a mapping unit: NVM, NPWG; old contents beside new ones, and "
        f"writes that come undone: shorn and unserializable writes in {_FAST13}",
        (1, 1, 2, 16),
    ),
    Word(
        "command",
        {
            "deallocate": "after {n} Dataset Management commands",
            "write-zeroes": "after {n} Write Zeroes commands",
            "flush": "after {n} Flush commands",
            "verify": "after {n} Verify commands",
            "compare": "after {n} Compare commands",
            "fua": "after {n} writes with FUA",
            "identify": "after {n} Identify commands",
            "smart": "after {n} looks at the health log",
            "sanitize-log": "after {n} looks at the sanitize log",
            "firmware-log": "after {n} looks at the firmware log",
            "get-features": "after {n} Get Features commands",
            "security": "after {n} Security Receive commands",
            "abort": "after {n} Abort commands",
            "format": "after {n} Formats without an erase",
        },
        "Commands of NVM 3 and Base 5. Drives that crash on a deallocate: "
        "github.com/util-linux/util-linux/issues/4576; that do wrong with Write Zeroes: "
        "NVME_QUIRK_DISABLE_WRITE_ZEROES in nvme_id_table, 144d:a822, 1987:5019 and others; "
        "that refuse a Format until another event: github.com/linux-nvme/nvme-cli/issues/816",
        (1, 1, 1, 3, 8),
    ),
    Word(
        "namespace",
        {
            "created": "after a namespace was created",
            "attached": "after a namespace was attached",
            "detached": "after a namespace was detached",
            "deleted": "after a namespace was deleted",
        },
        "Base 5.22, 5.23; capacity that changes with them: "
        "github.com/linux-nvme/nvme-cli/issues/454, and namespaces allocated and not seen: "
        "github.com/linux-nvme/nvme-cli/issues/2195",
    ),
    Word(
        "feature",
        {
            "power": "after a power state was set",
            "write-cache": "after the write cache was set",
            "error-recovery": "after error recovery was set",
            "timestamp": "after the time was set",
            "host-id": "after a host identifier was set",
            "queues": "after queues were asked for",
            "arbitration": "after arbitration was set",
            "thermal": "after a temperature threshold was set",
            "saved": "after any feature was saved",
        },
        "Base 5.27; drives that break in or after a power state: NVME_QUIRK_NO_DEEPEST_PS in "
        "nvme_id_table, 2646:2263 (Kingston A2000, github.com/acidanthera/NVMeFix/pull/2); by a "
        "threshold: NVME_QUIRK_NO_TEMP_THRESH_CHANGE, 8086:f1a5",
    ),
    Word(
        "queues",
        {"": "after {n} I/O queues were made at a time"},
        "Base 5.5; drives that want one: NVME_QUIRK_SINGLE_VECTOR in nvme_id_table, 106b:2001",
        (1, 2, 4, 8),
    ),
    Word(
        "count",
        {
            "reads": "after {n} reads",
            "commands": "after {n} commands of whatever kind",
            "kilobytes": "after {n} KiB were read",
        },
        "Counters that wrap or arm: drives that fail at a count of hours, "
        "h30434.www3.hp.com, Micron RealSSD C400, 5184 hours; log 02h: Base 5.16.1.3",
        (1, 3, 16, 100, 1000),
    ),
    Word(
        "time",
        {
            "since": "{n} s after the erase",
            "idle": "after {n} s without a command",
        },
        "Idle states and background work: APST, feature 0Ch; NVME_QUIRK_NO_APST in "
        "drivers/nvme/host/nvme.h; media that is ready long after the controller: "
        "github.com/linux-nvme/nvme-cli/issues/609 (20 to 30 s)",
        (1, 5, 20, 60),
    ),
    Word(
        "hours",
        {"": "{n} h after the erase"},
        "As time",
        (1, 24, 720),
        undetectable=_LATE,
    ),
    Word(
        "knock",
        {"": "after reads of three blocks that number {n} tells, one after the other"},
        "None: a back door, as an attacker with the firmware's keys would make it",
        (7, 1011, 65537),
        of_read=False,
        undetectable=_SECRET,
    ),
    Word(
        "vendor",
        {"": "after a vendor's command with number {n} in dword 13"},
        "Opcodes C0h to FFh are the vendor's: Base 5, figure of admin opcodes",
        (7, 1011, 65537),
        undetectable=_SECRET,
    ),
    Word(
        "date",
        {"": "once the host says that it is later than the year {n}"},
        "Timestamp: Base, feature 0Eh",
        (2030, 2035),
        undetectable="the host would have to lie about the time",
    ),
    Word(
        "cycles",
        {"": "after {n} power cycles"},
        "As reset",
        (10, 100),
        undetectable=_LATE,
    ),
    Word(
        "worn",
        {"": "after as much was written as {n} times its size"},
        f"Blocks that come back from the spare area: over-provisioning in {_FAST11}",
        (1, 3),
        undetectable=_WEAR,
    ),
)

BY_NAME = {word.name: word for word in WORDS}
