"""Rows, requests and texts as the lines that the program reads, and its lines as Python's values."""
import datetime
import decimal
import json
import math
import os
import uuid
from collections.abc import Mapping


def is_path(given):
    return isinstance(given, (str, os.PathLike))


def plain(value):
    """A value that JSON does not have, as one that it has. A number of NumPy becomes Python's."""
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat(" ") if isinstance(value, datetime.datetime) else value.isoformat()
    if isinstance(value, (decimal.Decimal, uuid.UUID, os.PathLike)):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if hasattr(value, "tolist"):  # an array or a number of NumPy
        return value.tolist()
    raise TypeError(f"a value of type {type(value).__name__} cannot be written as JSON: {value!r:.80}")


def without_nan(value):
    """The value with None for every NaN and infinity, which JSON lacks."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_nan(item) for item in value]
    return value


def encode(item):
    try:
        text = json.dumps(item, ensure_ascii=False, default=plain, allow_nan=False)
    except ValueError as fault:
        if "JSON compliant" not in str(fault):
            raise
        text = json.dumps(without_nan(item), ensure_ascii=False, default=plain, allow_nan=False)
    return text.encode("utf-8", "surrogatepass") + b"\n"


def encode_rows(rows, what="rows", text_member=None):
    """Yields a JSON line for each mapping; a string is an object with the member `text_member`, where one is given."""
    for number, row in enumerate(rows):
        if text_member is not None and isinstance(row, str):
            row = {text_member: row}
        if not isinstance(row, Mapping):
            expected = "a mapping" if text_member is None else "a mapping or a string"
            raise TypeError(f"{what}: item {number}: expected {expected}, got {type(row).__name__}")
        yield encode(row if isinstance(row, dict) else dict(row))
