"""JSON text. A dataclass is written as an object with its fields."""

import dataclasses
import json
from typing import Any


def encode(value: Any) -> str:
    """Raises TypeError or ValueError if JSON cannot express the value."""
    # NaN and Infinity are not JSON; the server would reject the whole request.
    return json.dumps(value, default=_fields, allow_nan=False)


def _fields(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    raise TypeError(f"a value of type {type(value).__name__} is not JSON-serializable")
