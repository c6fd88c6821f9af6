"""The client enqueues, waits, cancels and emits, also with asyncio."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

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


def test_a_call_is_repeated_after_a_broken_connection_and_takes_effect_once(windlass_server, relay, define):
    key = define()
    client = windlass.Client(relay.url, token=windlass_server.token)
    relay.refuse(2)
    job = client.enqueue(key)
    relay.break_off()
    relay.refuse(2)
    assert [one["id"] for one in client.jobs(definition_key=key)] == [job["id"]]


def test_a_late_call_about_an_attempt_raises_lease_lost(windlass_client, define):
    key = define()
    windlass_client.enqueue(key)
    (job,) = windlass_client.claim([key], wait_seconds=30)
    windlass_client.complete(job["id"], job["fence"], {"n": 1})
    for late in (windlass_client.heartbeat, windlass_client.complete, windlass_client.release):
        with pytest.raises(windlass.LeaseLost) as lost:
            late(job["id"], job["fence"])
        assert (lost.value.status, lost.value.kind) == (409, "lease-lost")


def test_a_claim_waits_on_the_server_for_a_job(windlass_server, relay, windlass_client, define):
    key = define()
    client = windlass.Client(relay.url, token=windlass_server.token)
    with ThreadPoolExecutor(1) as thread:
        claim = thread.submit(client.claim, [key], wait_seconds=30)
        relay.wait_for("POST /api/v1/worker/jobs/claim")
        job = windlass_client.enqueue(key)
        (claimed,) = claim.result(timeout=30)
    assert claimed["id"] == job["id"]
    client.release(claimed["id"], claimed["fence"])


def test_a_worker_that_holds_a_job_is_not_signed_off(windlass_client, define):
    key = define()
    windlass_client.enqueue(key)
    (job,) = windlass_client.claim([key], wait_seconds=30, worker_id=key)
    assert windlass_client.stop_worker(key) is False
    windlass_client.complete(job["id"], job["fence"])
    assert windlass_client.stop_worker(key) is True


def test_what_json_cannot_express_is_refused_before_it_is_sent(windlass_client):
    for payload, error in (({"n": float("nan")}, ValueError), ({"n": object()}, TypeError)):
        with pytest.raises(error):
            windlass_client.enqueue("resize", payload)


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
