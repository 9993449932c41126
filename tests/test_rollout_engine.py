"""Rollouts: what was sampled stays, who else is played changes nothing, failures cost their own."""

import json

import numpy as np
import pytest
from chat_templates import TEMPLATES, tokenizer_of
from text_environments import Crashing, Echo, Messages, Summary, Transcript
from tiny_models import tiny_model, tiny_tokenizer

from convgym.errors import InvalidConfiguration
from trainers.llm.chat_format import ChatFormat
from trainers.llm.rollout_engine import RolloutEngine
from trainers.llm.rollouts import RolloutBatch
from trainers.llm.sampler import Reply, Sampler
from trainers.llm.sampling import Sampling
from trainers.llm.text_environment import TextEnvironment
from trainers.llm.transformers_sampler import TransformersSampler

FORMAT = ChatFormat(tiny_tokenizer())
MODEL = tiny_model(initializer_range=0.3)
SHORT = Sampling(max_tokens=8, max_context=400)


class Recording:
    """A sampler that remembers what it was asked and what it answered."""

    def __init__(self, sampler):
        self.sampler, self.asked, self.answered = sampler, {}, {}

    def __getattr__(self, name):
        return getattr(self.sampler, name)

    def submit(self, requests):
        for request in requests:
            context = request.context.tolist()
            self.asked.setdefault(request.conversation, []).append((context, request))
        self.sampler.submit(requests)

    def replies(self):
        found = self.sampler.replies()
        for reply in found:
            self.answered.setdefault(reply.conversation, []).append(reply)
        return found


def random_tokens(requests):
    """Any tokens at all, as a model without training samples them."""
    return [
        np.random.default_rng(request.key % 2**32).integers(0, 320, request.budget).tolist()
        for request in requests
    ]


def engine(environment=Echo, sampler=MODEL, sampling=SHORT, chat_format=FORMAT, **options):
    return RolloutEngine(environment, sampler, chat_format, sampling, **options)


def whole(rollouts):
    """Everything of rollouts as bytes, to compare them."""
    return [
        (
            [(s.tokens.tobytes(), s.turns.tobytes()) for s in r.segments],
            r.rewards.tobytes(),
            r.group,
            json.dumps(r.messages),
            r.error,
        )
        for r in rollouts
    ]


# -- tokens ----------------------------------------------------------------------------------------


def drift(turns_wanted, environment, sampling, max_turns):
    """Sampled turns, and how many of them are not in the segments exactly as they were sampled."""
    sampler = Recording(TransformersSampler(MODEL))
    played = engine(environment, sampler, sampling, max_turns=max_turns)
    turns = drifted = changed = 0
    seed = 0
    while turns < turns_wanted:
        sampler.asked, sampler.answered = {}, {}
        rollouts = played.collect(range(seed, seed + 8), 8, rng_seed=1)
        seed += 8
        for number, rollout in enumerate(rollouts):
            (segment,) = rollout.segments
            for turn, reply in enumerate(sampler.answered[number]):
                context, _ = sampler.asked[number][turn]
                drifted += segment.tokens[segment.turns == turn].tolist() != reply.tokens.tolist()
                drifted += segment.tokens[: len(context)].tolist() != context
                encoded = FORMAT.reply(FORMAT.decode(reply.tokens))
                changed += encoded[:-1] != reply.tokens[reply.tokens != FORMAT.end].tolist()
                turns += 1
    return turns, drifted, changed


def test_sampled_tokens_are_never_encoded_again():
    turns, drifted, changed = drift(400, Echo, SHORT, None)
    assert turns >= 400 and drifted == 0
    assert changed > 0.8 * turns, "a model without training writes what encodes differently"


@pytest.mark.slow
def test_no_drift_in_ten_thousand_turns():
    sampling = Sampling(max_tokens=6, max_context=512)
    turns, drifted, changed = drift(10_000, lambda: Echo(12), sampling, None)
    assert turns >= 10_000 and drifted == 0 and changed > 0.8 * turns


