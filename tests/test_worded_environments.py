"""Environments whose customer's words come from a writer: kept, broken, failing, batched."""

import json
import re

import gymnasium as gym
import numpy as np
import pytest
from chat_server import ChatServer
from driven import NEEDED, desk_of, domain_of, every_id, hidden, make, player, talked, topic_of
from gymnasium.vector import SyncVectorEnv
from single_task import KNOWS_ID
from staged_user import task_of

from convgym.domains.catalogue import domain_called
from convgym.envs.conversation_env import WRITER_FAILED
from convgym.envs.vector import ConversationVectorEnv
from convgym.errors import InvalidAction, InvalidConfiguration
from convgym.evaluation.rollout import play
from convgym.language.writing import Written
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.scripted import OraclePolicy
from convgym.users.persona import BUILT_IN

REPLIES = ("How can I help?", "What is your email address?", "Which order is it about?")


def echo(request):
    """A writer without fault: the draft as it is."""
    return request.draft


def off_topic(request):
    return "The capital of France is Paris, and its best bakeries are near the river."


def forgetful(request):
    return request.draft.replace(request.spoken[-1].value or "\0", "you know which one")


def broken(request):
    raise ConnectionError("no route to the model")


class Batched:
    """Words many turns at once, and remembers how many."""

    def __init__(self):
        self.sizes = []

    def write(self, requests):
        self.sizes.append(len(requests))
        return [Written(request.draft) for request in requests]


def vector_of(environment_id, **keywords):
    return gym.make_vec(environment_id, **NEEDED.get(environment_id, {}), **keywords)


def words(environment_id, seed=3, steps=REPLIES, **keywords):
    """(messages, infos) of a short conversation."""
    return talked(make(environment_id, **keywords), steps, seed)


@every_id
def test_above_one_half_a_writer_is_needed(environment_id):
    with pytest.raises(InvalidConfiguration, match="needs writer="):
        make(environment_id, realism=0.6)


@every_id
@pytest.mark.parametrize("seed", range(5))
def test_other_words_change_nothing_that_is_decided(environment_id, seed):
    def played(**keywords):
        env = make(environment_id, observation="dict", action="text", **keywords)
        policy = RenderedPolicy(player(environment_id, 0.0), domain=domain_of(environment_id))
        observation, info = env.reset(seed=seed)
        policy.reset(seed)
        acts, over = [info["user_acts"]], False
        while not over:
            action, _ = policy.predict(observation, action_masks=info["action_mask"])
            observation, _, terminated, truncated, info = env.step(action)
            acts.append((info["user_acts"], info["user_log_prob"]))
            over = terminated or truncated
        return acts, info["success"]

    plain = played()
    assert plain[1]
    for keywords in ({"realism": 0.5}, {"style": "sloppy"}, {"realism": 1.0, "writer": echo}):
        assert played(**keywords) == plain


@every_id
def test_realism_says_where_the_words_come_from(environment_id):
    for realism, writer, sources in (
        (0.0, None, {"template"}),
        (0.25, None, {"template", "retrieval"}),
        (0.5, None, {"retrieval"}),
        (0.75, echo, {"retrieval", "writer"}),
        (1.0, echo, {"writer"}),
    ):
        found = set()
        for seed in range(12):
            _, infos = words(environment_id, seed, realism=realism, writer=writer)
            found |= {info["wording"] for info in infos if info["user_acts"] != "[]"}
        assert found - {"fallback"} == sources


@every_id
@pytest.mark.parametrize("writer", [off_topic, forgetful, lambda request: ""])
def test_what_a_writer_breaks_is_said_in_the_words_of_the_draft(environment_id, writer):
    for seed in range(8):
        drafted, _ = words(environment_id, seed, realism=0.5)
        said, infos = words(environment_id, seed, realism=1.0, writer=writer)
        for message, draft, info in zip(said, drafted, infos, strict=True):
            if info["wording"] == "fallback":
                assert message == draft
        if writer is not forgetful:
            assert {info["wording"] for info in infos} == {"fallback"}


@every_id
def test_a_writer_that_fails_ends_the_episode_and_not_the_run(environment_id):
    env = make(environment_id, realism=1.0, writer=broken)
    for seed in range(3):
        observation, info = env.reset(seed=seed)
        assert observation
        assert info["wording"] == "fallback", "an opening falls back on its draft"
        _, reward, terminated, truncated, info = env.step(REPLIES[1])
        assert (reward, terminated, truncated) == (0.0, False, True)
        assert info["failure_reason"] == (
            f"{WRITER_FAILED}: ConnectionError: no route to the model"
        )


