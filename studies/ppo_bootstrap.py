"""Bootstrap or baseline, with PPO? Its three critics with lambda 0, all bootstrap, and 0.95, nearly none.

The exact analysis has the direction of the gradient with a converged critic.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from bootstrap import gradient_cosines
from learners import HEAVEN_HELL, PPO_CRITICS, PPO_STEPS
from runner import main
from study import Arm, Setup, Study

LAMBDAS = (0.0, 0.95)


def label(critic: str, lambda_: float) -> str:
    """The name of an arm, such as "V(h, s), lambda 0"."""
    return f"{critic}, lambda {lambda_:g}"


def _arm(critic: str, lambda_: float) -> Arm:
    settings = {"method": PPO_CRITICS[critic], "clip_values": False, "gae_lambda": lambda_, **HEAVEN_HELL}
    return Arm(label(critic, lambda_), settings, panel=f"lambda {lambda_:g}", line=critic)


def exact(world: str) -> pl.DataFrame:
    """A row for each arm: for each agent of `STAGES` the `cosine` of the expected and the true gradient."""
    rows: dict[tuple[str, float], dict[str, Any]] = {
        (critic, lambda_): {"arm": label(critic, lambda_)} for lambda_ in LAMBDAS for critic in PPO_CRITICS
    }
    for (critic, lambda_, stage), cosine in gradient_cosines(world, LAMBDAS).items():
        rows[critic, lambda_][f"{stage}: cosine"] = cosine
    return pl.DataFrame(list(rows.values()))


STUDY = Study(
    name="ppo-bootstrap",
    title="Bootstrap or baseline, with PPO?",
    question="In the study bootstrap, V(s) fails as a bootstrap of A2C and does no harm as its baseline. Under PPO, "
    "V(s) had the highest mean in Heaven-Hell. Is that a matter of its lambda of 0.95?",
    prediction="With lambda 0 the order is that of A2C. V(h, s) learns, with a mean of at least 0.5; V(s) does not, "
    "below 0.2, since its gradient points away from the priest (cosine -0.62, 0.99 with lambda 0.95); nor does V(h), "
    "below 0.1, since a critic that has learned nothing gives no gradient. With lambda 0.95, whose runs were known, "
    "all three learn.",
    setups=(Setup("heaven-hell-3", PPO_STEPS),),
    arms_in=lambda setup: tuple(_arm(critic, lambda_) for lambda_ in LAMBDAS for critic in PPO_CRITICS),
    exact=exact,
    comparisons=(
        ("V(h, s), lambda 0", "V(h), lambda 0"),
        ("V(h, s), lambda 0", "V(s), lambda 0"),
        ("V(s), lambda 0.95", "V(s), lambda 0"),
        ("V(h), lambda 0.95", "V(h), lambda 0"),
        ("V(h, s), lambda 0.95", "V(h, s), lambda 0"),
        ("V(s), lambda 0.95", "V(h, s), lambda 0.95"),
    ),
    precision="float32",  # as the runs that the study `learners` has
    quick_steps=100_000,
)

if __name__ == "__main__":
    main(STUDY)
