"""A worker stops within a second, survives an unreachable server, and reports errors so that the first line is useful."""

import asyncio
import logging
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

import windlass
from windlass.worker import error_text


def in_background(worker):
    thread = threading.Thread(target=worker.run)
    thread.start()
    return thread


def until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "not in 30 s"
        time.sleep(0.02)


def test_an_idle_worker_stops_within_a_second(windlass_client, define, caplog):
    caplog.set_level(logging.INFO, "windlass")
    worker = windlass.Worker(windlass_client, {define(): lambda job: None}, wait_seconds=60)
    thread = in_background(worker)
    until(lambda: worker._interrupt._socket is not None)
    began = time.monotonic()
    worker.stop()
    thread.join(timeout=30)
    assert time.monotonic() - began < 1
    assert "started for" in caplog.text and "stopped" in caplog.text


def test_a_signal_stops_an_idle_program_within_a_second(windlass_server, define):
    program = f"""
import logging, os, windlass
logging.basicConfig(level=logging.INFO)
client = windlass.Client(os.environ["WINDLASS_SERVER"], token=os.environ["WINDLASS_TOKEN"])
windlass.Worker(client, {{{define()!r}: print}}, wait_seconds=60).run()
"""
    environment = {**os.environ, "WINDLASS_SERVER": windlass_server.url, "WINDLASS_TOKEN": windlass_server.token}
    process = subprocess.Popen([sys.executable, "-c", program], env=environment, stderr=subprocess.PIPE, text=True)
    assert "started for" in process.stderr.readline()
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0
    assert time.monotonic() - began < 1.5, "a second, and the end of the interpreter"
    process.stderr.close()


def test_a_worker_waits_for_a_server_that_cannot_be_reached_and_reconnects(windlass_server, define, caplog):
    caplog.set_level(logging.INFO, "windlass")
    key = define()
    with Relay(windlass_server.url) as relay:
        client = windlass.Client(relay.url, token=windlass_server.token)
        worker = windlass.Worker(client, {key: lambda job: "done"}, wait_seconds=60)
        thread = in_background(worker)
        until(lambda: worker._interrupt._socket is not None)
        relay.is_broken = True
        relay.disconnect()
        until(lambda: "claim failed, again in" in caplog.text)
        relay.is_broken = False
        job = windlass_server.client().enqueue(key)
        assert windlass_server.client().wait(job["id"], timeout=30)["result"] == "done"
        assert "reconnected" in caplog.text and f"claimed job {job['id']}" in caplog.text
        worker.stop()
        thread.join(timeout=30)


def test_a_wrong_token_ends_the_worker(windlass_server, define):
    client = windlass.Client(windlass_server.url, token="wl_worker_wrong")
    with pytest.raises(windlass.ApiError) as refused:
        windlass.Worker(client, {define(): print}).run()
    assert refused.value.status == 401


def test_the_first_line_of_an_error_is_its_type_and_message(windlass_client, define):
    key = define()

    def fails(job):
        raise KeyError("image")

    windlass.Worker(windlass_client, {key: fails}).run_until_idle()
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


def test_asyncio_handlers_run_at_the_same_time_and_are_canceled(windlass_server, define):
    meets, hangs = define(), define()

    async def program():
        client = windlass.AsyncClient(windlass_server.url, token=windlass_server.token)
        worker = windlass.AsyncWorker(client, concurrency=3, lease_seconds=1, wait_seconds=60)
        arrived, both, was_canceled = [], asyncio.Event(), asyncio.Event()

        @worker.handler(meets)
        async def meet(job):
            arrived.append(job.id)
            if len(arrived) == 2:
                both.set()
            await both.wait()
            return "met"

        @worker.handler(hangs)
        async def hang(job):
            try:
                await asyncio.sleep(600)
            finally:
                was_canceled.set()

        running = asyncio.create_task(worker.run_async())
        jobs = [await client.enqueue(meets), await client.enqueue(meets)]
        results = [(await client.wait(job["id"], timeout=30))["result"] for job in jobs]
        hanging = await client.enqueue(hangs)
        while (await client.job(hanging["id"]))["status"] != "running":
            await asyncio.sleep(0.05)
        await client.cancel(hanging["id"])
        with pytest.raises(windlass.JobFailed) as failed:
            await client.wait(hanging["id"], timeout=30)
        await asyncio.wait_for(was_canceled.wait(), 10)
        began = time.monotonic()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        client.close()
        return results, failed.value.job["status"], time.monotonic() - began

    results, status, seconds = asyncio.run(program())
    assert (results, status) == (["met", "met"], "canceled")
    assert seconds < 1


def test_a_handler_that_blocks_the_event_loop_keeps_its_lease(windlass_server, define):
    key = define()

    async def program():
        async with windlass.AsyncClient(windlass_server.url, token=windlass_server.token) as client:

            async def blocks(job):
                time.sleep(4)  # Longer than the lease.
                return job.attempt

            job = await client.enqueue(key)
            await windlass.AsyncWorker(client, {key: blocks}, lease_seconds=1).run_until_idle_async()
            return await client.wait(job["id"], timeout=30)

    assert asyncio.run(program())["result"] == 1


def test_the_wheel_says_that_it_is_typed():
    assert (pathlib.Path(windlass.__file__).parent / "py.typed").exists()


class Relay:
    """Passes connections on to the server, until it is broken. What a restarted proxy looks like to a worker."""

    def __init__(self, url):
        host, port = url.split("://")[1].split(":")
        self._server = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.is_broken = False
        self._open = []

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.disconnect()
        self._listener.close()

    def disconnect(self):
        for connection in self._open:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self.is_broken:
                near.close()
                continue
            far = socket.create_connection(self._server)
            self._open += [near, far]
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._copy, args=(source, target), daemon=True).start()

    def _copy(self, source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        for one in (source, target):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
