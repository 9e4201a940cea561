"""Honest time stamps that the library would refuse, changed where no signature is over them.

The certificates in the order that DER asks for: OpenSSL's authorities send theirs as they were
configured, and the library reads DER strictly (X.690, 11.6: the elements of a SET OF ascend). And a
stamp that was granted with changes as one that was granted: the library takes no other.
"""

from __future__ import annotations

from collections.abc import Iterator

_CERTIFICATES = 0xA0
"""SignedData's certificates, [0] IMPLICIT SET (RFC 5652, 5.1)."""


def sorted_certificates(answer: bytes) -> bytes:
    """The same TimeStampResp with its certificates sorted; what is none comes back as it is."""
    try:
        # TimeStampResp: the status, and a ContentInfo. That: its type, and the SignedData in [0].
        _status, content = _children(answer, *_inside(answer, 0))
        _oid, explicit = _children(answer, *_inside(answer, content[0]))
        (signed,) = _children(answer, *_inside(answer, explicit[0]))
        for start, _end in _children(answer, *_inside(answer, signed[0])):
            if answer[start] == _CERTIFICATES:
                first, last = _inside(answer, start)
                # Sorted as bytes, headers included: that is DER's order of a SET OF.
                found = sorted(answer[a:b] for a, b in _children(answer, first, last))
                return answer[:first] + b"".join(found) + answer[last:]
    except (ValueError, IndexError):
        # Of another shape: the library gets it as it came, and says what is wrong with it.
        pass
    return answer


def as_granted(answer: bytes) -> bytes:
    """The same TimeStampResp with the status 0 in place of 1; what is none comes back as it is."""
    try:
        status, _token = _children(answer, *_inside(answer, 0))
        number, *_rest = _children(answer, *_inside(answer, status[0]))
        begin, end = _inside(answer, number[0])
    except (ValueError, IndexError):
        return answer
    return answer[:begin] + b"\0" + answer[end:] if answer[begin:end] == b"\1" else answer


def _inside(der: bytes, at: int) -> tuple[int, int]:
    """Where the content of the element at ``at`` begins and ends (X.690, 8.1.3)."""
    length, begin = der[at + 1], at + 2
    # Long form: the low seven bits say in how many bytes the length itself follows.
    if length & 0x80:
        begin += length & 0x7F
        length = int.from_bytes(der[at + 2 : begin], "big")
    if begin + length > len(der):
        raise ValueError("expected an element within the message")
    return begin, begin + length


def _children(der: bytes, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each element, header included."""
    while begin < end:
        _content, after = _inside(der, begin)
        if after > end:
            raise ValueError("expected an element within the one around it")
        yield begin, after
        begin = after
