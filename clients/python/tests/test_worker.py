"""A worker stops without waiting for its claim, survives an unreachable server, and reports errors so that the first line is useful."""

import asyncio
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

import pytest

import windlass
from windlass.worker import error_text

CLAIM = "POST /api/v1/worker/jobs/claim"
# Seconds. It takes less than one; a worker that waits for its claim takes 60, and a busy machine is slow.
SOON = 20


@contextlib.contextmanager
def in_background(worker):
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(timeout=60)
        assert not thread.is_alive(), "it stops"


def test_an_idle_worker_stops_without_waiting_for_its_claim_and_signs_off(windlass_server, relay, define, logs):
    client = windlass.Client(relay.url, token=windlass_server.token)
    worker = windlass.Worker(client, {define(): lambda job: None}, wait_seconds=60)
    with in_background(worker):
        relay.wait_for(CLAIM)
        began = time.monotonic()
    assert time.monotonic() - began < SOON
    assert b'{"is_stopped":true}' in relay.responses
    assert "started for" in logs.text and "stopped" in logs.text


def test_a_signal_stops_an_idle_program_without_waiting_for_its_claim(windlass_server, relay, define):
    program = f"""
import os, windlass
client = windlass.Client(os.environ["WINDLASS_SERVER"], token=os.environ["WINDLASS_TOKEN"])
windlass.Worker(client, {{{define()!r}: print}}, wait_seconds=60).run()
"""
    environment = {**os.environ, "WINDLASS_SERVER": relay.url, "WINDLASS_TOKEN": windlass_server.token}
    with subprocess.Popen([sys.executable, "-c", program], env=environment) as process:
        relay.wait_for(CLAIM)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
        assert time.monotonic() - began < SOON


def test_a_worker_stops_while_the_server_cannot_be_reached(windlass_server, relay, define, logs):
    client = windlass.Client(relay.url, token=windlass_server.token)
    with in_background(windlass.Worker(client, {define(): print}, wait_seconds=60)):
        relay.wait_for(CLAIM)
        relay.break_off()
        logs.wait_for("claim failed, again in")
        began = time.monotonic()
    assert time.monotonic() - began < SOON
    assert "cannot sign off" in logs.text


def test_a_worker_waits_for_a_server_that_cannot_be_reached_and_reconnects(windlass_server, relay, define, logs):
    key = define()
    client = windlass.Client(relay.url, token=windlass_server.token)
    with in_background(windlass.Worker(client, {key: lambda job: "done"}, wait_seconds=60)):
        relay.wait_for(CLAIM)
        relay.break_off()
        logs.wait_for("claim failed, again in")
        relay.repair()
        job = windlass_server.client().enqueue(key)
        assert windlass_server.client().wait(job["id"], timeout=30)["result"] == "done"
    assert "reconnected" in logs.text and f"claimed job {job['id']}" in logs.text


def test_a_result_and_the_last_progress_outlast_a_broken_connection(windlass_server, relay, define, logs):
    key = define()

    def runs(job):
        relay.break_off()
        job.progress(50, "half done")
        logs.wait_for("heartbeat failed, again in")
        return job.attempt

    client = windlass.Client(relay.url, token=windlass_server.token)
    with in_background(windlass.Worker(client, {key: runs})):
        job = windlass_server.client().enqueue(key)
        logs.wait_for(f"settling job {job['id']} failed, again in")
        relay.repair()
        ended = windlass_server.client().wait(job["id"], timeout=30)
    assert (ended["result"], ended["progress_message"]) == (1, "half done")


def test_a_handler_is_notified_when_its_lease_is_lost(windlass_client, define):
    key = define()
    reasons = []

    def runs(job):
        if job.attempt == 1:
            windlass_client.release(job.id, job.fence)
            assert job.canceled.wait(30), "the next heartbeat returns it"
            reasons.append(job.why_canceled)
        return job.attempt

    with in_background(windlass.Worker(windlass_client, {key: runs}, lease_seconds=1, concurrency=2)):
        job = windlass_client.enqueue(key)
        assert windlass_client.wait(job["id"], timeout=30)["result"] == 2
    assert reasons == ["lease-lost"]


def test_a_wrong_token_ends_the_worker(windlass_server, define):
    client = windlass.Client(windlass_server.url, token="wl_worker_wrong")
    with pytest.raises(windlass.ApiError) as refused:
        windlass.Worker(client, {define(): print}).run()
    assert refused.value.status == 401


