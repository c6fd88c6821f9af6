"""The client enqueues, waits, cancels and emits, also with asyncio."""

import asyncio

import pytest

import windlass


def test_many_jobs_are_enqueued_in_one_request_with_one_result_each(windlass_client, define):
    key = define()
    jobs = [{"definition_key": key, "payload": {"n": 1}}, {"definition_key": "no-such-definition"}]
    results = windlass_client.enqueue_many(jobs)
    assert [result["status"] for result in results] == [201, 422]
    assert windlass_client.job(results[0]["job"]["id"])["payload"] == {"n": 1}


def test_an_event_with_the_same_idempotency_key_is_emitted_once(windlass_client, define):
    key = define()
    first = windlass_client.emit("picture.added", {"n": 1}, idempotency_key=key)
    assert windlass_client.emit("picture.added", {"n": 1}, idempotency_key=key)["id"] == first["id"]


def test_wait_raises_when_the_job_was_canceled_or_has_not_ended_in_time(windlass_client, define):
    job = windlass_client.enqueue(define())
    with pytest.raises(windlass.Timeout):
        windlass_client.wait(job["id"], timeout=0.1)
    windlass_client.cancel(job["id"])
    with pytest.raises(windlass.JobFailed) as failed:
        windlass_client.wait(job["id"], timeout=20)
    assert failed.value.job["status"] == "canceled"


def test_the_jobs_of_all_pages_are_listed(windlass_client, define):
    key = define()
    created = {windlass_client.enqueue(key)["id"] for _ in range(3)}
    assert {job["id"] for job in windlass_client.jobs(definition_key=key, limit=2)} == created


@pytest.mark.parametrize("url", [None, "", "localhost:8080"])
def test_a_missing_or_wrong_url_is_refused_at_once(url):
    with pytest.raises(windlass.WindlassError, match="url must be"):
        windlass.Client(url)


def test_the_asyncio_client_does_the_same(windlass_server, define):
    key = define()

    async def program():
        async with windlass.AsyncClient(windlass_server.url, token=windlass_server.token) as client:
            job = await client.enqueue(key, {"n": 1})
            results = await client.enqueue_many([{"definition_key": key}])
            event = await client.emit("picture.added")
            listed = [job["id"] async for job in client.jobs(definition_key=key, limit=1)]
            await client.cancel(job["id"])
            with pytest.raises(windlass.JobFailed):
                await client.wait(job["id"], timeout=20)
            return job["id"], results[0]["job"]["id"], event["is_duplicate"], listed

    first, second, is_duplicate, listed = asyncio.run(program())
    assert (is_duplicate, set(listed)) == (False, {first, second})
