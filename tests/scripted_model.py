"""A chat-completions server in a thread whose model is a function of the messages."""

import json

from local_server import LocalServer, QuietHandler


class ScriptedModel(LocalServer):
    """`reply(messages, tools)` returns words, or words and calls as (name, arguments in JSON)."""

    def __init__(self, reply):
        super().__init__(_Handler)
        self.reply = reply


class _Handler(QuietHandler):
    def do_POST(self):
        server = self.server
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.requests.append(asked)
        found = server.reply(asked["messages"], asked.get("tools", []))
        words, calls = found if isinstance(found, tuple) else (found, [])
        message = {"role": "assistant", "content": words}
        if calls:
            message["tool_calls"] = [
                {"id": f"call-{len(asked['messages'])}-{k}", "type": "function",
                 "function": {"name": name, "arguments": arguments}}
                for k, (name, arguments) in enumerate(calls)
            ]  # fmt: skip
        body = json.dumps({
            "id": "1", "object": "chat.completion", "created": 0, "model": asked["model"],
            "choices": [{"index": 0, "message": message,
                         "finish_reason": "tool_calls" if calls else "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }).encode()  # fmt: skip
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