def test_the_first_line_of_an_error_is_its_type_and_message(windlass_client, define):
    key = define()

    def fails(job):
        raise KeyError("image")

    job = windlass_client.enqueue(key, max_attempts=1)
    windlass.Worker(windlass_client, {key: fails}).run_until_idle()
    with pytest.raises(windlass.JobFailed) as failed:
        windlass_client.wait(job["id"], timeout=20)
    first, second = failed.value.job["last_error"].split("\n")[:2]
    assert (first, second) == ("KeyError: 'image'", "Traceback (most recent call last):")


def test_a_long_error_keeps_its_first_line_and_the_end_of_its_traceback():
    text = error_text(ValueError("a" * 20_000 + "\nlast line"))
    assert len(text) <= 8000
    assert text.startswith("ValueError: aaa") and text.endswith("last line\n")


def test_run_until_idle_runs_the_jobs_that_jobs_enqueue(windlass_client, define):
    first, second = define(), define()
    worker = windlass.Worker(
        windlass_client, {first: lambda job: job.then(second, {"n": 2}), second: lambda job: job.payload}
    )
    windlass_client.enqueue(first)
    worker.run_until_idle()
    assert [job["result"] for job in windlass_client.jobs(definition_key=second)] == [{"n": 2}]


@dataclass
class Resize:
    image: int
    width: int = 640


def test_a_payload_and_a_result_can_be_dataclasses(windlass_client, define):
    key = define()
    worker = windlass.Worker(windlass_client)

    @worker.handler(key, payload=Resize)
    def resize(job):
        return Resize(job.payload.image, job.payload.width * 2)

    job = windlass_client.enqueue(key, Resize(7))
    worker.run_until_idle()
    assert windlass_client.job(job["id"])["result"] == {"image": 7, "width": 1280}


def test_a_payload_of_another_type_fails_the_job_without_a_retry(windlass_client, define):
    key = define()
    worker = windlass.Worker(windlass_client)
    worker.handler(key, payload=Resize)(lambda job: pytest.fail("it is not called"))
    job = windlass_client.enqueue(key, {"picture": 7})
    worker.run_until_idle()
    failed = windlass_client.job(job["id"])
    assert failed["status"] == "failed"
    assert failed["last_error"].startswith("the payload is invalid: TypeError: ")


def test_asyncio_handlers_run_at_the_same_time_and_are_canceled(windlass_server, define):
    meets, hangs = define(), define()

    async def program():
        client = windlass.AsyncClient(windlass_server.url, token=windlass_server.token)
        worker = windlass.AsyncWorker(client, concurrency=3, lease_seconds=1, wait_seconds=60)
        arrived, both, is_hanging, was_canceled = [], asyncio.Event(), asyncio.Event(), asyncio.Event()

        @worker.handler(meets)
        async def meet(job):
            arrived.append(job.id)
            if len(arrived) == 2:
                both.set()
            await both.wait()
            return "met"

        @worker.handler(hangs)
        async def hang(job):
            is_hanging.set()
            try:
                await asyncio.Event().wait()
            finally:
                was_canceled.set()

        running = asyncio.create_task(worker.run_async())
        jobs = [await client.enqueue(meets), await client.enqueue(meets)]
        results = [(await client.wait(job["id"], timeout=30))["result"] for job in jobs]
        hanging = await client.enqueue(hangs)
        await asyncio.wait_for(is_hanging.wait(), 30)
        await client.cancel(hanging["id"])
        with pytest.raises(windlass.JobFailed) as failed:
            await client.wait(hanging["id"], timeout=30)
        assert was_canceled.is_set()
        began = time.monotonic()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        client.close()
        return results, failed.value.job["status"], time.monotonic() - began

    results, status, seconds = asyncio.run(program())
    assert (results, status) == (["met", "met"], "canceled")
    assert seconds < SOON


def test_a_handler_that_blocks_the_event_loop_keeps_its_lease(windlass_server, relay, define):
    key = define()

    async def program():
        async with windlass.AsyncClient(relay.url, token=windlass_server.token) as client:

            async def blocks(job):
                # A third of the lease passes before each heartbeat.
                relay.wait_for("/heartbeat", 6)
                return job.attempt

            job = await client.enqueue(key)
            await windlass.AsyncWorker(client, {key: blocks}, lease_seconds=1).run_until_idle_async()
            return await client.job(job["id"])

    assert asyncio.run(program())["result"] == 1


def test_the_wheel_says_that_it_is_typed():
    assert (pathlib.Path(windlass.__file__).parent / "py.typed").exists()
