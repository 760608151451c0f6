"""What is searched: defaults for each learner, and the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from asymrl.runs.files import RunError
from asymrl.runs.search_space import DEFAULTS, SearchAxis, checked_space, default_space, read_space
from asymrl.settings import SETTINGS_TYPES, names_of, new_settings
from asymrl.settings.methods import LEARNERS

METHODS = {"a2c": "a2c-asym-hs", "ppo": "ppo", "dqn": "adqn"}


def test_every_learner_has_a_space_of_possible_settings():
    assert set(DEFAULTS) == set(LEARNERS)
    for learner, method in METHODS.items():
        space, needed = default_space(method)
        assert set(space) | set(needed) <= set(names_of(SETTINGS_TYPES[learner]))
        for name, axis in space.items():
            for end in axis.ends:
                new_settings(method=method, **{**needed, name: end})


def test_what_is_given_is_not_searched():
    assert "discount" not in default_space("ppo", {"discount": 0.9})[0]
    space, needed = default_space("a2c", {"estimator": "mc"})
    assert "td_lambda" not in space
    assert not needed


def test_a_file_of_the_users_own(tmp_path: Path):
    file = tmp_path / "space.toml"
    file.write_text(
        "[learning_rate]\nlow = 1e-4\nhigh = 1e-2\nlog = true\n[rollout]\nchoices = [16, 32]\n"
        "[hidden]\nchoices = [[16], [16, 16]]\n"
    )
    assert read_space(file, "ppo") == {
        "learning_rate": SearchAxis(1e-4, 1e-2, log=True),
        "rollout": SearchAxis(choices=(16, 32)),
        "hidden": SearchAxis(choices=((16,), (16, 16))),
    }
    assert checked_space({"rollout": [8, 16]}, "ppo") == {"rollout": SearchAxis(choices=(8, 16))}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no setting to search"),
        ("rolout = [1]", "unknown setting 'rolout'; did you mean 'rollout'"),
        ("rollout = 3", "rollout: write low and high, or choices"),
        ("rollout = []", "choices must be a list with at least one value"),
        ("[rollout]\nlow = 5\nhigh = 5", "low is 5 and high is 5; low must be less"),
        ("[rollout]\nlow = 'x'\nhigh = 5", "'x' is not a number"),
        ("[learning_rate]\nlow = 0\nhigh = 1\nlog = true", "with it low must be positive"),
        ("[learning_rate]\nlow = 0.1\nhigh = 1\nstep = 2", "unknown 'step'"),
        ("[rollout]\nlow = 0.5\nhigh = 2", "rollout is 0.5, expected a whole number"),
        ("memory = [3]", "memory is 3, expected text"),
        ("[actor_rate]\nlow = 0.1\nhigh = 1", "actor_rate is a setting of a2c; ppo is trained by ppo"),
        ("steps = [1, 2]", "steps is not searched"),
        ("x = ", "not TOML"),
    ],
)
def test_mistakes_are_named(text: str, said: str, tmp_path: Path):
    file = tmp_path / "space.toml"
    file.write_text(text)
    with pytest.raises(RunError) as error:
        read_space(file, "ppo")
    assert said in str(error.value)
    assert str(error.value).startswith(str(file))


def test_a_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(RunError, match="cannot be read"):
        read_space(tmp_path / "x.toml", "ppo")
