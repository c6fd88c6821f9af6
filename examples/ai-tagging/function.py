"""The `ai-tagging` function: takes up to ten posts per request, tags them by rules, and returns an outcome for each.

It replaces an edge function. windlass calls it (see worker.toml); it does not poll and has no state. It reads
the posts and writes the tags through `psql`, as the old function did through its service client.

    DATABASE_URL=postgresql://… AI_TAGGING_SECRET=… PORT=8201 python3 function.py
"""

import base64
import hashlib
import hmac
import http.server
import json
import os
import re
import subprocess

SECRET = os.environ["AI_TAGGING_SECRET"].encode()
MODEL = "rules-1"
MOST_CHARACTERS = 10_000

RULES = {
    "food": ("ramen", "noodle", "recipe", "coffee", "brunch", "拉麵", "咖啡", "好吃", "食譜", "餐廳"),
    "travel": ("train", "flight", "hotel", "window seat", "旅行", "火車", "飯店", "機票"),
    "technology": ("phone", "camera", "laptop", "software", "手機", "相機", "電腦", "程式"),
    "sport": ("marathon", "match", "training", "gym", "馬拉松", "賽後", "比賽", "健身"),
}


def tag(content):
    """The tags of a text: first those of its words, best first, then its hashtags. Raises ValueError if there are none."""
    if not content.strip():
        raise ValueError("the post has no text")
    if len(content) > MOST_CHARACTERS:
        raise ValueError(f"the post has {len(content)} characters, more than {MOST_CHARACTERS}")
    text = content.lower()
    scores = {name: sum(text.count(word) for word in words) for name, words in RULES.items()}
    tags = sorted((name for name in scores if scores[name]), key=lambda name: (-scores[name], name))
    tags += [word for word in re.findall(r"#(\w+)", text) if word not in tags]
    return tags or ["general"]


def run(jobs):
    """One outcome per job. The tags are stored before the response is sent, so a job never succeeds without them."""
    posts = query("select posts_to_tag(:'ids')", ids="{%s}" % ",".join(job["payload"]["post_id"] for job in jobs))
    outcomes, saved = [], []
    for job in jobs:
        post = job["payload"]["post_id"]
        try:
            if post not in posts:
                raise ValueError("post not found")
            tags = tag(posts[post])
        except ValueError as error:
            # A retry cannot help.
            outcomes.append({"id": job["id"], "error": str(error), "retryable": False})
            continue
        outcomes.append({"id": job["id"], "result": {"tags": tags, "model": MODEL}})
        usage = {"job_id": job["id"], "attempt_no": job["attempt"], "model": MODEL, "input_characters": len(posts[post])}
        saved.append({"post_id": post, "tags": tags, **usage})
    if saved:
        query("select save_ai_tags(:'outcomes')", outcomes=json.dumps(saved))
    return outcomes


def query(statement, **values):
    """Runs one statement as the service and returns its JSON. The values are quoted by psql."""
    command = ["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", os.environ["DATABASE_URL"]]
    for name, value in values.items():
        command += ["-v", f"{name}={value}"]
    script = f"set role service_role;\n{statement}\n;\n"
    answer = subprocess.run(command, input=script, capture_output=True, text=True, timeout=60, check=False)
    if answer.returncode != 0:
        raise RuntimeError(answer.stderr.strip())
    return json.loads(answer.stdout) if answer.stdout.strip() else None


class Function(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + body
        expected = "v1," + base64.b64encode(hmac.new(SECRET, signed, hashlib.sha256).digest()).decode()
        if not hmac.compare_digest(expected, self.headers.get("webhook-signature", "")):
            return self.answer(401, {"error": "not signed by windlass"})
        jobs = json.loads(body)["jobs"]
        try:
            outcomes = run(jobs)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            # The database failed, not the posts: all jobs are retried by the definition's policy.
            return self.answer(500, {"error": str(error)})
        print(f"tagged a batch of {len(jobs)}", flush=True)
        return self.answer(200, {"outcomes": outcomes})

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8201"))), Function)
    print(f"ready: http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
