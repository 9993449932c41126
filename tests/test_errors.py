"""What exceptions say."""

import pickle

from convgym.errors import InvalidConfiguration, MissingExtra


def test_a_long_value_does_not_make_a_long_sentence():
    """A repaired bug: a value of 100,000 characters was printed whole."""
    error = InvalidConfiguration(f"split={'x' * 100_000!r}; it is one of train, test")
    for said in (str(error), str(pickle.loads(pickle.dumps(error)))):
        assert len(said) < 3001 and said.startswith("split='x")
        assert said.endswith("; it is one of train, test")
    assert str(InvalidConfiguration("short")) == "short"
    assert "convgym[llm]" in str(pickle.loads(pickle.dumps(MissingExtra("torch", "llm"))))
