"""The settings of a run: configuration file, command line and documentation at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from asymrl.learning.methods import Method, method

if TYPE_CHECKING:
    from asymrl.models.architecture import Architecture

MOST_STEPS = 2**31 - 1 - 2**20  # steps are counted in 32 bits, and the last episodes may go beyond the limit


def number(default: Any) -> Any:
    """A setting that may differ between runs of one compiled program: it becomes an entry of `Numbers`."""
    return field(default=default, metadata={"number": True})


@dataclass(frozen=True)
class Settings:
    """How one run is trained. The defaults are the paper's, where it gives one value for all worlds."""

    world: str = "heaven-hell-3"
    """The world to act in, such as heaven-hell-3; see asymrl envs."""
    method: str = "a2c-asym-hs"
    """What the critic reads and how long the memory is: a2c, a2c-asym-s, a2c-asym-hs, a2c-react-2, a2c-react-4."""
    steps: int = number(2_000_000)
    """Environment steps to train for."""
    stop_return: float | None = number(None)
    """End a run sooner, when the mean return of its last 100 episodes reaches this. None: never."""

    actor_rate: float = number(1e-3)
    """Learning rate of the actor."""
    critic_rate: float = number(1e-3)
    """Learning rate of the critic."""
    adam_eps: float = number(1e-4)
    """Epsilon of both Adam optimisers."""
    clip_norm: float | None = number(None)
    """Largest norm of a gradient; longer ones are scaled down. None: never."""

    entropy_weight: float = number(0.1)
    """Weight lambda of the negative entropy at the start."""
    entropy_end: float | None = number(None)
    """The same at the end of a linear schedule. None: a tenth of the start."""
    entropy_schedule: Literal["constant", "linear", "exponential"] = "linear"
    """How the weight changes."""
    entropy_steps: float = number(2e6)
    """Steps until the linear schedule ends, or half-life of the exponential one."""

    discount: float = number(0.99)
    """Discount gamma of the learner; returns are reported without it."""
    episodes: int = 2
    """Episodes E per gradient step."""
    time_limit: int = 100
    """Steps after which an episode is cut off."""
    bootstrap_truncated: bool = False
    """Whether an episode that was cut off is worth its last value, rather than nothing (as in the paper)."""
    estimator: Literal["td0", "td-n", "td-lambda", "mc"] = "td0"
    """How Q is estimated, for critic targets and advantages alike."""
    td_n: int = 3
    """Steps of the td-n estimator."""
    td_lambda: float = number(0.7)
    """Lambda of the td-lambda estimator."""
    target: Literal["frozen", "polyak"] = "frozen"
    """How the target critic follows the critic."""
    target_period: int = number(10_000)
    """Steps between two copies of the critic, for a frozen target."""
    polyak: float = number(0.001)
    """Share of the critic that enters the target at each update, for a Polyak target."""

    critic_sees: str = "state"
    """What the privileged critic is told: state, or a part of it that the world names, such as heaven-side."""
    memory: str = "gru"
    """Memory of actor and critic: gru, lstm, rnn, attention, or a stack such as rnn:attention."""
    memory_size: int = 128
    """Features of the history."""
    window: int | None = None
    """Remember only this many last pairs of action and observation. None: what the method says."""
    attention_heads: int = 2
    """Heads of an attention memory."""
    hidden: tuple[int, ...] | None = None
    """Hidden layers of policy and value. None: the paper's for this kind of world."""

    log_points: int = 200
    """Points of the learning curve."""
    evaluation_episodes: int = 0
    """Episodes to evaluate at each of those points, apart from training. 0: none, as in the paper."""
    evaluation_greedy: bool = True
    """Whether evaluation takes the most likely action, or a sampled one."""
    precision: Literal["float32", "tf32"] = "float32"
    """Arithmetic of matrix products on accelerators that have a faster, less exact one."""

    def __post_init__(self) -> None:
        method(self.method)
        positive = ("steps", "actor_rate", "critic_rate", "adam_eps", "entropy_steps", "episodes", "time_limit",
                    "td_n", "target_period", "log_points", "memory_size", "attention_heads")  # fmt: skip
        for name in positive:
            if not getattr(self, name) > 0 or not math.isfinite(getattr(self, name)):
                raise ValueError(f"{name} is {getattr(self, name)}; it must be a positive number")
        for name in ("discount", "td_lambda", "polyak"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must lie between 0 and 1")
        if self.entropy_weight < 0 or (self.entropy_end or 0) < 0 or self.evaluation_episodes < 0:
            raise ValueError("entropy_weight, entropy_end and evaluation_episodes can't be negative")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise ValueError(f"clip_norm is {self.clip_norm}; it must be a positive number, or none")
        if self.steps > MOST_STEPS:
            raise ValueError(f"steps is {self.steps}; a run can have at most {MOST_STEPS}")
        # Raises with its own message if the memory is not a known one.
        _ = self.architecture

    @property
    def log_period(self) -> int:
        """Steps between two points of the learning curve."""
        return max(1, self.steps // self.log_points)

    @property
    def how(self) -> Method:
        return method(self.method)

    @property
    def architecture(self) -> Architecture:
        # The command line shows these settings in its help, where importing JAX would take longer than reading.
        from asymrl.models.architecture import Architecture

        window = self.window if self.window is not None else self.how.window
        return Architecture(self.memory, self.memory_size, window, self.attention_heads, self.hidden)

    def shape(self) -> Settings:
        """These settings with every number that does not change the program set aside.

        Runs whose shapes are equal can be trained together.
        """
        return Settings(**{f.name: getattr(self, f.name) for f in fields(Settings) if f.name not in NUMERIC})


NUMERIC = frozenset(f.name for f in fields(Settings) if f.metadata.get("number"))
