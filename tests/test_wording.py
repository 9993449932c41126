"""A user's words: styles, phrase banks, whole turns by retrieval, and what never gets lost."""

import re
from collections import Counter
from itertools import combinations, pairwise

import pytest
from driven import NEEDED, desk_of, every_id, make
from hypothesis import given, settings
from hypothesis import strategies as st
from single_task import DESK, USER_ACTS, U

from convgym.engine.acts import UserTurn
from convgym.engine.episode import Episode
from convgym.engine.keys import WORDING, draw
from convgym.envs.user_side import known_acts
from convgym.errors import InvalidConfiguration
from convgym.language.phrases import REGISTERS, PhraseBank, packaged, read_banks, read_tables
from convgym.language.retrieval import (
    Turn,
    TurnIndex,
)
from convgym.language.style import BUILT_IN, Style, misspelt, style_of
from convgym.language.voice import RETRIEVAL, TEMPLATE, WRITER, Spoken, Voice
from convgym.users.persona import TRAITS

PACKAGE = "convgym.domains.customer_service"
VOICES = DESK.user_voices()
SAID = tuple(dict.fromkeys(DESK.v.heard_as))
PHRASES = read_tables(packaged(PACKAGE, "user_phrases.toml"))
TURNS = read_tables(packaged(PACKAGE, "user_turns.toml"))
PARTS = ("train", "held_out")
FIELDS = ("formality", "verbosity", "typo_rate", "diversity")

quick = settings(max_examples=80, deadline=None, derandomize=True)
thorough = settings(max_examples=2500, deadline=None, derandomize=True)
KEY = st.integers(0, 2**64 - 1)
DRAWN = st.integers(0, 2**32 - 1)
LEVEL = st.integers(0, 100)
STYLE = st.builds(Style, LEVEL, LEVEL, LEVEL, LEVEL)
every_part = pytest.mark.parametrize("part", PARTS)


def slots_of(text):
    return sorted(re.findall(r"\{(\w*)\}", text))


def slots_of_acts(*names):
    """The placeholders that the values of these acts need."""
    return sorted(DESK.value_slots[name] for name in names if name in DESK.value_slots)


def said_of(number, about, picks):
    """Some acts that the customer of a train task can do while it is at one of its requests."""
    task = DESK.task("train", number)
    episode = Episode(task, 1, 2, DESK.layout.row())
    DESK.open(episode, (50,) * len(TRAITS))
    for _ in range(about % len(task.requests)):
        episode.user.next_request()
    legal = [act for act in known_acts(episode.user, U).nonzero()[0].tolist()
             if not re.fullmatch("correct_.*|ask_(fee|channel|postage|remedy|ends)",
                                 USER_ACTS[act])]  # fmt: skip
    acts = {}
    for pick in picks:
        act = legal[pick % len(legal)]
        acts.setdefault(USER_ACTS[act].removesuffix("_wrong"), act)
    turn = UserTurn(tuple(acts.values()), 0.0, False, about=episode.user.at)
    return DESK.spoken(episode, turn)


# -- styles ----------------------------------------------------------------------------------------


def test_a_style_of_anything_sensible():
    style = Style(10, 20, 30, 40)
    assert style_of(style) is style
    assert style_of({}) == Style() == Style(50, 50, 0, 100)
    given = {"formality": 0.1, "verbosity": 0.2, "typo_rate": 0.3, "diversity": 0.4}
    assert style_of(given) == style
    assert style_of({"verbosity": 1}) == Style(verbosity=100)
    for name, built_in in BUILT_IN.items():
        assert style_of(name) is built_in
    assert len(set(BUILT_IN.values())) == len(BUILT_IN)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("baroque", "baroque"),
        (None, "None"),
        (0.5, "0.5"),
        ([("formality", 1)], "formality"),
        ({"politeness": 0.5}, "politeness"),
        ({"formality": 1.5}, "formality"),
        ({"formality": -0.1}, "formality"),
        ({"formality": float("nan")}, "formality"),
        ({"formality": "high"}, "formality"),
        ({"formality": True}, "formality"),
        ({"formality": None}, "formality"),
        ({7: 0.5}, "7"),
    ],
    ids=str,
)
def test_what_is_no_style_is_refused_by_name(given, named):
    with pytest.raises(InvalidConfiguration, match=named):
        style_of(given)


