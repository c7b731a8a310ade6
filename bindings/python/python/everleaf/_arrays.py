"""Arrays of NumPy, tables of pyarrow, series of pandas: in and out. None of them is needed for the rest."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from .codecs import Codec

_SIGN = 1 << 63


def is_array(keys: Any) -> bool:
    """Whether it is an array of NumPy, without importing that."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(keys, numpy.ndarray)


def _refuse_mask(array: Any) -> None:
    """Refuses arrays of which items are masked: what is behind the mask would be taken, or written, like the rest."""
    masked = sys.modules.get("numpy.ma")
    if masked is not None and isinstance(array, masked.MaskedArray):
        raise TypeError("an array is wanted, not a masked one: pass its `compressed()` or `filled()` items")


def _rows(array: Any, codec: Codec[Any], are_keys: bool = False) -> tuple[Any, str]:
    """The bytes of an array, with a row for each item; and whether they are those that are stored ("bytes"), or numbers of
    the machine, which become so on the way."""
    import numpy

    if not is_array(array):
        raise TypeError("keys and values are both arrays of NumPy, or pairs")
    if array.ndim != 1:
        raise ValueError("an array of keys or values has one dimension")
    _refuse_mask(array)
    if codec.native == "int":
        if array.dtype.kind not in "iu":
            raise TypeError(f"an array of integers is wanted, not of {array.dtype}")
        if array.dtype.kind == "u" and array.size and int(array.max()) >= _SIGN:
            raise OverflowError("an int has 64 bits")
        array = array.astype("i8", copy=False)
    elif codec.native == "float":
        if array.dtype.kind not in "fiu":
            # Of text and complex numbers NumPy would make others.
            raise TypeError(f"an array of numbers is wanted, not of {array.dtype}")
        array = _reals(array)
        if are_keys and numpy.isnan(array).any():
            raise ValueError("what is not a number has no place in an order")
    elif codec.native != "bytes":
        raise TypeError(f"arrays are for bytes, int and float, not for {codec.name}")
    elif array.dtype.hasobject:
        raise TypeError("an array of objects has no rows of bytes: pass a list")
    elif array.dtype.kind == "U" or (are_keys and (array.dtype.kind not in "SV" or array.dtype.names)):
        # Its bytes are those of the machine, and neither in order nor what the same key is elsewhere. Fields may be such.
        wanted = "keys are bytes ('S8', 'V8')" if are_keys else "values are bytes or numbers"
        raise TypeError(f"{wanted}, not {array.dtype}: open the map with a codec, or encode them")
    is_padded = array.dtype.kind == "S"
    array = numpy.ascontiguousarray(array)
    rows = array.view("u1").reshape(len(array), array.dtype.itemsize)
    if is_padded and not rows[:, -1:].all():
        # The zeros behind a shorter item are none of its bytes, and would be stored as such.
        raise ValueError(
            f"an item is shorter than the others, or ends with a zero byte: NumPy cannot tell in {array.dtype}; "
            f"pass a list, or rows of exactly {array.dtype.itemsize} bytes as 'V{array.dtype.itemsize}'"
        )
    return rows, codec.native


def _reals(array: Any) -> Any:
    """Numbers as floats of 64 bits, which must hold them."""
    import numpy

    reals = array.astype("f8", copy=False)
    if array.dtype.kind == "f":
        fits = array.dtype.itemsize <= 8 or ((reals == array) | numpy.isnan(array)).all()
    else:
        # Back: what was rounded beyond the integers cannot be turned into one, and is none of them.
        within = reals < float(numpy.iinfo(array.dtype).max) if array.dtype.itemsize == 8 else True
        fits = within is True or (numpy.where(within, reals, 0).astype(array.dtype) == array).all()
    if not fits:
        raise OverflowError(f"an item of {array.dtype} does not fit into a float of 64 bits")
    return reals


def _refuse_padded(dtype: Any, rows: Any, found: Any) -> None:
    """Refuses values that an array would show without their last bytes."""
    if dtype.kind == "S" and (found & ~rows[:, -1:].all(axis=1)).any():
        raise ValueError(
            f"a value ends with a zero byte, which NumPy takes away in {dtype}: "
            f"ask for 'V{rows.shape[1]}', or pass a list of keys"
        )


def get_many(map: Any, keys: Any, dtype: Any, out: Any, key_codec: Codec[Any], codec: Codec[Any]) -> Any:
    """As `Map.get_many`, of an array."""
    import numpy

    known = {"int": "i8", "float": "f8"}.get(codec.native)
    if out is not None:
        dtype = _out_dtype(keys, dtype, out)
    elif dtype is None and known is None:
        raise TypeError("say the dtype of the values, such as 'V100'")
    dtype = numpy.dtype(dtype if dtype is not None else known)
    if dtype.hasobject or dtype.subdtype is not None or dtype.kind == "U":
        raise TypeError("values in an array are bytes or numbers")
    if known and dtype.kind not in ("iuf" if known == "i8" else "f"):
        # NumPy would make something of it, and lose what does not fit.
        raise TypeError(f"values of {codec.name} go into an array of such numbers, not of {dtype}")
    if out is not None and any(numpy.shares_memory(keys, array) for array in out):
        raise ValueError("the arrays of `out` share memory with the keys")
    rows, form = _rows(keys, key_codec, are_keys=True)
    forms = (form, codec.native if known else "bytes")
    if out is not None and (not known or dtype == numpy.dtype(known)):
        # Straight into the caller's arrays.
        value_rows = out[0].view("u1").reshape(len(rows), dtype.itemsize)
        map.get_columns(rows, value_rows, out[1].view("u1"), forms)
        _refuse_padded(dtype, value_rows, out[1])
        return out
    # What is absent stays 0.
    items = numpy.zeros(len(rows), known or dtype)
    found = numpy.zeros(len(rows), "?")
    value_rows = items.view("u1").reshape(len(rows), items.itemsize)
    map.get_columns(rows, value_rows, found.view("u1"), forms)
    _refuse_padded(items.dtype, value_rows, found)
    if known and dtype != numpy.dtype(known):
        items = _converted(items, dtype)
    if out is not None:
        numpy.copyto(out[0], items, where=found)
        out[1][:] = found
        return out
    return items, found