@pytest.mark.parametrize("name", list(TEMPLATES))
def test_the_mask_is_on_sampled_tokens_alone(name):
    """For every template: what is masked are the replies; the rest is what the template writes."""
    form = ChatFormat(tokenizer_of(name))
    sampler = Recording(TransformersSampler(tiny_model(vocabulary=340, initializer_range=0.3)))
    system = None if TEMPLATES[name].system else ""
    environment = TextEnvironment(lambda: Echo(3), system=system and "Be kind.")
    rollouts = engine(environment, sampler, chat_format=form).collect(range(3), 2, rng_seed=0)
    for number, rollout in enumerate(rollouts):
        (segment,) = rollout.segments
        replies = sampler.answered[number]
        sampled = np.concatenate([reply.tokens for reply in replies])
        assert segment.tokens[segment.loss_mask == 1].tolist() == sampled.tolist()
        assert [int((segment.turns == t).sum()) for t in range(3)] == [
            len(r.tokens) for r in replies
        ]
        assert not segment.log_probs[segment.loss_mask == 0].any()
        expected = form.opening(rollout.messages[:1])
        for turn, reply in enumerate(replies):
            expected += reply.tokens.tolist()
            expected += [] if reply.tokens[-1] == form.end else [form.end]
            if turn < 2:
                expected += form.continuation([rollout.messages[2 * turn + 2]])
        assert segment.tokens.tolist() == expected


def test_a_reply_without_an_end_gets_one_that_was_not_sampled():
    def never_ends(requests):
        return [[5] * request.budget for request in requests]

    (rollout,) = engine(Echo, never_ends).collect([0], 1, 0)
    (segment,) = rollout.segments
    for turn in range(3):
        places = np.flatnonzero(segment.turns == turn)
        assert segment.tokens[places].tolist() == [5] * 8
        assert segment.tokens[places[-1] + 1] == FORMAT.end
        assert segment.turns[places[-1] + 1] == -1


# -- the same, whoever is played beside ------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 1.0], ids=["greedy", "sampled"])
@pytest.mark.parametrize(
    "environment", [lambda: Echo(3, mixed=True), Messages], ids=["plain", "edited"]
)
def test_slots_do_not_change_what_is_said(environment, temperature):
    sampling = Sampling(temperature=temperature, max_tokens=6, max_context=400)
    played = [
        whole(engine(environment, MODEL, sampling, slots=slots).collect(range(3), 3, rng_seed=5))
        for slots in (1, 3, 64)
    ]
    assert played[0] == played[1] == played[2]


def test_others_do_not_change_what_is_said():
    some = engine().collect([11, 4, 8], 4, rng_seed=5)
    alone = engine().collect([4], 2, rng_seed=5)
    assert whole(alone) == whole(some[4:6])


def test_the_same_seeds_are_the_same_bytes():
    played = engine()
    first = played.collect([1, 2], 3, rng_seed=5)
    again = played.collect([1, 2], 3, rng_seed=5)
    assert whole(first) == whole(again)
    logged = [[s.log_probs.tobytes() for s in r.segments] for r in first]
    assert logged == [[s.log_probs.tobytes() for s in r.segments] for r in again]
    assert whole(first) != whole(played.collect([1, 2], 3, rng_seed=6))


def test_members_of_a_group_differ_and_stand_together():
    rollouts = engine().collect([9, 7], 4, rng_seed=5, version=12)
    assert [r.group for r in rollouts] == [9] * 4 + [7] * 4 == [r.seed for r in rollouts]
    assert len({r.segments[0].tokens.tobytes() for r in rollouts}) == 8
    assert {r.version for r in rollouts} == {12}
    assert [r.task for r in rollouts] == ["echo-9"] * 4 + ["echo-7"] * 4


def test_a_seed_that_comes_twice_is_a_larger_group():
    twice = engine().collect([9, 9], 2, rng_seed=5)
    assert whole(twice) == whole(engine().collect([9], 4, rng_seed=5))


# -- ends ------------------------------------------------------------------------------------------


def words(text):
    return lambda requests: [text] * len(requests)


