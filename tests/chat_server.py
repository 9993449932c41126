"""A chat-completions server in a thread of this process that answers, dawdles or misbehaves."""

import json

from local_server import LocalServer, QuietHandler

RUDE = b"<html>Go away.</html>"


class ChatServer(LocalServer):
    """`mood`: `draft` says the prompt's draft again, `slow` does so after a second, `off-topic`
    says something else, `broken` is an error 500, `rude` sends a page."""

    def __init__(self, mood="draft"):
        super().__init__(_Handler)
        self.mood = mood


class _Handler(QuietHandler):
    def do_POST(self):
        server = self.server
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.requests.append(request)
        if server.mood == "slow":
            server.stop.wait(1.0)
        draft = request["messages"][-1]["content"].split("The draft: ")[-1].split("\n\n")[0]
        said = "The stock market fell by two percent." if server.mood == "off-topic" else draft
        body = json.dumps({"choices": [{"message": {"content": f'Customer: "{said}"'}}]}).encode()
        self.send_response(500 if server.mood == "broken" else 200)
        body = RUDE if server.mood == "rude" else body
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
