"""The `ai-tagging` function with the database alone: no worker, no server, no HTTP.

Each run takes the posts of every workspace, ten at a time, until none is left. A workspace is a tenant, and a SQL worker acts for
one tenant at a time: the one that the connection sets. The login needs the roles windlass_puller and service_role.

    DATABASE_URL=postgresql://… python3 edge.py
"""

import json
import os
import subprocess

os.environ.setdefault("AI_TAGGING_SECRET", "not used: nothing calls this function over HTTP")
from function import query, run  # noqa: E402


def rpc(workspace, name, **arguments):
    """Calls a function of windlass by name for one workspace, and returns its rows: what `supabase.rpc(name, arguments)` sends."""
    given = {key: value if isinstance(value, str) else json.dumps(value) for key, value in arguments.items()}
    call = ", ".join(f"{key} => :'{key}'" for key in given)
    command = ["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", os.environ["DATABASE_URL"]]
    for key, value in {**given, "workspace": workspace}.items():
        command += ["-v", f"{key}={value}"]
    script = f"""set windlass.tenant_id = :'workspace';
        select coalesce(json_agg(f), '[]') from windlass.{name}({call}) f;"""
    answer = subprocess.run(command, input=script, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(answer.stdout)


def tag_posts_of(workspace):
    while jobs := rpc(workspace, "take", keys="{ai-tagging}", most=10, lease="2 minutes"):
        tokens = {job["id"]: job["token"] for job in jobs}
        for outcome in run(jobs):
            held = {"job": outcome["id"], "token": tokens[outcome["id"]]}
            if "error" in outcome:
                rpc(workspace, "fail", **held, error=outcome["error"], retryable=outcome["retryable"])
            else:
                rpc(workspace, "finish", **held, result=outcome["result"])
        print(f"tagged a batch of {len(jobs)}", flush=True)


if __name__ == "__main__":
    for of_workspace in query("select coalesce(json_agg(id), '[]') from workspaces"):
        tag_posts_of(of_workspace)
