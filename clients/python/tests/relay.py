"""Passes connections on to the server, and knows what was sent. It can be broken, as a proxy is while it restarts."""

import socket
import threading


class Relay:
    def __init__(self, url):
        host, port = url.split("://")[1].split(":")
        self._server = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._changed = threading.Condition()
        self._open = []
        self._refused = 0.0
        self._requests = b""
        self.responses = b""

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._listener.close()
        self._disconnect()

    def break_off(self):
        """Ends the connections, and refuses new ones until it is repaired."""
        self.refuse(float("inf"))
        self._disconnect()

    def refuse(self, connections):
        """Refuses this many new connections."""
        with self._changed:
            self._refused = connections

    def repair(self):
        self.refuse(0)

    def wait_for(self, request, count=1):
        """Waits until this many requests of this kind were passed on."""
        with self._changed:
            is_seen = self._changed.wait_for(lambda: self._requests.count(request.encode()) >= count, timeout=30)
        assert is_seen, f"not {count} times in 30 s: {request}"

    def _disconnect(self):
        with self._changed:
            for connection in self._open:
                _shut_down(connection)
            self._open = []

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with self._changed:
                if self._refused > 0:
                    self._refused -= 1
                    near.close()
                    continue
                far = socket.create_connection(self._server)
                self._open += [near, far]
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._copy, args=(source, target, source is near), daemon=True).start()

    def _copy(self, source, target, is_request):
        try:
            while data := source.recv(65536):
                if not is_request:
                    # Before the client has it, so that a test that continues with the response finds it here.
                    with self._changed:
                        self.responses += data
                target.sendall(data)
                if is_request:
                    with self._changed:
                        self._requests += data
                        self._changed.notify_all()
        except OSError:
            pass
        _shut_down(source)
        _shut_down(target)


def _shut_down(connection):
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
