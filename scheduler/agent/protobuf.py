"""Takes a protobuf message apart into its fields of bytes, which is all that is read of the kubelet's answers.

For `pod_resources`.  The encoding is that of https://protobuf.dev/programming-guides/encoding; numbers are skipped.
"""

from __future__ import annotations

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIZES = {_FIXED64: 8, _FIXED32: 4}
_LONGEST_VARINT = 10


class ProtobufError(ValueError):
    """Bytes are no message."""


def fields_of(message: bytes) -> dict[int, list[bytes]]:
    """Return the texts, bytes and messages in a message by the number of their field, in order."""
    found: dict[int, list[bytes]] = {}
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        kind = tag & 7
        if kind == _VARINT:
            _, position = _varint(message, position)
            continue
        if kind == _BYTES:
            size, position = _varint(message, position)
        elif kind in _SIZES:
            size = _SIZES[kind]
        else:
            raise ProtobufError(f"wire type {kind} at byte {position}; allowed are 0, 1, 2 and 5")
        if position + size > len(message):
            raise ProtobufError(f"a field of {size} bytes begins at byte {position} of {len(message)}")
        if kind == _BYTES:
            found.setdefault(tag >> 3, []).append(message[position : position + size])
        position += size
    return found


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(_LONGEST_VARINT):
        if position >= len(message):
            raise ProtobufError("it ends within a number")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << 7 * shift
        if not byte & 0x80:
            return value, position
    raise ProtobufError(f"a number before byte {position} is too long")