@pytest.mark.parametrize("level", [-1, 101, 0.5, "high", None, True], ids=repr)
@pytest.mark.parametrize("field", FIELDS)
def test_a_style_by_hand_takes_hundredths(field, level):
    with pytest.raises(InvalidConfiguration, match=field):
        Style(**{field: level})


@quick
@given(LEVEL, LEVEL, DRAWN)
def test_more_formality_is_never_a_lower_register(one, other, drawn):
    low, high = Style(min(one, other)), Style(max(one, other))
    assert 0 <= low.register(drawn) <= high.register(drawn) <= 2


@pytest.mark.parametrize("formality", range(0, 101, 10))
def test_registers_come_as_often_as_formality_says(formality):
    style, n = Style(formality), 4000
    found = [style.register(draw(key, WORDING, 0, 0)) for key in range(n)]
    assert abs(sum(found) / n - formality / 50) < 0.04
    assert len(set(found)) == 1 if formality in (0, 50, 100) else len(set(found)) == 2


# -- the hand-written words ------------------------------------------------------------------------


@every_part
def test_every_act_has_words_in_every_register(part):
    assert set(PHRASES[part]) == set(SAID)
    for name, by_register in PHRASES[part].items():
        assert set(by_register) == set(REGISTERS)
        assert all(by_register.values())
        wordings = [wording for register in REGISTERS for wording in by_register[register]]
        assert len(set(wordings)) == len(wordings)
        assert set(VOICES[part].bank.variants(name)) == set(wordings)
        assert len(wordings) >= (20 if part == "train" else 10)
        for wording in wordings:
            assert slots_of(wording) == slots_of_acts(name), wording
            assert wording == wording.strip() and "  " not in wording


@every_part
def test_every_whole_turn_does_what_it_is_filed_under(part):
    for signature, by_register in TURNS[part].items():
        names = signature.split("+")
        assert len(names) > 1 and len(set(names)) == len(names)
        assert set(names) <= set(SAID)
        assert set(by_register) == set(REGISTERS)
        texts = [text for register in REGISTERS for text in by_register[register]]
        assert len(set(texts)) == len(texts)
        assert len(texts) >= (20 if part == "train" else 5)
        for text in texts:
            assert slots_of(text) == slots_of_acts(*names), text
    index = VOICES[part].index
    assert {frozenset(signature.split("+")) for signature in TURNS[part]} == set(index.signatures())
    assert len(index) == sum(len(texts) for t in TURNS[part].values() for texts in t.values())


def test_held_out_words_are_others():
    def plain(tables):
        return {
            re.sub(r"\W+", " ", text.lower()).strip()
            for by_register in tables.values()
            for texts in by_register.values()
            for text in texts
        }

    train, held_out = (plain(PHRASES[part]) | plain(TURNS[part]) for part in PARTS)
    assert not train & held_out
    assert set(TURNS["train"]) == set(TURNS["held_out"])


# -- banks -----------------------------------------------------------------------------------------


def mean_words(bank, name, style, n=150):
    found = [
        bank.styled(name, style, draw(key, WORDING, 0, 0), draw(key, WORDING, 0, 1), 0)
        for key in range(n)
    ]
    return sum(len(text.split()) for text in found) / n


@pytest.mark.parametrize("formality", [0, 50, 100])
def test_more_verbosity_is_more_words(formality):
    bank = VOICES["train"].bank
    steps = range(0, 101, 20)
    for name in bank:
        lengths = [mean_words(bank, name, Style(formality, verbosity)) for verbosity in steps]
        assert all(low <= high + 1e-9 for low, high in pairwise(lengths)), name
        assert lengths[-1] > lengths[0]


def test_formality_chooses_the_register():
    bank, tables = VOICES["train"].bank, PHRASES["train"]
    for name in bank:
        for register, formality in zip(REGISTERS, (0, 50, 100), strict=True):
            for key in range(20):
                drawn, start = draw(key, WORDING, 0, 0), draw(key, WORDING, 0, 1)
                text = bank.styled(name, Style(formality, key * 5), drawn, start, key)
                assert text in tables[name][register]


@quick
@given(st.sampled_from(SAID), LEVEL, LEVEL, DRAWN, st.integers(0, 30), DRAWN, st.integers(0, 30))
def test_without_diversity_an_act_is_always_worded_alike(
    name, formality, verbosity, start, turn, other_start, other_turn
):
    bank, style = VOICES["train"].bank, Style(formality, verbosity, 0, 0)
    for drawn in (0, 2**31, 2**32 - 1):
        one = bank.styled(name, style, drawn, start, turn)
        assert one == bank.styled(name, style, drawn, other_start, other_turn)


