"""How replies are drawn: what is allowed, and that it goes to JSON and back."""

import json

import pytest

from convgym.errors import InvalidConfiguration
from trainers.llm.sampling import Sampling


def test_it_goes_to_json_and_back():
    sampling = Sampling(temperature=0.7, top_k=5, max_tokens=12)
    assert Sampling(**json.loads(json.dumps(sampling.to_dict()))) == sampling


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"top_k": -1},
        {"max_tokens": 0},
        {"max_context": 1},
    ],
    ids=str,
)
def test_what_is_out_of_range_is_refused(change):
    with pytest.raises(InvalidConfiguration, match=f"{next(iter(change))}="):
        Sampling(**change)
