"""The settings of each learner: A2C, PPO and DQN; and which settings a method has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from asymrl.settings.methods import method
from asymrl.settings.run_settings import LARGEST_COUNT, SETTINGS_TYPES, Settings, number, settings_type


@dataclass(frozen=True)
class A2CSettings(Settings, learner="a2c"):
    """How one run of advantage actor-critic is trained.

    The defaults are the paper's, where it gives one value for all worlds.
    """

    method: str = "a2c-asym-hs"
    """What the critic reads and how long the memory is: a2c, a2c-asym-s, a2c-asym-hs, or a2c-react-k with any k, such
    as a2c-react-4. Other learners have their own settings: see the help of --method ppo and --method dqn."""

    normalise_rewards: bool = False
    """Whether to divide rewards by the running standard deviation of discounted returns; reported returns are not
    scaled."""
    actor_rate: float = number(1e-3)
    """Learning rate of the actor."""
    critic_rate: float = number(1e-3)
    """Learning rate of the critic."""
    critic_first: int = number(0)
    """Steps in which the critic alone learns. A critic that knows nothing yet can spoil a policy that starts from a
    trained one."""

    entropy_weight: float = number(0.1)
    """Weight lambda of the negative entropy at the start."""
    entropy_end: float | None = number(None)
    """The same at the end of a linear schedule. None: a tenth of the start."""
    entropy_schedule: Literal["constant", "linear", "exponential"] = "linear"
    """How the weight changes."""
    entropy_steps: float = number(2e6)
    """Steps until the linear schedule ends, or half-life of the exponential one."""

    episodes: int = 2
    """Episodes E per gradient step."""
    estimator: Literal["td0", "td-n", "td-lambda", "mc"] = "td0"
    """How Q is estimated, for both critic targets and advantages."""
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

    __hash__ = Settings.__hash__  # a dataclass would make its own

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_positive("actor_rate", "critic_rate", "entropy_steps", "episodes", "td_n", "target_period")
        self.check_sizes("episodes", "td_n")
        self.check_counts("target_period", "critic_first")
        self.check_share("td_lambda", "polyak")
        self.check_not_negative("entropy_weight", "entropy_end", "critic_first")

    @property
    def targets(self) -> tuple[str, float]:
        return self.estimator, {"td-n": self.td_n, "td-lambda": self.td_lambda}.get(self.estimator, 0)

    def numbers(self) -> dict[str, int | float]:
        end = self.entropy_weight / 10 if self.entropy_end is None else self.entropy_end
        return super().numbers() | {"entropy_end": end}


@dataclass(frozen=True)
class PPOSettings(Settings, learner="ppo"):
    """How one run of recurrent proximal policy optimisation is trained.

    The defaults are those of PureJaxRL's recurrent PPO.
    """

    method: str = "ppo"
    """What the critic reads and how long the memory is: ppo, ppo-asym-s, ppo-asym-hs, or ppo-react-k with any
    k, such as ppo-react-4."""
    adam_eps: float = number(1e-5)
    """Epsilon of the Adam optimiser."""
    bootstrap_truncated: bool = True
    """Whether to bootstrap at the end of a truncated episode."""
    clip_norm: float | None = number(0.5)
    """Largest gradient norm; larger gradients are scaled down. None: never."""

    normalise_rewards: bool = False
    """Whether to divide rewards by the running standard deviation of discounted returns; reported returns are not
    scaled."""
    learning_rate: float = number(2.5e-4)
    """Learning rate at the start."""
    anneal: bool = True
    """Whether the learning rate falls linearly to zero over the run."""
    streams: int = 4
    """Parallel streams of episodes; each continues where the last update left it."""
    rollout: int = 128
    """Steps of each stream per update."""
    whole_episodes: int = 0
    """Learn from this many whole episodes per update, as A2C does, instead of from streams. 0: streams."""
    epochs: int = 4
    """Passes over the steps of an update."""
    minibatches: int = 4
    """Gradient steps per pass; each uses a subset of whole streams."""
    clip_ratio: float | None = number(0.2)
    """How far the probability ratio of an action may be from 1 before it is clipped. None: no limit."""
    gae_lambda: float = number(0.95)
    """Lambda of generalised advantage estimation."""
    value_weight: float = number(0.5)
    """Weight of the value loss."""
    clip_values: bool = True
    """Whether the value loss is clipped like the ratio, around the values at collection."""
    shared_memory: bool = False
    """Whether actor and critic share one memory with two heads."""
    normalise_advantages: bool = True
    """Whether to normalise advantages to mean 0 and standard deviation 1 in each minibatch."""
    discount_steps: bool = False
    """Whether the policy loss at time t of an episode has the weight gamma^t, as in A2C."""
    entropy_weight: float = number(0.01)
    """Weight lambda of the negative entropy at the start."""
    entropy_end: float | None = number(None)
    """The same at the end of a linear schedule. None: a tenth of the start."""
    entropy_schedule: Literal["constant", "linear", "exponential"] = "constant"
    """How the weight changes."""
    entropy_steps: float = number(2e6)
    """Steps until the linear schedule ends, or half-life of the exponential one."""

    __hash__ = Settings.__hash__  # a dataclass would make its own

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_positive("learning_rate", "streams", "rollout", "epochs", "minibatches", "entropy_steps")
        self.check_sizes("streams", "rollout", "epochs", "minibatches", "whole_episodes")
        if self.clip_ratio is not None:
            self.check_positive("clip_ratio")
        self.check_share("gae_lambda")
        self.check_not_negative("entropy_weight", "entropy_end", "value_weight", "whole_episodes")
        together = "whole_episodes" if self.whole_episodes else "streams"
        if getattr(self, together) % self.minibatches:
            divided = f"it must divide {together}, which is {getattr(self, together)}"
            raise ValueError(f"minibatches is {self.minibatches}; {divided}")
        most = LARGEST_COUNT - self.streams * self.rollout
        if not self.whole_episodes and self.steps > most:
            update = f"{self.streams} streams of {self.rollout} steps"
            raise ValueError(f"steps is {self.steps}; with {update}, a run can have at most {most}")

    @property
    def targets(self) -> tuple[str, float]:
        return "td-lambda", self.gae_lambda

    def numbers(self) -> dict[str, int | float]:
        end = self.entropy_weight / 10 if self.entropy_end is None else self.entropy_end
        return super().numbers() | {"entropy_end": end}


@dataclass(frozen=True)
class DQNSettings(Settings, learner="dqn"):
    """How one run of the asymmetric DQN family is trained. The defaults are its authors'."""

    method: str = "adqn"
    """Which losses: dqn, adqn, adqn-vr, adqn-state, adqn-state-vr, adqn-short, adqn-short-vr."""
    learning_rate: float = number(1e-4)
    """Learning rate of both networks."""
    episodes: int = 1
    """Episodes per gradient step, drawn from the replay."""
    replay_steps: int = 1_000_000
    """Steps that the replay holds, as whole episodes; the oldest are dropped first."""
    prefill: int = number(50_000)
    """Steps of uniformly random actions before learning begins; they count as steps."""
    train_ratio: float = number(8.0)
    """Replayed steps per environment step after the prefill."""
    exploration_start: float = number(1.0)
    """Probability of a random action at the start."""
    exploration_end: float = number(0.1)
    """The same at the end of its linear schedule."""
    exploration_steps: float = number(1e6)
    """Steps until that schedule ends."""
    target: Literal["frozen", "polyak"] = "frozen"
    """How the target networks follow."""
    target_period: int = number(10_000)
    """Steps between two copies, for a frozen target."""
    polyak: float = number(0.001)
    """Share of the networks that enters the targets at each update, for a Polyak target."""
    shared_memory: bool = False
    """Whether Q(h, a) and Q(h, s, a) share one memory and one optimiser, as in the authors' first version."""

    __hash__ = Settings.__hash__  # a dataclass would make its own

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_positive("learning_rate", "episodes", "replay_steps", "train_ratio", "exploration_steps")
        self.check_positive("target_period")
        self.check_sizes("episodes")
        self.check_counts("target_period", "prefill", "replay_steps")
        self.check_share("exploration_start", "exploration_end", "polyak")
        self.check_not_negative("prefill")


