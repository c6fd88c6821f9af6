"""Enqueue, emit and cancel in a transaction of the application: the job exists if and only if the transaction commits.

The first argument is a connection of psycopg 3, or a connection or session of SQLAlchemy; for the functions that end with
`_async`, also a connection of asyncpg. These functions neither begin nor end a transaction. If the installation has several
tenants, set the current tenant in the transaction first, or give `tenant_id`.
"""

from typing import Any, Dict, Iterable, List, Mapping, Optional

from . import statement

Row = Dict[str, Any]


def enqueue_in(connection: Any, definition_key: str, payload: Any = None, **options: Any) -> Row:
    """Enqueues one job. `options` are the arguments of `windlass.enqueue`; `delay` is a number of seconds or a timedelta.
    Returns `id`, `status` and `is_duplicate`."""
    return _rows(connection, statement.enqueue(definition_key, payload, options))[0]


async def enqueue_in_async(connection: Any, definition_key: str, payload: Any = None, **options: Any) -> Row:
    return (await _rows_async(connection, statement.enqueue(definition_key, payload, options)))[0]


def enqueue_many_in(
    connection: Any,
    definition_key: str,
    payloads: Iterable[Any],
    each: Optional[Iterable[Mapping[str, Any]]] = None,
    tenant_id: Any = None,
    **options: Any,
) -> List[Row]:
    """Enqueues one job for each payload, in one statement. `options` apply to all jobs, `each` has the options per job.
    Returns one row per payload, in order."""
    return _in_order(_rows(connection, statement.enqueue_many(definition_key, payloads, tenant_id, options, each)))


async def enqueue_many_in_async(
    connection: Any,
    definition_key: str,
    payloads: Iterable[Any],
    each: Optional[Iterable[Mapping[str, Any]]] = None,
    tenant_id: Any = None,
    **options: Any,
) -> List[Row]:
    call = statement.enqueue_many(definition_key, payloads, tenant_id, options, each)
    return _in_order(await _rows_async(connection, call))


def emit_in(connection: Any, name: str, payload: Any = None, **options: Any) -> Row:
    """Emits an event. Returns `id` and `is_duplicate`."""
    return _rows(connection, statement.emit(name, payload, options))[0]


async def emit_in_async(connection: Any, name: str, payload: Any = None, **options: Any) -> Row:
    return (await _rows_async(connection, statement.emit(name, payload, options)))[0]


def cancel_in(connection: Any, tenant_id: Any, job_id: Any) -> str:
    """Cancels a job. Returns `canceled`, `requested`, `finished` or `missing`."""
    result: str = _rows(connection, statement.cancel(tenant_id, job_id))[0]["result"]
    return result


async def cancel_in_async(connection: Any, tenant_id: Any, job_id: Any) -> str:
    result: str = (await _rows_async(connection, statement.cancel(tenant_id, job_id)))[0]["result"]
    return result


def _rows(connection: Any, call: statement.Call) -> List[Row]:
    driver = _driver(connection)
    if driver == "psycopg":
        from psycopg.rows import dict_row

        text, values = call.named(lambda name: f"%({name})s")
        with connection.cursor(row_factory=dict_row) as cursor:
            return list(cursor.execute(text, values).fetchall())
    if driver == "sqlalchemy":
        from sqlalchemy import text as as_text

        text, values = call.named(lambda name: f":{name}")
        return [dict(row) for row in connection.execute(as_text(text), values).mappings()]
    raise TypeError(f"{type(connection).__name__} is not a synchronous connection; use the function that ends with _async")


async def _rows_async(connection: Any, call: statement.Call) -> List[Row]:
    driver = _driver(connection)
    if driver == "asyncpg":
        text, numbered = call.write(lambda number, _: f"${number}")
        return [dict(row) for row in await connection.fetch(text, *numbered)]
    if driver == "psycopg_async":
        from psycopg.rows import dict_row

        text, values = call.named(lambda name: f"%({name})s")
        async with connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(text, values)
            return list(await cursor.fetchall())
    if driver == "sqlalchemy_async":
        from sqlalchemy import text as as_text

        text, values = call.named(lambda name: f":{name}")
        return [dict(row) for row in (await connection.execute(as_text(text), values)).mappings()]
    raise TypeError(f"{type(connection).__name__} is not an asynchronous connection; use the function without _async")


def _driver(connection: Any) -> str:
    """By the names of the class and its bases, because the drivers are optional and are not imported here."""
    bases = type(connection).__mro__
    packages = {base.__module__.split(".")[0] for base in bases}
    is_async = any(base.__name__.lower().startswith("async") for base in bases)
    if "asyncpg" in packages:
        return "asyncpg"
    for package in ("psycopg", "sqlalchemy"):
        if package in packages:
            return f"{package}_async" if is_async else package
    raise TypeError(
        f"{type(connection).__module__}.{type(connection).__name__} is not a connection of psycopg 3, asyncpg or SQLAlchemy"
    )


def _in_order(rows: List[Row]) -> List[Row]:
    return sorted(rows, key=lambda row: row["ord"])