@quick
@given(st.integers(1, 60), LEVEL, LEVEL, DRAWN, st.integers(0, 100))
def test_no_wording_comes_twice_before_all_came(count, verbosity, diversity, start, turn):
    """Whatever the number of wordings: one window's length of turns has no repetition."""
    bank = PhraseBank({"a": [f"{n:02}" for n in range(count)]})
    style = Style(50, verbosity, 0, diversity)
    several = [bank.styled("a", style, 0, start, turn + n) for n in range(3 * count)]
    window = len(set(several))
    assert 1 <= window <= -(-count * 3 // 5)
    assert window == 1 or diversity > 0
    for begin in range(len(several) - window):
        assert len(set(several[begin : begin + window])) == window
    assert sorted(set(several)) == [f"{int(min(several)) + n:02}" for n in range(window)]


def test_more_diversity_is_more_wordings():
    bank = VOICES["train"].bank
    for name in bank:
        counts = [
            len({bank.styled(name, Style(50, 50, 0, d), 0, 0, turn) for turn in range(60)})
            for d in (0, 25, 50, 75, 100)
        ]
        assert counts == sorted(counts)
        assert counts[0] == 1 and counts[-1] >= 4


def test_a_plain_list_serves_all_registers_and_a_missing_register_takes_all():
    bank = PhraseBank({"a": ["one", "two"], "b": {"casual": ["yo"], "formal": []}})
    for formality in (0, 50, 100):
        texts = {bank.styled("a", Style(formality), 0, 0, turn) for turn in range(9)}
        assert texts == {"one", "two"}
        assert bank.styled("b", Style(formality), 0, 0, 0) == "yo"
    assert bank.variants("a") == ("one", "two")
    assert list(bank) == ["a", "b"] and "a" in bank and "c" not in bank
    assert {bank.pick("a", drawn) for drawn in (0, 2**32 - 1)} == {"one", "two"}
    more = bank.extended({"a": ["three"], "c": ["four"]})
    assert (more.variants("a"), more.variants("b"), more.variants("c")) == (
        ("three",),
        ("yo",),
        ("four",),
    )
    assert bank.variants("a") == ("one", "two"), "the first bank stays as it is"


@pytest.mark.parametrize(
    "wordings",
    [[], {}, {"casual": []}, "hi", {"casual": "hi"}, {"casul": ["hi"], "formal": ["hi"]}, [1], 3],
    ids=str,
)
def test_a_bad_bank_is_refused_by_act(wordings):
    with pytest.raises(InvalidConfiguration, match="greet"):
        PhraseBank({"greet": wordings})


@pytest.mark.parametrize("text", ["[train", "train = 3", '[train]\ngreet = "hi"', None], ids=repr)
def test_a_bad_phrase_file_is_refused(tmp_path, text):
    path = tmp_path / "phrases.toml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidConfiguration, match=r"greet|phrases\.toml"):
        read_banks(path)


def test_a_phrase_file_is_read(tmp_path):
    path = tmp_path / "phrases.toml"
    path.write_text('[train]\ngreet = ["hi"]\n[train.bye]\nformal = ["Farewell, {order}."]\n')
    bank = read_banks(path)["train"]
    assert bank.variants("greet") == ("hi",)
    assert bank.variants("bye") == ("Farewell, {order}.",)


# -- misspellings ----------------------------------------------------------------------------------

TOKEN = st.sampled_from(
    ["{order}", "{email}.", "please", "don't", "W48213", "a@example.com", "order,", "thanks!", "it",
     "2nd", "…", "", "café", "10:30", "half-price", "because", "o'clock"]
)  # fmt: skip


@settings(quick, max_examples=300)
@given(st.lists(TOKEN, max_size=40), LEVEL, KEY, st.integers(0, 30), st.integers(0, 5))
def test_only_words_are_misspelt(tokens, rate, key, turn, place):
    text = " ".join(tokens)
    found = misspelt(text, rate, key, WORDING, turn, place)
    assert found == misspelt(text, rate, key, WORDING, turn, place)
    words = found.split(" ")
    assert len(words) == len(tokens) or not tokens
    for before, after in zip(tokens, words, strict=False):
        if len(before) < 4 or re.search(r"[{}\d@…-]", before):
            assert after == before
        elif after != before:
            core, kept = before.rstrip(".,!?;:"), after.rstrip(".,!?;:")
            assert before[len(core) :] == after[len(kept) :], "punctuation stays"
            assert kept[0] == core[0]
            assert abs(len(kept) - len(core)) <= 1


def test_typo_rates_are_kept():
    text, n = "could somebody please check where that order went today", 3000
    words = text.split()
    shares = []
    for rate in (0, 50, 100):
        wrong = 0
        for key in range(n):
            found = misspelt(text, rate, draw(key, WORDING, 9, 9), WORDING, 0, 0).split()
            wrong += sum(a != b for a, b in zip(words, found, strict=True))
        shares.append(wrong / (n * len(words)))
    assert shares[0] == 0
    # One word in eight at most; a slip that swaps equal letters or the like may show nothing.
    assert shares[1] == pytest.approx(1 / 16, rel=0.15)
    assert shares[2] == pytest.approx(1 / 8, rel=0.15)


def test_more_typos_are_the_same_typos_and_others():
    text = "could somebody please check where that order went today"
    for key in range(200):
        few, many = (misspelt(text, r, key, WORDING, 1, 0).split() for r in (40, 100))
        for before, one, other in zip(text.split(), few, many, strict=True):
            assert one in (before, other)


# -- voices ----------------------------------------------------------------------------------------

ABOUT = st.integers(0, 2)
PICKS = st.lists(st.integers(0, 999), min_size=1, max_size=6)


@thorough
@given(
    st.integers(0, 99_999),
    ABOUT,
    PICKS,
    STYLE,
    KEY,
    st.integers(0, 60),
    st.sampled_from((TEMPLATE, RETRIEVAL, WRITER)),
    st.sampled_from(PARTS),
)
def test_every_value_of_a_turn_stands_in_its_words(
    number, about, picks, style, key, turn, source, part
):
    said = said_of(number, about, picks)
    voice = VOICES[part]
    text = voice.say(said, style, key, turn, source)
    for _, slot, value in said:
        assert not slot or (value and value in text)
    assert text.strip() == text and text
    assert not re.search(r"[{}]", text)
    assert text == voice.say(said, style, key, turn, source)


@quick
@given(st.integers(0, 9999), ABOUT, PICKS, KEY, st.integers(0, 9))
def test_a_careless_writer_spells_values_right(number, about, picks, key, turn):
    said = said_of(number, about, picks)
    for source in (TEMPLATE, RETRIEVAL):
        text = VOICES["train"].say(said, Style(0, 100, 100), key, turn, source)
        neat = VOICES["train"].say(said, Style(0, 100, 0), key, turn, source)
        assert len(text.split()) == len(neat.split())
        assert all(value in text for _, _, value in said)


def test_realism_is_the_share_of_each_source():
    n = 3000
    for realism in (0, 20, 50, 60, 75, 100):
        voice = Voice(VOICES["train"].bank, VOICES["train"].index, realism)
        seen = Counter(voice.source(draw(key, WORDING, 7, 7), key % 20) for key in range(n))
        expected = {
            TEMPLATE: max(0, 50 - realism) / 50,
            WRITER: max(0, realism - 50) / 50,
            RETRIEVAL: 1 - abs(realism - 50) / 50,
        }
        for source, share in expected.items():
            assert abs(seen[source] / n - share) < 0.04
            assert share not in (0, 1) or seen[source] == share * n


def test_templates_say_one_sentence_for_each_act():
    bank = VOICES["train"].bank
    said = [Spoken("greet"), Spoken("request_cancel"), Spoken("inform_order", "order", "W11111")]
    for key in range(50):
        text = VOICES["train"].say(said, Style(50, 50), key, 0, TEMPLATE)
        for name, _, value in said:
            words = [w.replace("{order}", value) for w in bank.variants(name)]
            assert any(w in text for w in words)


def test_retrieval_says_whole_turns_and_leaves_the_rest_to_templates():
    index = TurnIndex([(("greet", "request_cancel"), Turn("hi, cancel it", -1))])
    voice = Voice(PhraseBank({"thank": ["Thanks."], "greet": ["Hello."]}), index, 50)
    style = Style(50, 50)

    def say(*names):
        return voice.say([Spoken(name) for name in names], style, 3, 0, RETRIEVAL)

    assert say("greet", "request_cancel") == "hi, cancel it"
    assert say("request_cancel", "greet") == "hi, cancel it"
    assert say("greet", "request_cancel", "thank") == "hi, cancel it. Thanks."
    assert say("thank", "greet", "request_cancel") == "Thanks. hi, cancel it"
    assert say("greet", "thank") == "Hello. Thanks."


@quick
@given(st.integers(0, 9999), PICKS, KEY, st.integers(0, 9))
def test_retrieval_uses_a_whole_turn_wherever_there_is_one(number, picks, key, turn):
    voice, said = VOICES["train"], said_of(number, 0, picks)
    if voice.index.part(frozenset(name for name, _, _ in said)):
        one, other = (voice.say(said, Style(), key, turn, s) for s in (TEMPLATE, RETRIEVAL))
        assert one != other


# -- in an environment -----------------------------------------------------------------------------


def openings(environment_id, n=60, **keywords):
    env = make(environment_id, **{"task_id": "test-3", **keywords})
    options = {"user_seed": 1}
    return [env.reset(options=options | {"wording_seed": seed})[0] for seed in range(n)]


@every_id
def test_response_diversity_is_how_many_wordings_there_are(environment_id):
    persona = {"formality": 0.5, "typo_rate": 0.0}
    counts = [
        len(set(openings(environment_id, persona=persona, response_diversity=diversity)))
        for diversity in (0.0, 0.5, 1.0)
    ]
    assert counts == sorted(counts)
    assert counts[0] == 1 < counts[1] < counts[2]
    styled = {"formality": 0.5, "diversity": 0.0}
    assert len(set(openings(environment_id, persona=persona, style=styled))) == 1


@every_id
@pytest.mark.parametrize("value", [-0.1, 1.1, "all", None, True], ids=repr)
def test_bad_diversity_is_refused(environment_id, value):
    with pytest.raises(InvalidConfiguration, match="response_diversity"):
        make(environment_id, response_diversity=value)


def is_rich(environment_id):
    """Whether the package brings the words; the folder of a domain of one's own has a few."""
    return environment_id not in NEEDED


@every_id
def test_styles_change_words_and_nothing_else(environment_id):
    said = {}
    for style in (None, *BUILT_IN, {"formality": 1.0, "verbosity": 1.0}):
        env = make(environment_id, style=style, observation="dict", action="act")
        observation, info = env.reset(seed=4)
        said[str(style)] = observation["message"], info["user_acts"], info["user_log_prob"]
    texts, *rest = zip(*said.values(), strict=True)
    assert len(set(texts)) > (4 if is_rich(environment_id) else 2)
    assert all(len(set(column)) == 1 for column in rest)


def question_of(environment_id):
    """The first thing that the agents of a desk ask for."""
    bank = desk_of(environment_id).agent_banks()["train"]
    asks = [key for key in bank if key.startswith("ask_") and key not in ("ask_intent", "ask_more")]
    return bank.variants(asks[0])[0]


@every_id
def test_wordings_of_neighbouring_turns_differ(environment_id):
    """Asked the same thing in turn, a user finds other words each time."""
    env = make(environment_id, persona={"typo_rate": 0.0, "formality": 0.5, "patience": 1.0})
    question, looked = question_of(environment_id), 0
    for seed in range(15):
        env.reset(seed=seed)
        texts = {}
        for _ in range(5):
            observation, _, terminated, truncated, info = env.step(question)
            texts.setdefault(info["user_acts"], []).append(observation)
            if terminated or truncated:
                break
        for found in texts.values():
            if is_rich(environment_id):
                assert all(one != other for one, other in pairwise(found))
                assert len(set(found)) >= min(len(found), 4)
            assert len(set(found)) > 1 or len(found) < 3
            looked += len(found) > 1
    assert looked > 5


@every_id
def test_the_lexical_split_has_the_wordings_that_were_held_out(environment_id):
    if "test_lexical" not in desk_of(environment_id).splits:
        pytest.skip("this desk holds no wordings out")
    for split in desk_of(environment_id).splits:
        neat = {"task_id": f"{split}-3", "style": {"typo_rate": 0.0}}
        own = openings(environment_id, **neat)
        train = openings(environment_id, phrases="train", **neat)
        held_out = openings(environment_id, phrases="held_out", **neat)
        assert not set(train) & set(held_out)
        assert own == (held_out if split == "test_lexical" else train)


def test_the_pairs_of_registers_share_no_wording():
    for name, by_register in PHRASES["train"].items():
        for one, other in combinations(REGISTERS, 2):
            assert not set(by_register[one]) & set(by_register[other]), name
