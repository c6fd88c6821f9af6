"""The definitions of these tests. The tests use the fixture `windlass_server` of the package."""

import logging
import uuid

import pytest

logging.basicConfig(level=logging.INFO)


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
