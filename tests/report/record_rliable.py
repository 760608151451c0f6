"""Prints what rliable says about the scores of `test_intervals.py`, which holds these numbers as literals.

rliable is no dependency of this project: it has no wheel and pins old versions of others. To record again, in an
environment of its own:

    pip install wheel setuptools numpy "pandas<3" arch scipy seaborn absl-py
    pip install --no-build-isolation rliable
    python tests/report/record_rliable.py

Last recorded with Python 3.11.7, rliable 1.2.0, arch 7.2.0, numpy 2.4.6, scipy 1.17.1.
"""

from __future__ import annotations

import numpy as np
from rliable import library, metrics  # pyright: ignore[reportMissingImports]

REPETITIONS = (
    50_000  # the bounds of the first interval then vary by about 1/200 of its width, those of the second by 1/65
)


def recorded_scores() -> tuple[np.ndarray, np.ndarray]:
    """The scores [run, world] of two methods, as in `test_intervals.py`."""
    scores = np.random.default_rng(3).normal(size=(20, 3)) * [1.0, 0.2, 3.0] + [0.0, 1.0, -2.0]
    return scores, np.random.default_rng(6).normal(size=(12, 3))


def main() -> None:
    generator = np.random.RandomState(0)
    scores, others = recorded_scores()
    print("interquartile mean", repr(float(metrics.aggregate_iqm(scores))))
    print("probability of improvement", repr(float(metrics.probability_of_improvement(scores, others))))
    profiles, _ = library.create_performance_profile({"a": scores}, np.linspace(-6, 6, 25), reps=10)
    print("profile, in runs of 60", np.round(60 * profiles["a"]).astype(int).tolist())
    assert np.allclose(60 * profiles["a"], np.round(60 * profiles["a"]))
    _, intervals = library.get_interval_estimates(
        {"a": scores},
        lambda x: np.asarray([metrics.aggregate_iqm(x)]),
        reps=REPETITIONS,
        random_state=generator,
    )
    print("interval of the interquartile mean", intervals["a"][:, 0].round(4).tolist())
    _, intervals = library.get_interval_estimates(
        {"a": [scores, others]},
        lambda x, y: np.asarray([metrics.probability_of_improvement(x, y)]),
        reps=REPETITIONS // 10,
        random_state=generator,
    )
    print("interval of the probability of improvement", intervals["a"][:, 0].round(4).tolist())


if __name__ == "__main__":
    main()