def _converted(items: Any, dtype: Any) -> Any:
    """Integers or floats of 64 bits as numbers of another type; OverflowError if that cannot hold one. Floats are rounded to
    shorter ones, integers are not."""
    import numpy

    if dtype.kind in "iu":
        if items.size:
            least, greatest = numpy.iinfo(dtype).min, numpy.iinfo(dtype).max
            if int(items.min()) < least or int(items.max()) > greatest:
                raise OverflowError(f"a value does not fit into {dtype}")
        return items.astype(dtype)
    with numpy.errstate(over="ignore"):
        made = items.astype(dtype)
    if items.dtype.kind == "f":
        fits = numpy.isinf(made) == numpy.isinf(items)
    else:
        # Back: what is beyond the integers cannot be turned into one, and is none of them.
        back = made.astype(numpy.promote_types(dtype, "f8"))
        within = (back >= -(2.0**63)) & (back < 2.0**63)
        fits = numpy.where(within, back, 0).astype("i8") == items
    if not fits.all():
        raise OverflowError(f"a value does not fit into {dtype}")
    return made


def _out_dtype(keys: Any, dtype: Any, out: Any) -> Any:
    """The dtype of the values of arrays that are to be filled, which must fit."""
    import numpy

    values, found = out
    for array in (values, found):
        if not is_array(array) or array.shape != keys.shape:
            raise ValueError("`out` has two arrays with an item for each key")
        _refuse_mask(array)
        if not array.flags.c_contiguous or not array.flags.writeable:
            raise ValueError("the arrays of `out` are contiguous and can be written to")
    if numpy.shares_memory(values, found):
        raise ValueError("the arrays of `out` share memory with each other")
    if found.dtype != "?":
        raise TypeError("the second array of `out` is of bool")
    if dtype is not None and values.dtype != dtype:
        raise TypeError(f"the values of `out` are {values.dtype}, not {dtype}")
    return values.dtype


def put_many(map: Any, keys: Any, values: Any, key_codec: Codec[Any], codec: Codec[Any]) -> None:
    """As `Map.put_many`, of arrays."""
    (key_rows, form), (value_rows, value_form) = _rows(keys, key_codec, are_keys=True), _rows(values, codec)
    map.put_columns(key_rows, value_rows, (form, value_form))


def _arrow_type(codec: Codec[Any]) -> Any:
    """The type of a column; None: what its items are says so."""
    import pyarrow

    types: dict[str, Any] = {"bytes": pyarrow.binary, "str": pyarrow.string, "int": pyarrow.int64, "float": pyarrow.float64}
    return types[codec.native]() if codec.native else None


def record_batches(pairs: Iterator[tuple[Any, Any]], size: int, codecs: tuple[Codec[Any], Codec[Any]]) -> Iterator[Any]:
    """Record batches of so many pairs."""
    import pyarrow

    if size < 1:
        raise ValueError(f"a batch has one pair at least, not {size}")
    types = [_arrow_type(codec) for codec in codecs]
    while block := list(islice(pairs, size)):
        columns = [pyarrow.array(list(column), type) for column, type in zip(zip(*block), types)]
        yield pyarrow.RecordBatch.from_arrays(columns, names=["key", "value"])


def table(batches: Iterator[Any], codecs: tuple[Codec[Any], Codec[Any]]) -> Any:
    """A table of all of them. What says its type itself, and is of several, gets one that holds them all."""
    import pyarrow

    types = [_arrow_type(codec) or pyarrow.null() for codec in codecs]
    empty = pyarrow.schema(zip(["key", "value"], types)).empty_table()
    tables = [pyarrow.Table.from_batches([batch]) for batch in batches]
    return pyarrow.concat_tables([empty, *tables], promote_options="permissive")


def series(pairs: Iterator[tuple[Any, Any]]) -> Any:
    """A series of pandas."""
    import pandas

    block = list(pairs)
    index = pandas.Index([key for key, _ in block], name="key")
    return pandas.Series([value for _, value in block], index=index, name="value")


def put_arrow(map: Any, source: Any, key: str, value: str) -> int:
    """As `Map.put_arrow`."""
    if hasattr(source, "to_batches"):
        batches: Iterable[Any] = source.to_batches()
    elif hasattr(source, "schema") and hasattr(source, "column"):
        batches = [source]
    else:
        batches = source
    count = 0
    for batch in batches:
        keys, values = batch.column(key).to_pylist(), batch.column(value).to_pylist()
        map.put_pairs(zip(keys, values))
        count += len(keys)
    return count


def put_pandas(map: Any, source: Any, value: str | None) -> int:
    """As `Map.put_pandas`."""
    if hasattr(source, "columns"):
        if value is None:
            raise TypeError("say which column of the frame has the values")
        source = source[value]
    keys, values = source.index.tolist(), source.tolist()
    map.put_pairs(zip(keys, values))
    return len(keys)