@every_id
def test_a_writer_sees_only_what_is_said(environment_id):
    seen = []

    def curious(request):
        seen.append(request)
        return request.draft

    env = make(environment_id, realism=1.0, writer=curious)
    for seed in range(10):
        seen.clear()
        env.reset(seed=seed)
        base = env.unwrapped
        hidden = base._domain.goal_values(base._episode.task)
        for reply in REPLIES:
            _, _, terminated, truncated, _ = env.step(reply)
            if terminated or truncated:
                break
        stated = {spoken.value for request in seen for spoken in request.spoken}
        for value in set(hidden.values()) - stated:
            if len(value) == 1:
                continue  # a quantity of 1 may stand anywhere
            assert not re.search(rf"(?<!\w){re.escape(value)}(?!\w)", repr(seen))


@every_id
def test_the_words_of_all_rows_are_asked_for_at_once(environment_id):
    writer = Batched()
    env = vector_of(environment_id, num_envs=5, realism=1.0, writer=writer)
    assert isinstance(env, ConversationVectorEnv)
    writer = env.envs[0].unwrapped._words._writer
    writer.sizes.clear()
    env.reset(seed=1)
    assert writer.sizes == [5]
    for _ in range(12):
        env.step(("Could you tell me your email address?",) * 5)
    assert sum(writer.sizes) == 13 * 5
    assert len(writer.sizes) == 13, "resets within a step are written with the rest"


@every_id
@pytest.mark.parametrize("more", [{}, {"realism": 1.0, "writer": echo}], ids=["batched", "written"])
def test_a_seed_may_be_a_number_of_any_kind(environment_id, more):
    """A repaired bug: a numpy integer was refused in the words of another package."""
    env = vector_of(environment_id, num_envs=2, observation="message", **more)
    for seed in (7, 2**63):
        openings = env.reset(seed=seed)[0]
        assert env.reset(seed=np.uint64(seed))[0] == openings
        assert env.reset(seed=[seed, seed + 1])[0] == openings


@every_id
@pytest.mark.parametrize("action", ["text", "act"])
def test_the_vector_environment_is_the_synchronous_one(environment_id, action):
    def both(**keywords):
        keywords |= {"observation": "message", "action": action, "max_turns": 6}
        return (
            vector_of(environment_id, num_envs=4, **keywords),
            SyncVectorEnv([lambda: make(environment_id, **keywords).unwrapped] * 4),
        )

    for keywords in ({}, {"realism": 1.0, "writer": echo}):
        ours, theirs = both(**keywords)
        assert ours.reset(seed=7)[0] == theirs.reset(seed=7)[0]
        generator = np.random.default_rng(1)
        for _ in range(40):
            if action == "text":
                acts = tuple(REPLIES[i] for i in generator.integers(0, 3, 4))
            else:
                acts = generator.integers(0, ours.single_action_space.n, 4)
            for mine, others in zip(ours.step(acts), theirs.step(acts), strict=True):
                if isinstance(mine, dict):
                    assert mine.keys() == others.keys()
                    for key in mine:
                        assert np.array_equal(mine[key], others[key])
                else:
                    assert np.array_equal(mine, others)


@every_id
def test_a_prepared_action_is_the_one_that_is_stepped(environment_id):
    env = make(environment_id).unwrapped
    env.reset(seed=1)
    env.prepare("Hello!")
    with pytest.raises(InvalidAction, match="was prepared"):
        env.step("Goodbye!")
    env.step("Hello!")
    env.prepare_reset(seed=2)
    with pytest.raises(InvalidConfiguration, match="was prepared"):
        env.reset(seed=3)
    env.reset(seed=2)


@every_id
def test_what_a_keyword_fixes_no_randomizer_draws(environment_id):
    desk = desk_of(environment_id)
    one, two, three = (desk.topics[n] for n in sorted(set(desk.table("train").topic.tolist()))[:3])
    env = make(
        environment_id, persona="patient_expert", topic=one, privileged=True,
        randomizer={"topics": [two], "curriculum": "linear", "style_variation": 1.0},
    )  # fmt: skip
    for seed in range(5):
        _, info = env.reset(seed=seed)
        assert topic_of(environment_id, info) == one
        assert tuple(hidden(info)["persona"].values()) == BUILT_IN["patient_expert"].levels
        assert info["difficulty"] == 0.1
    _, info = env.reset(options={"topic": three})
    assert topic_of(environment_id, info) == three, "an option wins over both"


