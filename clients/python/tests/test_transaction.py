"""A job that is enqueued in a transaction exists if and only if the transaction commits."""

import asyncio
import datetime
import uuid

import pytest

import windlass

psycopg = pytest.importorskip("psycopg")
asyncpg = pytest.importorskip("asyncpg")
sqlalchemy = pytest.importorskip("sqlalchemy")
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine  # noqa: E402
from sqlalchemy.orm import Session  # noqa: E402

DEFAULT_TENANT = "00000000-0000-7000-8000-000000000001"

OPTIONS = {
    "delay": datetime.timedelta(hours=1),
    "deadline": datetime.datetime(2100, 1, 1, tzinfo=datetime.timezone.utc),
    "priority": 7,
    "tags": ["a", 'b"c'],
    "tenant_id": uuid.UUID(DEFAULT_TENANT),
    "subject_type": "picture",
    "subject_id": "7",
}


def check(job):
    assert job["status"] == "scheduled"
    assert (job["payload"], job["tags"], job["subject_id"]) == ({"text": "a'b%:c"}, ["a", 'b"c'], "7")


def exists(client, job):
    try:
        client.job(job["id"])
    except windlass.ApiError as error:
        assert error.status == 404
        return False
    return True


def every_call(connection, key):
    job = windlass.enqueue_in(connection, key, {"text": "a'b%:c"}, **OPTIONS)
    each = [{"subject_type": "n", "subject_id": str(n), "delay_seconds": 60} for n in range(12)]
    many = windlass.enqueue_many_in(connection, key, [{"n": n} for n in range(12)], each=each)
    assert [row["ord"] for row in many] == list(range(1, 13))
    assert windlass.emit_in(connection, "picture.added", {"n": 1})["is_duplicate"] is False
    other = windlass.enqueue_in(connection, key, depends_on=[job["id"]])
    assert other["status"] == "blocked"
    assert windlass.cancel_in(connection, DEFAULT_TENANT, other["id"]) == "canceled"
    return job


async def every_call_async(connection, key):
    job = await windlass.enqueue_in_async(connection, key, {"text": "a'b%:c"}, **OPTIONS)
    many = await windlass.enqueue_many_in_async(connection, key, [{"n": 1}, {"n": 2}], priority=3)
    assert [row["ord"] for row in many] == [1, 2]
    assert (await windlass.emit_in_async(connection, "picture.added"))["is_duplicate"] is False
    assert await windlass.cancel_in_async(connection, DEFAULT_TENANT, many[0]["id"]) == "canceled"
    return job


def test_psycopg(windlass_client, database_url, define):
    key = define()
    with psycopg.connect(database_url) as connection:
        lost = every_call(connection, key)
        connection.rollback()
        job = every_call(connection, key)
        assert not exists(windlass_client, job)
    check(windlass_client.job(job["id"]))
    assert not exists(windlass_client, lost)


def test_psycopg_async(windlass_client, database_url, define):
    key = define()

    async def program():
        async with await psycopg.AsyncConnection.connect(database_url) as connection:
            return await every_call_async(connection, key)

    check(windlass_client.job(asyncio.run(program())["id"]))


def test_asyncpg_with_its_own_json_codec(windlass_client, database_url, define):
    key = define()

    async def program():
        connection = await asyncpg.connect(database_url)
        await connection.set_type_codec("jsonb", schema="pg_catalog", encoder=repr, decoder=repr)
        async with connection.transaction():
            job = await every_call_async(connection, key)
        rolled_back = connection.transaction()
        await rolled_back.start()
        lost = await every_call_async(connection, key)
        await rolled_back.rollback()
        await connection.close()
        return job, lost

    job, lost = asyncio.run(program())
    check(windlass_client.job(job["id"]))
    assert not exists(windlass_client, lost)


def test_a_session_of_sqlalchemy(windlass_client, database_url, define):
    key = define()
    engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(database_url))
    with Session(engine) as session:
        lost = every_call(session, key)
        session.rollback()
        job = every_call(session, key)
        session.commit()
    with engine.begin() as connection:
        also = windlass.enqueue_in(connection, key)
    engine.dispose()
    check(windlass_client.job(job["id"]))
    assert (exists(windlass_client, lost), exists(windlass_client, also)) == (False, True)


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_an_asynchronous_session_of_sqlalchemy(windlass_client, database_url, define, driver):
    key = define()
    connect = {"psycopg": psycopg.AsyncConnection.connect, "asyncpg": asyncpg.connect}[driver]

    async def program():
        engine = create_async_engine(f"postgresql+{driver}://", async_creator=lambda: connect(database_url))
        async with AsyncSession(engine) as session:
            job = await every_call_async(session, key)
            await session.commit()
        await engine.dispose()
        return job

    check(windlass_client.job(asyncio.run(program())["id"]))


def test_a_wrong_connection_or_option_is_refused_in_words(database_url):
    with pytest.raises(TypeError, match="object is not a connection of psycopg 3"):
        windlass.enqueue_in(object(), "resize")
    with psycopg.connect(database_url) as connection:
        with pytest.raises(TypeError, match="unknown option 'prioritty'"):
            windlass.enqueue_in(connection, "resize", prioritty=1)
        with pytest.raises(ValueError, match="no time zone"):
            windlass.enqueue_in(connection, "resize", deadline=datetime.datetime(2100, 1, 1))
        with pytest.raises(TypeError, match="use the function without _async"):
            asyncio.run(windlass.enqueue_in_async(connection, "resize"))
