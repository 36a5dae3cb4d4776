"""The fingerprint of a set of pods, as exporters put it on a report, so that it can be told which pods the report counts.

For `reports`.  It is that of github.com/k8stopologyawareschedwg/podfingerprint, version v001: XXH64 of each pod's name, seeded
with the XXH64 of its namespace; these, sorted, as little-endian numbers, hashed again.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

PREFIX: Final = "pfp0v001"
_MASK: Final = 2**64 - 1
_P1: Final = 0x9E3779B185EBCA87
_P2: Final = 0xC2B2AE3D27D4EB4F
_P3: Final = 0x165667B19E3779F9
_P4: Final = 0x85EBCA77C2B2AE63
_P5: Final = 0x27D4EB2F165667C5
_BLOCK: Final = 32


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """Return the fingerprint of pods, given as namespace and name, in whatever order."""
    hashes = sorted(_of_pod(namespace, name) for namespace, name in pods)
    total = xxh64(b"".join(value.to_bytes(8, "little") for value in hashes))
    return f"{PREFIX}{total:016x}"


@lru_cache(maxsize=65_536)
def _of_pod(namespace: str, name: str) -> int:
    return xxh64(name.encode(), xxh64(namespace.encode()))


def xxh64(data: bytes, seed: int = 0) -> int:
    """Return the 64-bit xxHash of some bytes (https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md)."""
    size, position = len(data), 0
    if size >= _BLOCK:
        lanes = [(seed + _P1 + _P2) & _MASK, (seed + _P2) & _MASK, seed, (seed - _P1) & _MASK]
        while position + _BLOCK <= size:
            lanes = [_round(lane, _word(data, position + 8 * i)) for i, lane in enumerate(lanes)]
            position += _BLOCK
        total = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            total = ((total ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        total = (seed + _P5) & _MASK
    return _finished((total + size) & _MASK, data[position:])


def _finished(total: int, rest: bytes) -> int:
    """Return the hash after the bytes that fill no block, and mix it."""
    position = 0
    while position + 8 <= len(rest):
        total = (_rotated(total ^ _round(0, _word(rest, position)), 27) * _P1 + _P4) & _MASK
        position += 8
    if position + 4 <= len(rest):
        half = int.from_bytes(rest[position : position + 4], "little")
        total = (_rotated(total ^ (half * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        position += 4
    for byte in rest[position:]:
        total = _rotated(total ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    total = (total ^ total >> 33) * _P2 & _MASK
    total = (total ^ total >> 29) * _P3 & _MASK
    return total ^ total >> 32


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _word(data: bytes, position: int) -> int:
    return int.from_bytes(data[position : position + 8], "little")
