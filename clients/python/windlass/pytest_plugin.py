"""The pytest fixtures `windlass_server` and `windlass_client`.

`windlass_server` uses the server of WINDLASS_SERVER and WINDLASS_TOKEN if they are set. Otherwise it starts the program
`windlass` (or that of WINDLASS_BINARY) once per test session, with a Postgres of its own in a temporary directory.
"""

import dataclasses
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
from typing import Any, Dict, Iterator, Optional

import pytest

from .client import Client


@dataclasses.dataclass
class Server:
    url: str
    token: str
    #: The URL of its database, for `enqueue_in` and for assertions. None if it is not known.
    database_url: Optional[str] = None

    def client(self) -> Client:
        return Client(self.url, token=self.token)

    def define(self, key: str, **fields: Any) -> Dict[str, Any]:
        """Creates a definition. Requires a super-admin token, which a server started by the fixture has."""
        created: Dict[str, Any] = self.client()._call("POST", "/api/v1/admin/jobs/definitions", {"key": key, **fields})
        return created


@pytest.fixture(scope="session")
def windlass_server() -> Iterator[Server]:
    if "WINDLASS_SERVER" in os.environ:
        yield Server(os.environ["WINDLASS_SERVER"], os.environ["WINDLASS_TOKEN"], os.environ.get("DATABASE_URL"))
        return
    program = os.environ.get("WINDLASS_BINARY") or shutil.which("windlass")
    if program is None:
        pytest.fail("windlass is not in PATH: install it, or set WINDLASS_BINARY, or WINDLASS_SERVER and WINDLASS_TOKEN")
    # Not a directory of pytest: if root runs the tests, Postgres runs as another user, who must be able to enter it.
    with tempfile.TemporaryDirectory(prefix="windlass-") as folder:
        os.chmod(folder, 0o711)
        command = [program, "up", "--no-demo", "--data-dir", folder, "--listen", "127.0.0.1:0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                yield _ready(process, pathlib.Path(folder))
            finally:
                process.terminate()
                process.wait()


@pytest.fixture
def windlass_client(windlass_server: Server) -> Client:
    return windlass_server.client()


def _ready(process: "subprocess.Popen[str]", folder: pathlib.Path) -> Server:
    assert process.stdout is not None, "it is a pipe"
    url = database_url = None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("ready: "):
            url = line[len("ready: ") :].strip()
        if line.startswith("the database is "):
            database_url = line[len("the database is ") :].strip()
        if url is not None and database_url is not None:
            # The rest of its output must be read, or it blocks on a full pipe.
            threading.Thread(target=process.stdout.read, daemon=True).start()
            return Server(url, (folder / "admin-token").read_text().strip(), database_url)
    raise RuntimeError("windlass up ended before it was ready:\n" + "".join(lines))
