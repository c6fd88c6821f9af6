"""The pull worker of the soak, on the Python client. Notes every run in the ledger, as the other workers do.

How it stops: SIGTERM, as `Worker.run` describes."""

import json
import logging
import os
import time

from windlass import Client, Permanent, Retry, Snooze, Worker

logging.basicConfig(level=logging.INFO)
ledger = os.open(os.environ["SOAK_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
client = Client(os.environ["WINDLASS_SERVER"], token=os.environ["WINDLASS_TOKEN"], timeout=10)
worker = Worker(client, concurrency=8, lease_seconds=int(os.environ["SOAK_LEASE"]), wait_seconds=5, grace_seconds=3)


def note(what, job, **fields):
    at = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    fact = {"at": at, "what": what, "job": str(job.id), "attempt": job.attempt, "pid": os.getpid(), **fields}
    os.write(ledger, (json.dumps(fact) + "\n").encode())


@worker.handler("soak.pull")
def pull(job):
    note("started", job, kind="pull")
    time.sleep(job.payload.get("ms", 0) / 1000)
    act = job.payload.get("act", "succeed")
    is_first = job.attempt == 1
    is_success = act == "succeed" or (not is_first and act != "fail_forever")
    if is_success:
        for n in range(job.payload.get("children", 0)):
            job.then("soak.child", {"n": n, "ms": 1})
    note("ended", job, is_success=is_success)
    if is_success:
        return {"ok": True}
    if act == "snooze_once":
        raise Snooze(1)
    if act == "fail_once":
        raise Retry("the first attempt fails", after=0.5)
    if act == "fail_forever":
        raise Permanent("every attempt fails")
    raise ValueError("the first attempt raises \x00 an error")


worker.run()
