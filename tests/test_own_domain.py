"""A domain of one's own: its records, what is said of a faulty folder, and that it plays."""

import shutil
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from typer.testing import CliRunner

import convgym  # noqa: F401 (registers the ids)
from convgym.cli.main import app
from convgym.desk.folder import FolderDesk
from convgym.domains.catalogue import domain_called
from convgym.errors import InvalidConfiguration
from convgym.evaluation.survey import survey
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.roster import ladder

LIBRARY = str(Path(__file__).parent / "data" / "library_domain")
DESK = domain_called(LIBRARY)
RECORDS = DESK.records


# -- records ---------------------------------------------------------------------------------------


def test_every_number_is_one_records_and_a_wrong_one_is_nobodys():
    for kind, rows in (("loan", RECORDS.accounts * 3), ("", RECORDS.accounts)):
        field = kind or "card"
        numbers = [RECORDS.text(kind, row, field) for row in range(rows)]
        assert len(set(numbers)) == rows
        assert not {RECORDS.wrong(kind, row, field) for row in range(rows)} & set(numbers)
        assert [RECORDS.find(kind, number) for number in numbers[:50]] == list(range(50))
    assert all(
        RECORDS.wrong("", row, "pin") != RECORDS.text("", row, "pin")
        for row in range(RECORDS.accounts)
    )


def test_a_date_tells_two_records_of_an_account_apart_and_twins_exist():
    dates = RECORDS.columns["loan"]["borrowed"].reshape(-1, 3)
    assert all(len(set(row)) == 3 for row in dates.tolist())
    assert dates.min() >= -90
    assert dates.max() <= -1
    titles = RECORDS.columns["loan"]["title"].reshape(-1, 3)
    twins = np.mean([len(set(row)) < 3 for row in titles.tolist()])
    assert 0.3 < twins < 0.8  # 15 % by declaration, and by chance among six titles


def test_records_are_the_same_whoever_asks():
    again = FolderDesk(LIBRARY).records
    for row in range(0, 300, 7):
        for field in ("loan", "title", "borrowed", "due", "renewals", "reserved"):
            assert again.text("loan", row, field) == RECORDS.text("loan", row, field)


# -- the domain ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "split",
    [s if s == "test" else pytest.param(s, marks=pytest.mark.slow) for s in DESK.splits],
)
def test_the_ladder_stands_in_every_split(split):
    found = survey(LIBRARY, split, tasks=40)
    assert found.ladder[-1].success == 1.0
    assert found.ordered
    assert all(score.successes == 0 for score in found.floors)
    assert found.distinct > 400


def test_it_plays_in_words():
    """The oracle's acts, said in the folder's words and read by its cues, do what they mean."""
    env = gym.make("ConvGym/OwnDomain-v0", folder=LIBRARY, observation="dict", max_turns=60)
    policy = RenderedPolicy(ladder(LIBRARY)["oracle"](), domain=LIBRARY)
    won = 0
    for number in range(40):
        observation, info = env.reset(seed=1, options={"task_id": f"test-{number}"})
        policy.reset(number)
        ended = False
        while not ended:
            reply, _ = policy.predict(observation)
            observation, _, terminated, truncated, info = env.step(reply)
            ended = terminated or truncated
        won += info["success"]
    assert won >= 38


def test_all_of_its_words_are_read():
    own = [name for name, *_ in DESK.unread()]
    assert own == []


def test_its_spec_travels_as_json():
    env = gym.make("ConvGym/OwnDomain-v0", folder=LIBRARY, action="act", observation="features")
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert (again.reset(seed=5)[0] == env.reset(seed=5)[0]).all()


def test_no_folder_is_a_mistake_with_a_cure():
    with pytest.raises(InvalidConfiguration, match="give the path of a domain's folder"):
        gym.make("ConvGym/OwnDomain-v0")


# -- faulty folders --------------------------------------------------------------------------------


def faulty(tmp_path, file, old, new):
    folder = tmp_path / "domain"
    shutil.copytree(LIBRARY, folder)
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))
    return str(folder)


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("rules.toml", 'when = ["reserved == 3"]', 'when = ["reserved"]', "'reserved' is no cond"),
        ("rules.toml", "renewals >= most_renewals", "renewals >= most", "'most' is no parameter"),
        ("rules.toml", 'charged"\non = "charge"', 'charged"\non = "price"', "'price'"),
        ("rules.toml", "values = [4, 8]", "values = []", "most_fines.*needs values"),
        ("rules.toml", "{most_fines}", "{most}", r"its text has \{most\}, which is no parameter"),
        ("rules.toml", "{most_fines}", "{most_fines", "a brace that is not closed"),
        ("schema.toml", 'date = "borrowed"', 'date = "renewals"', "has to name a field of days"),
        ("phrases.toml", "an_e_book = [", "a_book = [", r"\[cues.offer\]: a_book is not declared"),
        ("workflows.toml", 'tool = "renew_loan"', "", "either facts to tell or a tool"),
        ("workflows.toml", 'kind = "loan"\nfacts', 'kind = "book"\nfacts', "kind 'book'"),
        ("workflows.toml", 'terms = ["charge"]', 'terms = ["price"]', "'price' of terms"),
        ("schema.toml", 'pin = "####"', "", "pin missing"),
        ("schema.toml", "range = [0, 12]", "range = [12, 0]", "the lower one first"),
        ("schema.toml", 'label = "title"', "", "label missing"),
        ("schema.toml", "rows = 500", "rows = 5", "20 to 20000 accounts"),
        ("phrases.toml", "request_loss =", "request_losses =", "no act of this domain"),
        ("phrases.toml", "[cues.offer]", "[cues.offers]", "no section"),
        ("phrases.toml", "[user]", "[user", "cannot be read as TOML"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, file, old, new, said):
    with pytest.raises(InvalidConfiguration, match=said):
        FolderDesk(faulty(tmp_path, file, old, new))


def test_all_faults_are_said_at_once(tmp_path):
    old, new = "most_fines]\nvalues = [4, 8]", "fines]\nvalues = []"
    folder = Path(faulty(tmp_path, "rules.toml", old, new))
    text = (folder / "workflows.toml").read_text()
    (folder / "workflows.toml").write_text(text.replace('tool = "renew_loan"', ""))
    with pytest.raises(InvalidConfiguration) as caught:
        FolderDesk(folder)
    assert "fault(s)" in str(caught.value)
    for said in ("either facts to tell or a tool", "'most_fines' is no parameter", "needs values"):
        assert said in str(caught.value)


def test_check_says_what_there_is_to_say():
    result = CliRunner().invoke(app, ["domain", "check", LIBRARY, "--tasks", "20"])
    assert result.exit_code == 0, result.output
    assert "library: " in result.output
    assert "| test_policy |" in result.output
    missing = CliRunner().invoke(app, ["domain", "check", "no/such/folder"])
    assert missing.exit_code == 2
