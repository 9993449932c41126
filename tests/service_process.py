"""A service in a process of its own, as `convgym serve` starts it, for tests on real sockets."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).parents[1]
KEY = "a-key-for-the-real-server"


class ServiceProcess:
    """Serves as long as its `with` block lasts; `events` are its log lines."""

    def __init__(self, tmp_path, policy="greet-only", keyed=True, **settings):
        given = {"port": 0, "environments": ("ConvGym/TechnicalSupport-v0",), **settings}
        self._keys = f"[('test', {KEY!r})]" if keyed else "[]"
        self._code = (
            "from pathlib import Path, PosixPath\n"
            "from convgym.service.start import start\n"
            "from convgym.service.settings import ServiceSettings\n"
            "from convgym.service.keys import KeyRing\n"
            "from convgym.service.json_log import JsonLog\n"
            f"start(ServiceSettings(**{given!r}), KeyRing({self._keys}), {policy!r}, JsonLog())\n"
        )
        self.path, self.keyed, self.events = tmp_path, keyed, []
        self._listening = threading.Event()

    def __enter__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", self._code],
            stderr=subprocess.PIPE,
            cwd=self.path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._listening.wait(60.0), self.events
        return self

    def _read(self):
        for line in self.process.stderr:
            event = json.loads(line) if line.startswith("{") else {"event": "noise", "line": line}
            self.events.append(event)
            if event["event"] == "listening":
                self.port = event["port"]
            if event["event"] == "started":
                self._listening.set()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.stop()
        self._reader.join(5.0)
        self.process.stderr.close()

    def stop(self):
        """Ask it to stop; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(30.0)
        self._reader.join(5.0)
        return status

    def ask(self, method, path, body=None, key=KEY, connection=None):
        """(status, JSON value) of one request."""
        mine = connection or self.connect()
        headers = {"Authorization": f"Bearer {key}"} if self.keyed and key else {}
        if body is not None:
            body = json.dumps(body)
            headers["Content-Type"] = "application/json"
        mine.request(method, path, body, headers)
        answer = mine.getresponse()
        content = answer.read()
        if connection is None:
            mine.close()
        return answer.status, json.loads(content) if content.startswith(b"{") else content

    def connect(self):
        """A connection of one's own."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=20.0)
