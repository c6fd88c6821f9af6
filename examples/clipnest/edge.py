"""The two functions with the database alone: no worker, no server, no HTTP between them.

Each run takes jobs until none is left, as an edge function does that the database wakes. What `rpc` sends with psql is what
`supabase.rpc(name, arguments)` sends. The login needs the role windlass_puller and the application's table.

    DATABASE_URL=postgresql://… python3 edge.py
"""

import json
import os
import sys

os.environ.setdefault("CLIPNEST_SECRET", "not used: nothing calls these functions over HTTP")
from functions import enrich, query, scrape, update  # noqa: E402

STAGES = {"clipnest.scrape": scrape, "clipnest.enrich": enrich}


def rpc(name, **arguments):
    """Calls a function of windlass by name, and returns its rows."""
    given = {key: value if isinstance(value, str) else json.dumps(value) for key, value in arguments.items()}
    call = ", ".join(f"{key} => :'{key}'" for key in given)
    return json.loads(query(f"select coalesce(json_agg(f), '[]') from windlass.{name}({call}) f", **given))


def run(job):
    """Runs one job. A crash of this process leaves it to `windlass.tick`, which recovers it when its lease has expired."""
    held = {"job": job["id"], "token": job["token"]}
    try:
        answer = STAGES[job["definition_key"]](job)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong fails the attempt
        # The last attempt marks the row as failed.
        if job["failures"] + 1 >= job["max_attempts"]:
            update(job["payload"]["video_id"], "processing_status = 'failed', processing_error = :'error'", error=str(error)[:500])
        return rpc("fail", **held, error=str(error)[:500])
    following = answer.pop("windlass", {}).get("next", [])
    return rpc("finish", **held, result=answer, next=following)


if __name__ == "__main__":
    while jobs := rpc("take", keys="{%s}" % ",".join(STAGES), lease="5 minutes"):
        if "--crash" in sys.argv:
            os._exit(1)
        print(jobs[0]["definition_key"], *run(jobs[0]), flush=True)