def test_rewards_and_ends_are_those_of_the_environment():
    (rollout,) = engine(Echo, words("four")).collect([3], 1, 0)
    assert rollout.rewards.tolist() == [1, 1, 1]
    assert rollout.terminated and rollout.success and rollout.valid
    assert [m["role"] for m in rollout.messages] == ["user", "assistant"] * 3 + ["user"]
    assert rollout.messages[1]["content"] == "four"


def test_max_turns_cuts_off_and_leaves_the_last_words_to_read():
    judge = TextEnvironment(Echo, lambda messages, info: 10.0)
    (rollout,) = engine(judge, words("four"), max_turns=2).collect([3], 1, 0)
    assert rollout.rewards.tolist() == [1, 11] and not rollout.terminated
    (segment,) = rollout.segments
    ids = segment.tokens.tolist()
    assert ids[-len(FORMAT.continuation(rollout.messages[-1:])) :] == FORMAT.continuation(
        rollout.messages[-1:]
    )
    assert rollout.messages[-1]["role"] == "user" and segment.turns[-1] == -1


@pytest.mark.parametrize("room", range(28, 90, 3))
def test_a_full_context_cuts_off(room):
    sampling = Sampling(max_tokens=8, max_context=room)
    (rollout,) = engine(lambda: Echo(50), random_tokens, sampling).collect([3], 1, 0)
    if rollout.error:
        assert "max_context" in rollout.error and not rollout.valid
        return
    (segment,) = rollout.segments
    assert not rollout.terminated and len(segment.tokens) <= room
    assert len(rollout.rewards) == segment.turns.max() + 1 < 50


def test_an_edited_history_is_a_segment_of_its_own():
    (rollout,) = engine(Messages).collect([3], 1, 0)
    first, second = rollout.segments
    assert sorted({*first.turns.tolist()}) == [-1, 0, 1]
    assert sorted({*second.turns.tolist()}) == [-1, 2, 3]
    opening = FORMAT.opening([rollout.messages[4]])
    assert second.tokens[: len(opening)].tolist() == opening
    environment = TextEnvironment(Summary, history="replace")
    (rollout,) = engine(environment).collect([3], 1, 0)
    assert [sorted({*s.turns.tolist()}) for s in rollout.segments] == [[-1, 0], [-1, 1], [-1, 2]]
    assert RolloutBatch([rollout]).rows.tokens.shape[0] == 3


def test_a_transcript_is_one_segment():
    (rollout,) = engine(Transcript, words("four")).collect([3], 1, 0)
    (plain,) = engine(Echo, words("four")).collect([3], 1, 0)
    assert len(rollout.segments) == 1
    said = [m["content"].removeprefix("User: ") for m in rollout.messages]
    assert said == [m["content"] for m in plain.messages]


@pytest.mark.parametrize("observation", ["message", "dict"])
def test_customer_service_is_played(observation):
    environment = TextEnvironment(
        "ConvGym/CustomerService-v0", system="", kwargs={"observation": observation}
    )
    rollouts = engine(environment, MODEL, slots=3, max_turns=3).collect([1, 2], 2, 0)
    assert all(r.valid and len(r.rewards) <= 3 and r.task for r in rollouts)
    again = engine(environment, MODEL, max_turns=3).collect([1, 2], 2, 0)
    assert whole(rollouts) == whole(again)


def test_its_system_prompt_needs_room():
    (rollout,) = engine("ConvGym/CustomerService-v0", words("Hello")).collect([1], 1, 0)
    assert "leaves no room" in rollout.error
    long = Sampling(max_tokens=8, max_context=20_000)
    (rollout,) = engine("ConvGym/CustomerService-v0", words("Hello"), long, max_turns=2).collect(
        [1], 1, 0
    )
    assert rollout.valid and rollout.messages[0]["role"] == "system"


# -- failures --------------------------------------------------------------------------------------


@pytest.mark.parametrize("slots", [1, 4, 64])
def test_a_crash_costs_its_rollout_only(slots):
    rollouts = engine(Crashing, MODEL, slots=slots).collect(range(8), 2, rng_seed=5)
    errors = {r.seed: r.error for r in rollouts}
    assert {seed for seed, error in errors.items() if error} == {0, 3, 6}
    assert errors[0] == "RuntimeError: the desk is on fire"
    assert errors[6] == "OSError: no customers today"
    assert len(RolloutBatch(rollouts)) == 10
    calm = engine(Echo, MODEL).collect(range(8), 2, rng_seed=5)
    healthy = [place for place, r in enumerate(rollouts) if not r.error]
    assert whole([rollouts[p] for p in healthy]) == whole([calm[p] for p in healthy])


