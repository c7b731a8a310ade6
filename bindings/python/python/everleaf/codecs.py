"""Encodings of keys and values. Those of keys keep the order: bytes compare as the objects do."""

from __future__ import annotations

import json as _json
import struct as _struct
from dataclasses import dataclass
from typing import Any, Callable, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Codec(Generic[T]):
    """A pair of functions between objects and bytes."""

    name: str
    encode: Callable[[T], bytes]
    decode: Callable[[bytes], T]


def _raw(data: bytes | bytearray | memoryview) -> bytes:
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    raise TypeError(f"bytes are wanted, not {type(data).__name__}: open the map with a codec")


def _text(text: str) -> bytes:
    if isinstance(text, str):
        return text.encode()
    raise TypeError(f"a str is wanted, not {type(text).__name__}")


def _int(number: int) -> bytes:
    if not isinstance(number, int):
        raise TypeError(f"an int is wanted, not {type(number).__name__}")
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError("an int key has 64 bits")
    return (number + (1 << 63)).to_bytes(8, "big")


def _float(number: float) -> bytes:
    if number != number:
        raise ValueError("what is not a number has no place in an order")
    (bits,) = _struct.unpack(">Q", _struct.pack(">d", float(number) + 0.0))
    # Negative numbers the other way round, and before the positive ones.
    return int(bits ^ (0xFFFF_FFFF_FFFF_FFFF if bits >> 63 else 1 << 63)).to_bytes(8, "big")


def _unfloat(data: bytes) -> float:
    bits = int.from_bytes(data, "big")
    bits ^= (1 << 63) if bits >> 63 else 0xFFFF_FFFF_FFFF_FFFF
    return float(_struct.unpack(">d", bits.to_bytes(8, "big"))[0])


raw: Codec[bytes] = Codec("bytes", _raw, lambda data: data)
text: Codec[str] = Codec("str", _text, lambda data: data.decode())
integer: Codec[int] = Codec("int", _int, lambda data: int.from_bytes(data, "big") - (1 << 63))
real: Codec[float] = Codec("float", _float, _unfloat)
json: Codec[Any] = Codec(
    "json",
    lambda value: _json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(),
    lambda data: _json.loads(data),
)

_BY_TYPE: dict[Any, Codec[Any]] = {
    bytes: raw, str: text, int: integer, float: real, "json": json,
}


def find(of: Any) -> Codec[Any]:
    """The codec for `bytes`, `str`, `int`, `float`, `"json"`, or a `Codec` itself."""
    if isinstance(of, Codec):
        return of
    try:
        return _BY_TYPE[of]
    except (KeyError, TypeError):
        raise TypeError(f"there is no codec for {of!r}: pass an everleaf.codecs.Codec") from None
