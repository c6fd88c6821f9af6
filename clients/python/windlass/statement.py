"""The SQL statements of the functions of the schema `windlass`, for drivers with different placeholders.

Every value is sent as text and cast in the statement. So it does not matter which types the driver or the application has
registered, and the statement is the same for all drivers.
"""

import datetime
import uuid
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple

from .encoding import encode

# The type of each argument of windlass.enqueue and windlass.emit.
TYPES = {
    "definition_key": "text",
    "payload": "jsonb",
    "tenant_id": "uuid",
    "queue": "text",
    "priority": "integer",
    "scheduled_for": "timestamptz",
    "delay": "interval",
    "dedupe_key": "text",
    "uniqueness": "jsonb",
    "idempotency_key": "text",
    "ordering_key": "text",
    "depends_on": "uuid[]",
    "if_unmet": "text",
    "subject_type": "text",
    "subject_id": "text",
    "tags": "text[]",
    "correlation_id": "text",
    "source": "text",
    "source_ref": "text",
    "max_attempts": "integer",
    "deadline": "timestamptz",
    "parent_id": "uuid",
    "created_by": "uuid",
    "trace": "text",
    "job_id": "uuid",
    "name": "text",
    "dedupe_id": "text",
    "payloads": "jsonb[]",
    "options": "jsonb",
    "each": "jsonb[]",
    "tenant": "uuid",
    "job": "uuid",
}

Statement = Tuple[str, List[str]]


def enqueue(definition_key: str, payload: Any, options: Mapping[str, Any]) -> "Call":
    given = {"definition_key": definition_key, "payload": {} if payload is None else payload, **sql_options(options)}
    return Call("select cast(id as text) as id, status, is_duplicate from windlass.enqueue", given)


def enqueue_many(
    definition_key: str,
    payloads: Iterable[Any],
    tenant_id: Any,
    options: Mapping[str, Any],
    each: Optional[Iterable[Mapping[str, Any]]],
) -> "Call":
    given: Dict[str, Any] = {"definition_key": definition_key, "payloads": list(payloads), "tenant_id": tenant_id}
    given["options"] = _plain(sql_options(options)) or None
    given["each"] = None if each is None else [_plain(sql_options(one)) for one in each]
    return Call("select ord, cast(id as text) as id, status, is_duplicate from windlass.enqueue_many", given)


def emit(name: str, payload: Any, options: Mapping[str, Any]) -> "Call":
    given = {"name": name, "payload": {} if payload is None else payload, **options}
    return Call("select cast(id as text) as id, is_duplicate from windlass.emit", given)


def cancel(tenant_id: Any, job_id: Any) -> "Call":
    return Call("select result from windlass.cancel", {"tenant": tenant_id, "job": job_id}, alias="result")


class Call:
    """A call of a function with named arguments. `write` gives the text for a kind of placeholder, and the values."""

    def __init__(self, function: str, given: Mapping[str, Any], alias: Optional[str] = None) -> None:
        unknown = [name for name in given if name not in TYPES]
        if unknown:
            raise TypeError(f"unknown option {unknown[0]!r}")
        self._function = function
        self._alias = f" as {alias}" if alias else ""
        self._given = {name: value for name, value in given.items() if value is not None}

    def write(self, placeholder: Callable[[int, str], str]) -> Statement:
        arguments: List[str] = []
        values: List[str] = []
        for name, value in self._given.items():
            values.append(_text(value, TYPES[name]))
            arguments.append(f"{name} => {_cast(placeholder(len(values), name), TYPES[name])}")
        return f"{self._function}({', '.join(arguments)}){self._alias}", values

    def named(self, placeholder: Callable[[str], str]) -> Tuple[str, Dict[str, str]]:
        text, values = self.write(lambda _, name: placeholder(name))
        return text, dict(zip(self._given, values))


def sql_options(options: Mapping[str, Any]) -> Dict[str, Any]:
    """The options of the HTTP API have the same names, except for the delay."""
    given = dict(options)
    if "delay_seconds" in given:
        given["delay"] = given.pop("delay_seconds")
    return given


def _cast(placeholder: str, kind: str) -> str:
    value = f"cast({placeholder} as text)"
    if kind == "text":
        return value
    if kind == "jsonb[]":
        return f"array(select jsonb_array_elements(cast({value} as jsonb)))"
    if kind.endswith("[]"):
        return f"cast(array(select jsonb_array_elements_text(cast({value} as jsonb))) as {kind})"
    return f"cast({value} as {kind})"


def _text(value: Any, kind: str) -> str:
    if kind in ("jsonb", "jsonb[]"):
        return encode(value)
    if kind.endswith("[]"):
        return encode([str(one) for one in value])
    return str(_plain_value(value, kind))


def _plain(options: Mapping[str, Any]) -> Dict[str, Any]:
    for name in options:
        if name not in TYPES:
            raise TypeError(f"unknown option {name!r}")
    return {name: _plain_value(value, TYPES[name]) for name, value in options.items() if value is not None}


def _plain_value(value: Any, kind: str) -> Any:
    """A value that JSON can express and Postgres understands as text."""
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone")
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return f"{value.total_seconds()} seconds"
    if kind == "interval" and isinstance(value, (int, float)):
        return f"{value} seconds"
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, (list, tuple)) and kind.endswith("[]"):
        return [str(one) for one in value]
    return value