def new_settings(**values: Any) -> Settings:
    """The settings of the learner that `method` belongs to.

    Raises:
        ValueError: if a value is not possible, or is a setting of other learners only.
    """
    name = values.get("method", A2CSettings.method)
    own = settings_type(name)
    check_learner(name, values)
    return own(**values)


def check_learner(name: str, given: Iterable[str]) -> None:
    """Raises ValueError if one of the given settings is none of the learner of the method with this name."""
    names = {each.name for each in fields(settings_type(name))}
    for setting in given:
        if setting not in names:
            others = [learner for learner, kind in SETTINGS_TYPES.items() if setting in names_of(kind)]
            whose = f"a setting of {' and '.join(others)}" if others else "no setting"
            raise ValueError(f"{setting} is {whose}; {name} is trained by {method(name).learner}, so leave it out")


def own_values(name: str, methods: Sequence[str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Of values that are meant for several methods, those that the learner of one of them has.

    Raises:
        ValueError: if a value is a setting of none of their learners.
    """
    all_names = {setting for each in methods for setting in names_of(settings_type(each))}
    check_learner(name, [setting for setting in values if setting in SETTINGS and setting not in all_names])
    own = names_of(settings_type(name))
    return {setting: value for setting, value in values.items() if setting in own or setting not in SETTINGS}


def names_of(kind: type[Settings]) -> tuple[str, ...]:
    """The names of the settings of a learner."""
    return tuple(each.name for each in fields(kind))


SETTINGS = tuple(dict.fromkeys(name for kind in SETTINGS_TYPES.values() for name in names_of(kind)))
