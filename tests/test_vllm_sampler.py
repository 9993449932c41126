"""A vLLM server's protocol, spoken by a server of the test's own that samples from a tiny model."""

import json
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="needs the extra llm")

from local_server import LocalServer, QuietHandler  # noqa: E402
from text_environments import Echo  # noqa: E402
from tiny_models import tiny_model, tiny_tokenizer  # noqa: E402

from convgym.errors import InvalidConfiguration  # noqa: E402
from trainers.llm.chat_format import ChatFormat  # noqa: E402
from trainers.llm.language_model import LanguageModel, LoRA  # noqa: E402
from trainers.llm.policy_config import PolicyOptimizerConfig  # noqa: E402
from trainers.llm.policy_optimizer import PolicyOptimizer  # noqa: E402
from trainers.llm.rollout_engine import RolloutEngine  # noqa: E402
from trainers.llm.sampling import Sampling  # noqa: E402
from trainers.llm.vllm_sampler import AdapterUpdates, VLLMSampler, VLLMServer  # noqa: E402

TOKENIZER = tiny_tokenizer()
FORMAT = ChatFormat(TOKENIZER)
SHORT = Sampling(max_tokens=6, max_context=300)


class VLLM(LocalServer):
    """Completions by `model`; `mood`: "", "hides the end", "old", "broken"."""

    def __init__(self, model, mood=""):
        super().__init__(_Handler)
        self.model, self.mood, self.lock = model, mood, threading.Lock()


class _Handler(QuietHandler):
    def do_POST(self):
        server = self.server
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.requests.append((self.path, request))
        answer = {}
        if self.path.endswith("/completions"):
            with server.lock:
                answer = sampled(server, request)
        body = json.dumps(answer).encode() if answer else b"Success: LoRA adapter 'it' loaded."
        self.send_response(500 if server.mood == "broken" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def sampled(server, request):
    """Token after token, by the request's seed."""
    rng = np.random.default_rng(request["seed"])
    ids, log_probs, (end,) = [], [], request["stop_token_ids"]
    while len(ids) < request["max_tokens"] and end not in ids:
        with torch.no_grad():
            logits = server.model(torch.tensor([request["prompt"] + ids])).logits[0, -1]
        logs = (logits / request["temperature"]).log_softmax(0).numpy()
        chance = np.exp(logs.astype(np.float64))
        ids.append(int(rng.choice(len(chance), p=chance / chance.sum())))
        log_probs.append(float(logs[ids[-1]]))
    stopped = ids[-1] == end
    if stopped and server.mood == "hides the end":
        ids, log_probs = ids[:-1], log_probs[:-1]
    choice = {
        "token_ids": ids,
        "logprobs": {"token_logprobs": log_probs},
        "finish_reason": "stop" if stopped else "length",
    }
    return {"choices": [{"text": "?"} if server.mood == "old" else choice]}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def played(server, groups=4):
    engine = RolloutEngine(Echo, VLLMSampler(server.url, "it"), FORMAT, SHORT, slots=3)
    return engine.collect(range(groups), 2, rng_seed=0)


def test_its_tokens_are_the_rollouts_and_their_log_probabilities_the_learners():
    model = LanguageModel(tiny_model(initializer_range=0.3), TOKENIZER)
    with VLLM(model.module) as server:
        found, again = played(server), played(server)
    assert [r.error for r in found] == [""] * 8
    for rollout, other in zip(found, again, strict=True):
        for segment, same in zip(rollout.segments, other.segments, strict=True):
            assert np.array_equal(segment.tokens, same.tokens)
    prompts = [tuple(request["prompt"]) for _, request in server.requests]
    tokens = [segment.tokens.tolist() for rollout in found for segment in rollout.segments]
    assert any(list(prompt) == row[: len(prompt)] for prompt in prompts for row in tokens)
    for segment in (segment for rollout in found for segment in rollout.segments):
        with torch.no_grad():
            logs = model.module(torch.tensor(segment.tokens[None])).logits[0].log_softmax(-1)
        own = np.flatnonzero(segment.loss_mask)
        known = logs[own - 1, segment.tokens[own]].numpy()
        assert np.abs(known - segment.log_probs[own]).max() < 1e-4


def test_the_loop_learns_over_it():
    """An iteration: the learner's own log-probabilities are the server's."""
    model = LanguageModel(tiny_model(initializer_range=0.3), TOKENIZER)
    config = PolicyOptimizerConfig(
        iterations=2, seeds_per_iteration=2, group_size=2, sampling=SHORT, learning_rate=1e-3
    )
    with VLLM(model.module) as server:
        engine = RolloutEngine(Echo, VLLMSampler(server.url, "it"), FORMAT, SHORT)
        rows = PolicyOptimizer(model, engine, config).train()
    gaps = [row[name] for row in rows for name in row if "sampler" in name and "max" in name]
    assert len(rows) == 2 and gaps and max(map(abs, gaps)) < 1e-4, rows[-1]


def test_an_end_that_is_not_handed_out_is_there_all_the_same():
    model = tiny_model(initializer_range=0.3)
    with VLLM(model) as server:
        told = played(server, 8)
    with VLLM(model, "hides the end") as server:
        hidden = played(server, 8)
    ends = 0
    for one, other in zip(told, hidden, strict=True):
        for segment, same in zip(one.segments, other.segments, strict=True):
            assert np.array_equal(segment.tokens, same.tokens)
            ends += int((segment.tokens == FORMAT.end).sum())
    assert ends


def test_a_server_gets_the_newest_adapter_after_every_iteration(tmp_path):
    model = LanguageModel(tiny_model(), TOKENIZER, lora=LoRA(rank=2))
    with VLLM(model.module) as server:
        address = VLLMServer(server.url)
        updates = AdapterUpdates(address, model, "it", tmp_path / "adapter")
        before = (tmp_path / "adapter" / "adapter_model.safetensors").read_bytes()
        updates({"step": 1})
        assert [path.rpartition("/")[2] for path, _ in server.requests] == [
            "load_lora_adapter", "unload_lora_adapter", "load_lora_adapter",
        ]  # fmt: skip
        assert server.requests[0][1]["lora_path"] == str(tmp_path / "adapter") and before
        with pytest.raises(InvalidConfiguration, match="this model has none"):
            AdapterUpdates(address, LanguageModel(tiny_model(), TOKENIZER), "it", tmp_path / "b")


@pytest.mark.parametrize(
    ("mood", "says"), [("old", "without token_ids"), ("broken", "refused with 500")]
)
def test_a_server_that_cannot_is_one_sentence(mood, says):
    with VLLM(tiny_model(), mood) as server, pytest.raises(InvalidConfiguration, match=says):
        played(server)


def test_no_server_is_one_sentence():
    with LocalServer(_Handler) as server:
        url = server.url
    engine = RolloutEngine(Echo, VLLMSampler(url, "it"), FORMAT, SHORT)
    with pytest.raises(InvalidConfiguration, match="does not answer"):
        engine.collect([0], 1, rng_seed=0)
    with pytest.raises(InvalidConfiguration, match="a server's address"):
        VLLMServer("localhost:8000")