def test_a_judge_that_is_away_costs_the_rollouts_it_had_to_judge():
    def judge(messages, info):
        if "yes" in messages[0]["content"]:
            raise TimeoutError("no answer")
        return 1.0

    rollouts = engine(TextEnvironment(Echo, judge), words("four")).collect(range(12), 1, 0)
    failed = ["yes" in r.messages[0]["content"] for r in rollouts]
    assert [bool(r.error) for r in rollouts] == failed and any(failed) and not all(failed)
    assert {r.error for r in rollouts} == {"", "TimeoutError: no answer"}


def test_a_message_that_the_template_cannot_write_is_a_failure():
    form = ChatFormat(tokenizer_of("mistral"))
    environment = TextEnvironment(Echo, system="Be kind.")
    (rollout,) = engine(environment, words("four"), chat_format=form).collect([0], 1, 0)
    assert "cannot write messages of the roles system, user" in rollout.error


def test_a_sampler_that_raises_stops_the_run_and_the_next_one_works():
    broken = True

    def function(requests):
        if broken:
            raise ConnectionError("server gone")
        return ["four"] * len(requests)

    played = engine(Echo, function)
    with pytest.raises(ConnectionError):
        played.collect([1], 2, 0)
    broken = False
    assert all(r.valid for r in played.collect([1], 2, 0))


# -- any sampler -----------------------------------------------------------------------------------


def test_a_function_may_answer_in_words_tokens_or_replies():
    def function(requests):
        answers = ["four", [5, 6, FORMAT.end, 7], None]
        third = requests[2]
        log_probs = np.full(2, -1.5, np.float32)
        answers[2] = Reply(third.conversation, np.array([9, FORMAT.end]), log_probs)
        return answers

    rollouts = engine(lambda: Echo(1), function).collect([1, 2, 3], 1, 0)
    sampled = [s.tokens[s.turns >= 0].tolist() for r in rollouts for s in r.segments]
    assert sampled == [FORMAT.reply("four"), [5, 6, FORMAT.end], [9, FORMAT.end]]
    known = [s.log_probs[s.turns >= 0] for r in rollouts for s in r.segments]
    assert np.isnan(known[0]).all() and np.isnan(known[1]).all()
    assert known[2].tolist() == [-1.5, -1.5]


def test_a_function_sees_words_and_never_more_than_the_slots():
    seen = []

    def function(requests):
        seen.append(len(requests))
        for request in requests:
            text = FORMAT.tokenizer.decode(request.context)
            assert request.messages[-1]["role"] == "user"
            assert all(message["content"] in text for message in request.messages)
        return ["yes"] * len(requests)

    engine(lambda: Echo(3, mixed=True), function, slots=5).collect(range(4), 3, 0)
    assert max(seen) == 5 and sum(seen) > 12


def test_samplers_are_told_apart():
    assert isinstance(TransformersSampler(MODEL), Sampler)
    assert isinstance(engine(Echo, MODEL).sampler, TransformersSampler)
    with pytest.raises(InvalidConfiguration, match="sampler is a str"):
        engine(Echo, "gpt2")
    with pytest.raises(InvalidConfiguration, match="2 answers to 1 requests"):
        engine(Echo, lambda requests: ["a", "b"]).collect([1], 1, 0)
    with pytest.raises(InvalidConfiguration, match="no tokens"):
        engine(Echo, lambda requests: [[]]).collect([1], 1, 0)
    with pytest.raises(InvalidConfiguration, match="slots=0"):
        engine(slots=0)
    with pytest.raises(InvalidConfiguration, match="group_size=0"):
        engine().collect([1], 0, 0)


def test_seconds_are_told_apart():
    played = engine()
    played.collect([1], 2, 0)
    assert played.seconds["generation"] > 0 and played.seconds["environment"] > 0
