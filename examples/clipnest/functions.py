"""The two functions in one small server. It uses only the standard library, and psql for the application's rows.

PORT, CLIPNEST_SECRET and DATABASE_URL (the application's) come from the environment.
"""

import base64
import hashlib
import hmac
import http.server
import json
import math
import os
import re
import subprocess
import time
import urllib.parse
import urllib.request

SECRET = os.environ["CLIPNEST_SECRET"].encode()
DATABASE = os.environ["DATABASE_URL"]
PSQL = os.environ.get("PSQL", "psql")
COMMON = {"the", "a", "and", "of", "to", "in", "is", "it", "you", "we", "this", "that", "for"}


def scrape(job):
    """Extracts title and transcript. A video without a transcript is finished; for others, `enrich` is next."""
    video = job["payload"]["video_id"]
    update(video, "processing_status = 'scraping'")
    page = fetch(job["payload"]["video_url"])
    title = re.search(r"<title>(.*?)</title>", page, re.S)
    title = title.group(1).strip() if title else "untitled"
    captions = re.search(r'<track[^>]*src="([^"]+)"', page)
    if captions is None:
        update(video, "title = :'title', processing_status = 'done'", title=title)
        return {"transcript": False}
    transcript = words_of(fetch(urllib.parse.urljoin(job["payload"]["video_url"], captions.group(1))))
    update(video, "title = :'title', transcript = :'transcript'", title=title, transcript=transcript)
    return {"transcript": True, "windlass": {"next": [{
        "definition_key": "clipnest.enrich",
        "payload": {"video_id": video},
        "subject_type": "video",
        "subject_id": video,
    }]}}


def enrich(job):
    """A summary (the sentence with the most of the transcript's own words) and an embedding (hashed words, normalised)."""
    video = job["payload"]["video_id"]
    update(video, "processing_status = 'enriching'")
    transcript = query("select transcript from clipnest_videos where id = :'id'", id=video)
    words = [word for word in re.findall(r"[a-z']+", transcript.lower()) if word not in COMMON]
    weight = {word: words.count(word) for word in set(words)}
    sentences = re.split(r"(?<=[.!?])\s+", transcript)
    summary = max(sentences, key=lambda sentence: sum(weight.get(word, 0) for word in re.findall(r"[a-z']+", sentence.lower())))
    vector = [0.0] * 16
    for word in words:
        digest = hashlib.sha256(word.encode()).digest()
        vector[digest[0] % 16] += 1.0 if digest[1] % 2 else -1.0
    length = math.sqrt(sum(value * value for value in vector)) or 1.0
    embedding = "{" + ",".join(f"{value / length:.6f}" for value in vector) + "}"
    update(video, "summary = :'summary', embedding = :'embedding'::real[], processing_status = 'done'", summary=summary, embedding=embedding)
    return {"summary": summary}


FUNCTIONS = {"/scrape": scrape, "/enrich": enrich}


def fetch(url):
    with urllib.request.urlopen(url, timeout=30) as response:
        return response.read().decode()


def words_of(captions):
    """The text of a WebVTT file."""
    lines = [line.strip() for line in captions.splitlines()]
    return " ".join(line for line in lines if line and line != "WEBVTT" and "-->" not in line)


def query(text, **values):
    """One statement; values travel as psql variables, which it quotes itself."""
    command = [PSQL, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", DATABASE]
    for name, value in values.items():
        command += ["-v", f"{name}={value}"]
    ran = subprocess.run(command, input=text, capture_output=True, text=True, timeout=30)
    if ran.returncode != 0:
        raise RuntimeError(ran.stderr.strip())
    return ran.stdout.strip()


def update(video, changes, **values):
    query(f"update clipnest_videos set {changes} where id = :'id'", id=video, **values)


class Functions(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if not self.is_signed(body):
            return self.answer(401, {"error": "not signed by windlass"})
        job = json.loads(body)
        try:
            self.answer(200, FUNCTIONS[self.path](job))
        except Exception as error:  # noqa: BLE001 - whatever goes wrong fails the attempt
            # The last attempt marks the row as failed.
            if job["failures"] + 1 >= job["max_attempts"]:
                update(job["payload"]["video_id"], "processing_status = 'failed', processing_error = :'error'", error=str(error)[:500])
            self.answer(500, {"error": str(error)[:500]})

    def is_signed(self, body):
        sent_at = self.headers.get("webhook-timestamp", "0")
        signed = f"{self.headers.get('webhook-id')}.{sent_at}.".encode() + body
        expected = "v1," + base64.b64encode(hmac.new(SECRET, signed, hashlib.sha256).digest()).decode()
        is_fresh = abs(time.time() - float(sent_at)) < 300
        return is_fresh and hmac.compare_digest(expected, self.headers.get("webhook-signature", ""))

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
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8300"))), Functions)
    print(f"ready: http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
