"""Turns per second that a slow language-model endpoint writes for many conversations at once.

    python scripts/bench_writer.py [--prompts 64] [--latency 0.2] [--seconds 6]

A server in a process of its own answers each request after `latency` seconds, so no more than
prompts ÷ latency turns per second are possible; what is missing is the cost of our own side.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection

from convgym.language.endpoint import EndpointModel
from convgym.language.models import ChatMessage

PROMPT = (
    ChatMessage("system", "You write what a customer says. Keep the facts. " * 20),
    ChatMessage("user", "Say in the voice of a hurried customer: inform(order_id=W1234567)."),
)
REPLY = json.dumps({"choices": [{"message": {"content": "It's W1234567, please hurry."}}]}).encode()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024
    latency = 0.0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: Server

    def log_message(self, *_: object) -> None:
        """A line per request would be most of what is measured."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(self.server.latency)
        self.send_response(200)
        self.send_header("Content-Length", str(len(REPLY)))
        self.end_headers()
        self.wfile.write(REPLY)


def serve(latency: float, port: Connection) -> None:
    """Answer until the parent ends."""
    server = Server(("127.0.0.1", 0), Handler)
    server.latency = latency
    port.send(server.server_port)
    server.serve_forever()


def measure(model: EndpointModel, prompts: int, seconds: float) -> tuple[int, int, float]:
    """Turns, errors and seconds; every conversation waits for the slowest of its round."""
    turns = errors = 0
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        results = model.complete([PROMPT] * prompts, range(turns, turns + prompts))
        turns += len(results)
        errors += sum(bool(result.error) for result in results)
    return turns, errors, time.perf_counter() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=int, default=64, help="conversations at once")
    parser.add_argument("--latency", type=float, default=0.2, help="seconds the server takes")
    parser.add_argument("--seconds", type=float, default=6.0, help="how long to measure")
    options = parser.parse_args()

    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=serve, args=(options.latency, theirs), daemon=True)
    server.start()
    try:
        url = f"http://127.0.0.1:{ours.recv()}"
        with EndpointModel(url, "bench", concurrency=options.prompts) as model:
            model.complete([PROMPT] * options.prompts, range(options.prompts))  # connects
            cpu = time.process_time()
            turns, errors, seconds = measure(model, options.prompts, options.seconds)
            cpu = time.process_time() - cpu
    finally:
        server.terminate()
    print(
        f"{options.prompts} prompts at once, {options.latency * 1000:.0f} ms per reply: "
        f"{turns / seconds:.0f} turns/s of {options.prompts / options.latency:.0f} possible, "
        f"{cpu / turns * 1000:.2f} ms CPU per turn, {errors} errors"
    )


if __name__ == "__main__":
    main()
