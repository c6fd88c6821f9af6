"""The TTS service that users call. It has no jobs table: a user's jobs are those with that user as their subject.

    WINDLASS_SERVER=http://127.0.0.1:8080 WINDLASS_TOKEN=… PORT=8202 python3 service.py

`X-User-Id` represents the authentication of the service. Jobs of other users return 404, like jobs that do not exist.
"""

import http.server
import json
import os
import re
import uuid

from windlass import ApiError, Client

client = Client(os.environ["WINDLASS_SERVER"], token=os.environ["WINDLASS_TOKEN"], tenant=os.environ.get("WINDLASS_TENANT"))

STATUS = {
    "scheduled": "pending",
    "blocked": "pending",
    "queued": "pending",
    "running": "processing",
    "succeeded": "completed",
    "failed": "failed",
    "dead_letter": "failed",
    "canceled": "cancelled",
}


def shown(job):
    """A job in the format that this service has always returned."""
    artifact = job["artifact"] or {}
    return {
        "id": job["id"],
        "user_id": job["subject_id"],
        "job_type": job["definition_key"],
        "status": STATUS[job["status"]],
        "provider": job["payload"]["provider"],
        "input_params": job["payload"]["input_params"],
        "audio_file_id": artifact.get("audio_file_id"),
        "result_metadata": job["result"],
        "error_message": job["last_error"],
        "retry_count": max(0, job["attempt_count"] - 1),
        "progress": job["progress_percent"],
        "created_at": job["queued_at"],
        "started_at": job["started_at"],
        "completed_at": job["finished_at"],
    }


class Service(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.handle_with({r"/jobs": self.list, r"/jobs/([^/]+)": self.read, r"/jobs/([^/]+)/audio": self.audio})

    def do_POST(self):
        # Read the body even if it is not used, because the connection is reused.
        self.body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.handle_with({r"/jobs": self.create, r"/jobs/([^/]+)/cancel": self.cancel})

    def create(self, user):
        # windlass validates the provider and the input with the definition's schema.
        job = client.enqueue("multi_role_tts", json.loads(self.body), subject_type="user", subject_id=user)
        self.answer(202, shown(client.job(job["id"])))

    def list(self, user):
        self.answer(200, {"jobs": [shown(job) for job in client.jobs(subject=f"user:{user}", definition_key="multi_role_tts")]})

    def read(self, user, job_id):
        self.answer(200, shown(self.own(user, job_id)))

    def cancel(self, user, job_id):
        self.own(user, job_id)
        client.cancel(job_id)
        self.answer(200, shown(client.job(job_id)))

    def audio(self, user, job_id):
        artifact = self.own(user, job_id)["artifact"]
        if artifact is None:
            raise ApiError(404, "not_found", "there is no audio of this job")
        with open(artifact["storage_path"], "rb") as file:
            self.answer(200, file.read(), "audio/wav")

    def own(self, user, job_id):
        job = client.job(str(uuid.UUID(job_id)))
        if (job["subject_type"], job["subject_id"]) != ("user", user):
            raise ApiError(404, "not_found", "there is no such job")
        return job

    def handle_with(self, routes):
        try:
            user = str(uuid.UUID(self.headers.get("x-user-id", "")))
        except ValueError:
            return self.answer(401, {"detail": "X-User-Id must be a UUID"})
        for pattern, handler in routes.items():
            match = re.fullmatch(pattern, self.path)
            if match:
                try:
                    return handler(user, *match.groups())
                except ApiError as error:
                    return self.answer(error.status, {"detail": error.detail, "errors": error.errors})
                except ValueError as error:
                    return self.answer(400, {"detail": str(error)})
        return self.answer(404, {"detail": "not found"})

    def answer(self, status, body, kind="application/json"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8202"))), Service)
    print(f"ready: http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
