"""Folders of runs and of searches: begun whole or not at all, held by one, found again."""

import os

import pytest

from convgym.cli.named_folder import NamedFolder
from convgym.cli.run_folder import RunFolder
from convgym.errors import InvalidConfiguration


class Diary(NamedFolder):
    """A kind of its own."""

    kind, doing, first = "diary", "writing", "first.txt"
    root_option, more_option = "--shelf", "--pages"


def begun(kind, root, name):
    return kind.begin(root, name, lambda new: (new.path / kind.first).write_text("here"))


every_kind = pytest.mark.parametrize("kind", [Diary, RunFolder])


@every_kind
def test_it_begins_whole_or_not_at_all(kind, tmp_path):
    def breaks(new):
        (new.path / kind.first).write_text("half")
        assert not (tmp_path / "it").exists()
        raise OSError(28, "No space left on device")

    with pytest.raises(InvalidConfiguration, match=f"the {kind.kind} cannot be kept in .*No space"):
        kind.begin(tmp_path, "it", breaks)
    assert not list(tmp_path.iterdir())
    assert (begun(kind, tmp_path, "it").path / kind.first).read_text() == "here"
    assert [path.name for path in tmp_path.iterdir()] == ["it"]
    for name, says in (("it", f"there is a {kind.kind} in"), ("../it", f"a {kind.kind}'s name is")):
        with pytest.raises(InvalidConfiguration, match=says):
            begun(kind, tmp_path, name)


@every_kind
def test_one_process_at_a_time_has_it(kind, tmp_path):
    folder = begun(kind, tmp_path, "it")
    (folder.path / "left.part").touch()
    with folder.held():
        assert not (folder.path / "left.part").exists()
        with (
            pytest.raises(InvalidConfiguration, match=f"another process is {kind.doing} in"),
            kind(folder.path).held(),
        ):
            pass
    with kind(folder.path).held():  # free again
        pass


@every_kind
def test_the_newest_that_is_not_finished_goes_on(kind, tmp_path):
    with pytest.raises(InvalidConfiguration, match=f"no {kind.kind} in .* is unfinished"):
        kind.begun(tmp_path, None)
    for age, name in enumerate(("new", "old", "done")):
        folder = begun(kind, tmp_path, name)
        os.utime(folder.path / kind.first, (1e9 - age, 1e9 - age))
    folder.write_report({})
    (tmp_path / ".hidden.7.part").mkdir()
    (tmp_path / ".hidden.7.part" / kind.first).touch()
    assert kind.begun(tmp_path, None).name == "new"
    assert kind.begun(tmp_path, "done").finished
    for name in ("other", ".hidden.7.part", "../it"):
        with pytest.raises(InvalidConfiguration, match="there are: done, new, old"):
            kind.begun(tmp_path, name)
