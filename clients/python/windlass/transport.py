"""Sends HTTP requests. Each thread has its own connection, and a request can be interrupted from another thread."""

import http.client
import socket
import ssl
import threading
import urllib.parse
from typing import Dict, Optional, Tuple

from .errors import WindlassError

Response = Tuple[int, Dict[str, str], bytes]


class Interrupt:
    """Ends the request that holds it, now and in future. A long poll would otherwise wait for its response.

    The socket is only shut down, not closed, because the thread that reads from it still uses it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: Optional[socket.socket] = None
        self.is_set = False

    def set(self) -> None:
        with self._lock:
            self.is_set = True
            if self._socket is not None:
                _shut_down(self._socket)

    def _hold(self, held: Optional[socket.socket]) -> None:
        with self._lock:
            self._socket = held
            if self.is_set and held is not None:
                _shut_down(held)


class Transport:
    def __init__(self, url: str) -> None:
        if not isinstance(url, str) or not url:
            raise WindlassError(f"url must be the URL of the server, not {url!r}: is WINDLASS_SERVER set?")
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise WindlassError(f"url must be an http or https URL: {url!r}")
        self._parts = parts
        self._base = parts.path.rstrip("/")
        self._local = threading.local()

    def exchange(
        self,
        method: str,
        path: str,
        data: Optional[bytes],
        headers: Dict[str, str],
        timeout: float,
        interrupt: Optional[Interrupt] = None,
    ) -> Response:
        connection: Optional[http.client.HTTPConnection] = getattr(self._local, "connection", None)
        is_fresh = connection is None
        if connection is None:
            connection = self._connect(timeout)
        self._local.connection = None
        connection.timeout = timeout
        try:
            if connection.sock is None:
                connection.connect()
            connection.sock.settimeout(timeout)
            if interrupt is not None:
                interrupt._hold(connection.sock)
            try:
                connection.request(method, self._base + path, body=data, headers=headers)
                response = connection.getresponse()
                content = response.read()
            finally:
                if interrupt is not None:
                    interrupt._hold(None)
        except (http.client.RemoteDisconnected, ConnectionError):
            connection.close()
            if is_fresh or (interrupt is not None and interrupt.is_set):
                raise
            # The server closed an idle connection; it has not read this request.
            return self.exchange(method, path, data, headers, timeout, interrupt)
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            self._local.connection = connection
        return response.status, {name.lower(): value for name, value in response.getheaders()}, content

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        host = self._parts.hostname
        assert host is not None, "checked by the constructor"
        if self._parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, self._parts.port, timeout=timeout, context=context)
        return http.client.HTTPConnection(host, self._parts.port, timeout=timeout)


def _shut_down(held: socket.socket) -> None:
    try:
        # Of the base class: a TLS socket would also discard the state that the reading thread uses.
        socket.socket.shutdown(held, socket.SHUT_RDWR)
    except OSError:
        pass  # It is already closed.
