"""Encodings of keys and values. Those of keys keep the order: bytes compare as the objects do."""

from __future__ import annotations

import json as _json
import math as _math
import operator as _operator
import pickle as _pickle
import struct as _struct
from dataclasses import dataclass
from typing import Any, Callable, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Codec(Generic[T]):
    """A pair of functions between objects and bytes. `native`: the compiled codec that does the same."""

    name: str
    encode: Callable[[T], bytes]
    decode: Callable[[bytes], T]
    native: str = ""


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
        try:
            # Those of NumPy are as good.
            number = _operator.index(number)
        except TypeError:
            raise TypeError(f"an int is wanted, not {type(number).__name__}") from None
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError("an int has 64 bits")
    return (number + (1 << 63)).to_bytes(8, "big")


def _float(number: float) -> bytes:
    # It refuses text, which `float` reads.
    if _math.isnan(number):
        raise ValueError("what is not a number has no place in an order")
    real = float(number)
    given: Any = number
    if hasattr(given, "__index__") and _operator.index(given) != real:
        raise OverflowError("a float of 64 bits does not hold this int")
    (bits,) = _struct.unpack(">Q", _struct.pack(">d", real + 0.0))
    # Negative numbers the other way round, and before the positive ones.
    return int(bits ^ (0xFFFF_FFFF_FFFF_FFFF if bits >> 63 else 1 << 63)).to_bytes(8, "big")


def _unfloat(data: bytes) -> float:
    bits = int.from_bytes(data, "big")
    bits ^= (1 << 63) if bits >> 63 else 0xFFFF_FFFF_FFFF_FFFF
    return float(_struct.unpack(">d", bits.to_bytes(8, "big"))[0])


def _unnumber(data: bytes) -> bytes:
    if len(data) != 8:
        raise ValueError("what is stored is no number")
    return data


raw: Codec[bytes] = Codec("bytes", _raw, lambda data: data, "bytes")
text: Codec[str] = Codec("str", _text, lambda data: data.decode(), "str")
integer: Codec[int] = Codec(
    "int", _int, lambda data: int.from_bytes(_unnumber(data), "big") - (1 << 63), "int"
)
# This is how keys are stored. Compiled it is so for values, too, but of any float: NaN, and a zero with its sign.
real: Codec[float] = Codec("float", _float, lambda data: _unfloat(_unnumber(data)), "float")
json: Codec[Any] = Codec(
    "json",
    lambda value: _json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(),
    lambda data: _json.loads(data),
)
# Loading a pickle runs what it says: only for files that nobody else can write.
pickle: Codec[Any] = Codec("pickle", _pickle.dumps, _pickle.loads)

_BY_TYPE: dict[Any, Codec[Any]] = {
    bytes: raw, str: text, int: integer, float: real, "json": json, "pickle": pickle,
}


def struct(*parts: Any) -> Codec[tuple[Any, ...]]:
    """Tuples of so many parts, each of `bytes`, `str`, `int` or `float`, in the order of tuples.

    >>> key = struct(str, int)
    >>> key.encode(("oak", 7)) < key.encode(("oak", 10)) < key.encode(("oaks", -1))
    True
    >>> key.decode(key.encode(("oak", 7)))
    ('oak', 7)
    """
    codecs = [find(part) for part in parts]
    for codec in codecs:
        if not codec.native:
            raise TypeError(f"a part of a key is bytes, str, int or float, not {codec.name}")

    def encode(values: tuple[Any, ...]) -> bytes:
        if not isinstance(values, tuple) or len(values) != len(codecs):
            raise TypeError(f"a tuple of {len(codecs)} parts is wanted, not {values!r}")
        return b"".join(_part(codec, value) for codec, value in zip(codecs, values))

    def decode(data: bytes) -> tuple[Any, ...]:
        values = []
        for codec in codecs:
            part, data = _split(codec, data)
            values.append(codec.decode(part))
        if data:
            raise ValueError("what is stored has more parts")
        return tuple(values)

    return Codec(f"struct({', '.join(codec.name for codec in codecs)})", encode, decode)


def _part(codec: Codec[Any], value: Any) -> bytes:
    """A part of a key: numbers as they are; else two zero bytes end it, and a zero byte in it is followed
    by the highest one, so that what is shorter comes first."""
    data = codec.encode(value)
    return data if codec.native in ("int", "float") else data.replace(b"\0", b"\0\xff") + b"\0\0"


def _split(codec: Codec[Any], data: bytes) -> tuple[bytes, bytes]:
    """The first part of a key, and the rest."""
    if codec.native in ("int", "float"):
        return data[:8], data[8:]
    at = data.find(b"\0")
    while at >= 0 and data[at + 1:at + 2] == b"\xff":
        at = data.find(b"\0", at + 2)
    if at < 0 or data[at + 1:at + 2] != b"\0":
        raise ValueError("what is stored has an end missing")
    return data[:at].replace(b"\0\xff", b"\0"), data[at + 2:]


def find_of_keys(of: Any) -> Codec[Any]:
    """As `find`, of what keeps the order."""
    codec = find(of)
    if codec is json or codec is pickle:
        raise TypeError(f"the bytes of {codec.name} are in no order, and not the same for equal objects: they are for values")
    return codec


def find(of: Any) -> Codec[Any]:
    """The codec for `bytes`, `str`, `int`, `float`, `"json"`, `"pickle"`, or a `Codec` itself."""
    if isinstance(of, Codec):
        return of
    try:
        return _BY_TYPE[of]
    except (KeyError, TypeError):
        raise TypeError(f"there is no codec for {of!r}: pass an everleaf.codecs.Codec") from None
