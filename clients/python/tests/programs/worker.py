"""A worker for the tests: each handler does what its name says, until the worker is stopped."""

import os
import sys

from windlass import Client, Permanent, Retry, Snooze, Worker

client = Client(os.environ["WINDLASS_SERVER"], token=os.environ["WINDLASS_TOKEN"])
worker = Worker(client, concurrency=4, lease_seconds=3, worker_id="python-test", grace_seconds=1)


@worker.handler("succeeds")
def succeeds(job):
    job.progress(50, "half")
    job.log("hello from", job.definition_key)
    job.artifact({"path": "/tmp/a"})
    job.then("follows", {"n": job.payload["n"] + 1})
    return {"n": job.payload["n"]}


@worker.handler("follows")
def follows(job):
    return job.payload


@worker.handler("fails_once")
def fails_once(job):
    if job.failures == 0:
        raise RuntimeError("the first time")
    return "the second time"


@worker.handler("waits")
def waits(job):
    if job.attempt < 3:
        raise Snooze(0.01)
    return job.attempt


@worker.handler("refuses")
def refuses(job):
    raise Permanent("never")


@worker.handler("retries")
def retries(job):
    raise Retry("soon", after=0.01)


@worker.handler("unwritable")
def unwritable(job):
    return {"a": object()}


@worker.handler("hangs")
def hangs(job):
    job.progress(message="hanging")
    job.canceled.wait()
    job.check()


worker.run()
print("stopped", file=sys.stderr)
