"""Enqueues jobs, waits for them, and prints the results as JSON."""

import json
import os

from windlass import ApiError, Client, JobFailed, Timeout

client = Client(os.environ["WINDLASS_SERVER"], token=os.environ["WINDLASS_TOKEN"])
seen = {}
first = client.enqueue("succeeds", {"n": 1}, idempotency_key="one", subject_type="call", subject_id="7")
again = client.enqueue("succeeds", {"n": 1}, idempotency_key="one", subject_type="call", subject_id="7")
seen["same"] = first["id"] == again["id"]
seen["result"] = client.wait(first["id"], timeout=50)["result"]
try:
    client.wait(client.enqueue("refuses")["id"], timeout=50)
except JobFailed as failed:
    seen["failed"] = failed.job["last_error"]
hanging = client.enqueue("hangs")
try:
    client.wait(hanging["id"], timeout=0.2)
except Timeout:
    seen["timeout"] = True
client.cancel(hanging["id"])
try:
    client.wait(hanging["id"], timeout=50)
except JobFailed as failed:
    seen["canceled"] = failed.job["status"]
try:
    client.enqueue("nowhere")
except ApiError as error:
    seen["refused"] = [error.status, error.kind]
print(json.dumps(seen))
