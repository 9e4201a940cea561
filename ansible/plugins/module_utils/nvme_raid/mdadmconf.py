"""Our ARRAY line in mdadm.conf. Text in, text out; all other lines stay as they are."""

from __future__ import annotations

HEADER = "# mdadm.conf, see mdadm.conf(5). The ARRAY line was written by nvme_raid.\n"


def line(node: str, uuid: str) -> str:
    """The line that is wanted: by UUID, so that no other array takes the name."""
    return f"ARRAY {node} metadata=1.2 UUID={uuid}"


def edited(text: str | None, node: str, uuid: str) -> str:
    """The file with exactly one line for our array, at the place of the first one it has.

    Ours are the lines that name the node (whatever UUID an array of earlier drives had) and those
    with the UUID (whatever name somebody's ``mdadm --detail --scan`` gave it).
    """
    kept: list[str] = []
    placed = False
    for entry in _entries(HEADER if text is None else text):
        if not _is_ours(entry, node, uuid):
            kept.append(entry)
        elif not placed:
            kept.append(line(node, uuid) + "\n")
            placed = True
    if not placed:
        if kept and not kept[-1].endswith("\n"):
            kept[-1] += "\n"
        kept.append(line(node, uuid) + "\n")
    return "".join(kept)


def _entries(text: str) -> list[str]:
    """The lines, each with those that continue it: they begin with a space (mdadm.conf(5))."""
    entries: list[str] = []
    for row in text.splitlines(keepends=True):
        goes_on = row[:1] in (" ", "\t") and row.strip() and not row.strip().startswith("#")
        if goes_on and entries and entries[-1].strip() and not entries[-1].startswith("#"):
            entries[-1] += row
        else:
            entries.append(row)
    return entries


def knows(text: str | None, uuid: str) -> bool:
    """Whether the file has a line for the array of that UUID, by any name."""
    return any(_has(_array(entry), uuid) for entry in _entries(text or ""))


def _is_ours(entry: str, node: str, uuid: str) -> bool:
    words = _array(entry)
    return words[:1] in ([node], [node.rpartition("/")[2]]) or _has(words, uuid)


def _array(entry: str) -> list[str]:
    """What an ARRAY line says: the node and its marks; nothing of any other line."""
    words = " ".join(row.split("#")[0] for row in entry.splitlines()).split()
    # Keywords may be shortened to three letters and are of any case (mdadm.conf(5)).
    if not words or len(words[0]) < 3 or not "array".startswith(words[0].lower()):
        return []
    return words[1:]


def _has(words: list[str], uuid: str) -> bool:
    wanted = uuid.replace(":", "").lower()
    return any(
        word.partition("=")[0].lower() == "uuid"
        and "".join(sign for sign in word.partition("=")[2] if sign.isalnum()).lower() == wanted
        for word in words
    )
