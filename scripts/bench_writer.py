"""Turns per second that a slow language-model endpoint writes for many conversations at once.

    python scripts/bench_writer.py [--prompts 64] [--latency 0.2] [--seconds 6]

A server in a process of its own answers each request after `latency` seconds, so no more than
prompts ÷ latency turns per second are possible; what is missing is the cost of our own side. First
the endpoint alone, then as the writer of a vector environment: there each turn is also decided,
drafted, checked for its acts and values, and understood.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection

import gymnasium as gym

import convgym  # noqa: F401  registers the environments
from convgym.language.endpoint import EndpointModel
from convgym.language.models import ChatMessage

PROMPT = (
    ChatMessage("system", "You write what a customer says. Keep the facts. " * 20),
    ChatMessage("user", "Say in the voice of a hurried customer: inform(order_id=W1234567)."),
)
ENVIRONMENT = "ConvGym/CustomerService-v0"
REPLIES = (
    "Hello! How can I help you today?",
    "Could you tell me the email address of your account?",
    "Thank you. Which order is it about?",
    "Let me see. What is the postcode of your account?",
)


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
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(self.server.latency)
        draft = request["messages"][-1]["content"].split("The draft: ")[-1].split("\n\n")[0]
        body = json.dumps({"choices": [{"message": {"content": draft}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


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


def environment(url: str, rows: int, seconds: float) -> tuple[int, int, float]:
    """User turns, those in the writer's words, and seconds of a vector environment."""
    settings = {"kind": "endpoint", "url": url, "model": "bench", "concurrency": rows}
    env = gym.make_vec(ENVIRONMENT, num_envs=rows, realism=1.0, writer=settings)
    env.reset(seed=0)
    turns = written = step = 0
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        infos = env.step((REPLIES[step % len(REPLIES)],) * rows)[4]
        step += 1
        turns += sum(bool(source) for source in infos["wording"])
        written += sum(source == "writer" for source in infos["wording"])
    spent = time.perf_counter() - start
    env.close()
    return turns, written, spent


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
        rows = environment(url, options.prompts, options.seconds)
    finally:
        server.terminate()
    print(
        f"{options.prompts} prompts at once, {options.latency * 1000:.0f} ms per reply: "
        f"{turns / seconds:.0f} turns/s of {options.prompts / options.latency:.0f} possible, "
        f"{cpu / turns * 1000:.2f} ms CPU per turn, {errors} errors"
    )
    turns, written, seconds = rows
    print(
        f"vector environment of {options.prompts}: {turns / seconds:.0f} user turns/s, "
        f"{written / turns:.0%} in the writer's words"
    )


if __name__ == "__main__":
    main()
