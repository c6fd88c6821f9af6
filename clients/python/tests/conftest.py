"""What these tests share. They use the fixtures `windlass_server` and `windlass_client` of the package."""

import logging
import threading
import uuid

import pytest
from relay import Relay


@pytest.fixture
def define(windlass_server):
    """Creates a definition with a new name and a short backoff, and returns its key."""

    def create(**fields):
        key = f"test-{uuid.uuid4().hex}"
        backoff = {"kind": "fixed", "base_seconds": 0.01, "jitter": 0}
        windlass_server.define(key, backoff=backoff, max_attempts=3, **fields)
        return key

    return create


@pytest.fixture
def database_url(windlass_server):
    assert windlass_server.database_url, "set DATABASE_URL, or let the fixture start the server"
    return windlass_server.database_url


@pytest.fixture
def relay(windlass_server):
    with Relay(windlass_server.url) as relay:
        yield relay


@pytest.fixture
def logs():
    """The messages of the package; `wait_for` waits for one."""
    recorder = Recorder()
    logger = logging.getLogger("windlass")
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(recorder)
    yield recorder
    logger.removeHandler(recorder)
    logger.setLevel(level)


class Recorder(logging.Handler):
    def __init__(self):
        super().__init__()
        self._changed = threading.Condition()
        self.text = ""

    def emit(self, record):
        with self._changed:
            self.text += self.format(record) + "\n"
            self._changed.notify_all()

    def wait_for(self, text):
        with self._changed:
            is_seen = self._changed.wait_for(lambda: text in self.text, timeout=30)
        assert is_seen, f"not in 30 s: {text}\n{self.text}"