# -- when two requests are in play -----------------------------------------------------------------

TWO = task_of(("cancel", "allow"), ("refund", ""), known=(KNOWS_ID,))


def of_two(writer, seed=2, **keywords):
    """(spoken acts, message, info) of each turn of the customer of two orders."""
    env = make("ConvGym/CustomerService-v0", observation="dict", writer=writer, realism=1.0,
               **keywords)  # fmt: skip
    rollout = play(env, RenderedPolicy(OraclePolicy()), seed=seed,
                   options={"task_id": TWO.task_id})  # fmt: skip
    assert rollout.final_info["success"], rollout.final_info["failure_reason"]
    return [
        (json.loads(info["user_acts"]), observation["message"], info)
        for observation, info in zip(rollout.observations, rollout.infos, strict=True)
        if info["wording"]
    ]


def numbers_of_two():
    values = domain_called("customer-service").goal_values(TWO)
    return values["0:inform_order"], values["1:inform_order"]


@pytest.mark.parametrize("seed", range(4))
def test_a_writer_that_mixes_up_two_requests_is_not_heard(seed):
    """Each number is said where it is due, and never the other one for it."""
    first, second = numbers_of_two()

    def confused(request):
        swapped = request.draft.replace(first, "\0").replace(second, first)
        return swapped.replace("\0", second)

    assert first != second
    said = []
    for acts, message, info in of_two(confused, seed, persona={"accuracy": 1.0}):
        for act in acts:
            if act["act"] == "inform_order":
                said.append(act["value"])
                other = first if act["value"] != first else second
                assert act["value"] in message and other not in message
                assert info["wording"] == "fallback" or act["value"] not in (first, second)
    assert len(set(said)) > 1


@pytest.mark.parametrize("seed", range(4))
def test_a_writer_does_not_raise_the_next_request_by_itself(seed):
    def hasty(request):
        return f"{request.draft} I also want to have a refund that never came."

    for acts, message, info in of_two(hasty, seed):
        if "request_refund" not in [act["act"] for act in acts]:
            assert info["wording"] == "fallback" and "never came" not in message


@every_id
@pytest.mark.parametrize(
    ("mood", "sources", "reason"),
    [
        ("draft", {"writer"}, ""),
        ("off-topic", {"fallback"}, ""),
        ("slow", {"fallback"}, "timeout"),
        ("broken", {"fallback"}, "http 500"),
        ("rude", {"fallback"}, "malformed reply"),
    ],
)
def test_an_endpoint_in_every_mood_words_or_ends_an_episode(environment_id, mood, sources, reason):
    with ChatServer(mood) as server:
        writer = {
            "kind": "endpoint", "url": server.url, "model": "m", "retries": 0,
            "timeout": 0.3 if mood == "slow" else 30.0,
        }  # fmt: skip
        # Four calls in all: five that fail would open the circuit, and which is refused is chance.
        env = vector_of(environment_id, num_envs=2, realism=1.0, writer=writer)
        _, info = env.reset(seed=5)
        assert set(info["wording"]) == sources
        _, _, terminated, truncated, info = env.step((REPLIES[1],) * 2)
        assert set(info["wording"]) == sources
        assert not terminated.any()
        assert truncated.all() == bool(reason)
        expected = f"{WRITER_FAILED}: {reason}" if reason else ""
        assert set(info["failure_reason"]) == {expected}
        env.close()


@every_id
@pytest.mark.parametrize(
    "answers",
    [[], None, ["hello"], [Written(None)], [Written("a"), Written("b")], "raise"],
    ids=repr,
)
def test_a_batch_writer_is_not_trusted(environment_id, answers):
    class Odd:
        def write(self, requests):
            if answers == "raise":
                raise RuntimeError("not today")
            return answers

    env = vector_of(environment_id, num_envs=1, realism=1.0, writer=Odd())
    env.reset(seed=1)
    _, _, _, truncated, info = env.step((REPLIES[0],))
    assert truncated.all()
    assert info["failure_reason"][0].startswith(WRITER_FAILED)


@every_id
def test_two_actions_are_not_prepared_at_once(environment_id):
    env = make(environment_id).unwrapped
    env.reset(seed=1)
    env.prepare("Hello!")
    with pytest.raises(InvalidAction, match="not yet stepped"):
        env.prepare("Hello!")
    env.reset(seed=1)
    env.step("Hello!")
