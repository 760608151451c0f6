"""Reference returns."""

from __future__ import annotations

import numpy as np
import pytest

from asymrl.worlds import WORLDS, FiniteWorld, make, scores


@pytest.mark.parametrize("name", WORLDS)
def test_scores_are_consistent(name):
    known = scores(name)
    assert known is not None
    for by_policy in (known.undiscounted, known.discounted):
        assert {"random", "best"} <= set(by_policy)
        for score in by_policy.values():
            assert np.isfinite([score.low, score.high]).all()
            assert score.low <= score.high
            assert score.kind in ("exact", "bounds", "found", "Monte-Carlo")
            if score.kind == "exact":
                assert score.low == score.high
        best = by_policy["best"]
        assert by_policy["random"].high <= best.low
        for who, score in by_policy.items():
            if who == "full_information":
                assert score.low >= best.high, "seeing everything is never worse"
            else:
                assert score.low <= best.high, f"{who} is better than the best"


def test_other_worlds_have_none():
    assert scores("heaven-hell-7") is None


def random_return(env: FiniteWorld, discount: float) -> float:
    """The exact expected return of uniformly random actions in 100 steps."""
    reward, shape = env.R.mean(1, dtype=float), env.D.shape
    row, following, probability = env.transitions.entries()
    probability = np.where(env.D.ravel()[row], 0.0, probability) / shape[1]
    value = np.zeros(env.latent_space.n)
    for _ in range(100):
        ahead = np.bincount(row // shape[1], probability * value[following], minlength=shape[0])
        value = reward + discount * ahead
    return float(env.start @ value)


SEEING_ROCKS = "rock-sample-3-3:position=true,half_efficiency=0.001"  # of a study


@pytest.mark.parametrize("name", [*(name for name in WORLDS if isinstance(make(name), FiniteWorld)), SEEING_ROCKS])
def test_exact_scores_of_random_policies(name):
    env, known = make(name), scores(name)
    assert isinstance(env, FiniteWorld)
    assert known is not None
    for discount, by_policy in ((1.0, known.undiscounted), (env.discount, known.discounted)):
        assert by_policy["random"].kind == "exact"
        assert by_policy["random"].low == pytest.approx(random_return(env, discount), rel=1e-6, abs=1e-6)


def test_scores_in_tables():
    known = scores("shopping-5")
    assert known is not None
    assert str(known.undiscounted["best"]) == "4"
    assert str(known.undiscounted["random"]) == "-142.49"
    rooms = scores("memory-four-rooms-7x7")
    assert rooms is not None
    assert " .. " in str(rooms.undiscounted["best"])
