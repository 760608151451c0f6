"""The settings of a run: configuration file, command line and documentation at once, one class per learner."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, Self

from asymrl.settings.methods import Method, method
from asymrl.worlds.name_options import split_names

if TYPE_CHECKING:
    from asymrl.models.architecture import Architecture

LARGEST_COUNT = 2**31 - 1  # steps are counted in 32 bits
MOST_STEPS = LARGEST_COUNT - 2**20  # the last episodes may go beyond the limit
LARGEST_SIZE = 2**20  # of an axis of an array; nobody needs more, and products of such sizes overflow
LARGEST_FLOAT = 3.4e38  # numbers of a program have 32 bits


def number(default: Any) -> Any:
    """A setting that may differ between runs of one compiled program: it becomes an entry of `Numbers`."""
    return field(default=default, metadata={"number": True})


def label(default: Any) -> Any:
    """A setting that is recorded with a run and changes nothing by itself."""
    return field(default=default, metadata={"label": True})


@dataclass(frozen=True)
class Settings:
    """How one run is trained: what all learners share. Make those of a learner, such as `A2CSettings`."""

    world: str = "heaven-hell-3"
    """The world to act in, such as heaven-hell-3; see asymrl envs."""
    method: str = ""
    """The learner and what its critic reads, such as a2c-asym-hs, ppo-asym-hs or adqn."""
    preset: str | None = label(None)
    """Settings that work for a kind of problem, such as ppo-small; asymrl presets lists them. Explicit settings
    override it."""
    steps: int = number(2_000_000)
    """Environment steps to train for."""
    stop_return: float | None = number(None)
    """End a run early, once the mean return of its last 100 episodes reaches this. None: never."""

    discount: float = number(0.99)
    """Discount gamma of the learner; returns are reported without it."""
    time_limit: int = 100
    """Environment steps after which an episode is truncated."""
    action_repeat: int = 1
    """Environment steps that each action is repeated for; their rewards are summed. All other settings and all reported
    numbers count actions."""
    bootstrap_truncated: bool = False
    """Whether to bootstrap at the end of a truncated episode; the paper does not."""
    normalise_observations: bool = False
    """Whether to normalise numbers in observations and states by their running mean and standard deviation."""
    adam_eps: float = number(1e-4)
    """Epsilon of the Adam optimisers."""
    adam_beta2: float = number(0.999)
    """Decay rate of Adam's mean of squared gradients."""
    clip_norm: float | None = number(None)
    """Largest gradient norm; larger gradients are scaled down. None: never."""

    actor_sees: str | None = None
    """Which named parts of an observation the agent sees, such as proprioception, or several joined by commas. None:
    all."""
    critic_sees: str = "state"
    """What a critic may read besides the history: state, a part of it that the world names, such as heaven-side, a
    part of the observation, belief, sampled-state, time, or several joined by + or commas, such as state+time."""
    draws: Literal["shared", "independent"] = "shared"
    """Whether the value and the bootstrap at a step read the same sampled state, or a separate draw each."""
    observation_features: str | None = None
    """Your own class, FILE.py:CLASS, that computes features of observations. None: chosen by their space."""
    state_features: str | None = None
    """Your own class, FILE.py:CLASS, that computes features of what the critic sees. None: chosen by its space."""
    memory: str = "gru"
    """Memory of actor and critic: gru, lstm, rnn, attention, none, a stack such as rnn:attention, or your own class,
    FILE.py:CLASS."""
    actor_memory: str | None = None
    """Memory of the actor alone. None: that of `memory`."""
    critic_memory: str | None = None
    """Memory of the critic alone. None: that of `memory`."""
    memory_size: int = 128
    """Features of the history."""
    window: int | None = None
    """Remember only this many last pairs of action and observation. None: according to the method."""
    attention_heads: int = 2
    """Heads of an attention memory."""
    hidden: tuple[int, ...] | None = None
    """Sizes of the hidden layers of policy and value. None: the paper's for this kind of world."""

    log_points: int = 200
    """Points of the learning curve."""
    evaluation_episodes: int = 0
    """Evaluation episodes at each of those points, separate from training. 0: none, as in the paper."""
    evaluation_greedy: bool = True
    """Whether evaluation takes the most likely action instead of sampling."""
    precision: Literal["float32", "tf32"] = "float32"
    """Precision of matrix products on accelerators; tf32 is faster and less exact."""

    if TYPE_CHECKING:
        # Which learner's settings a run has is known when it runs.
        def __getattr__(self, name: str) -> Any: ...

    def __post_init__(self) -> None:
        if settings_type(self.method) is not type(self):
            wanted = settings_type(self.method).__name__
            raise ValueError(f"{self.method} is trained with {wanted}, not with {type(self).__name__}")
        for name in ("actor_sees", "critic_sees"):
            if (names := getattr(self, name)) is not None:
                object.__setattr__(self, name, "+".join(split_names(names)))  # one spelling, as it is part of the shape
        self.check_positive("steps", "adam_eps", "time_limit", "log_points", "memory_size", "attention_heads")
        self.check_positive("action_repeat")
        self.check_sizes(
            "time_limit", "action_repeat", "log_points", "memory_size", "attention_heads", "evaluation_episodes"
        )
        self.check_share("discount", "adam_beta2")
        if self.stop_return is not None and not math.isfinite(self.stop_return):
            raise ValueError(f"stop_return is {self.stop_return}; it must be a finite number, or none")
        if self.adam_beta2 == 1:
            raise ValueError("adam_beta2 is 1; with it, no gradient would count: choose less")
        self.check_not_negative("evaluation_episodes")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise ValueError(f"clip_norm is {self.clip_norm}; it must be a positive number, or none")
        self.check_counts("steps")
        # Raises with its own message if the memory is not a known one.
        _ = self.architecture

    def check_positive(self, *names: str) -> None:
        """Raises ValueError unless these settings are positive numbers."""
        for name in names:
            if not 0 < getattr(self, name) < LARGEST_FLOAT:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be a positive number")

    def check_not_negative(self, *names: str) -> None:
        """Raises ValueError unless these settings are zero or positive numbers, or None."""
        for name in names:
            if not 0 <= (getattr(self, name) or 0) < LARGEST_FLOAT:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be 0 or a positive number")

    def check_counts(self, *names: str) -> None:
        """Raises ValueError if one of these numbers of steps is larger than a run can count."""
        for name in names:
            if getattr(self, name) > MOST_STEPS:
                raise ValueError(f"{name} is {getattr(self, name)}; a run can have at most {MOST_STEPS} steps")

    def check_sizes(self, *names: str) -> None:
        """Raises ValueError if one of these sizes is larger than an axis of an array can be."""
        for name in names:
            if getattr(self, name) > LARGEST_SIZE:
                raise ValueError(f"{name} is {getattr(self, name)}; it can be at most {LARGEST_SIZE}")

    def check_share(self, *names: str) -> None:
        """Raises ValueError unless these settings lie between 0 and 1."""
        for name in names:
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must lie between 0 and 1")

    @property
    def log_period(self) -> int:
        """Steps between two points of the learning curve."""
        return max(1, self.steps // self.log_points)

    @property
    def horizon(self) -> int:
        """The most actions of an episode."""
        return -(-self.time_limit // self.action_repeat)

    @property
    def how(self) -> Method:
        return method(self.method)

    @property
    def reads_state(self) -> bool:
        """Whether the critic is told the state or a part of it, rather than what follows from the history alone."""
        return "s" in self.how.reads and not set(split_names(self.critic_sees)) <= {"belief", "sampled-state", "time"}

    @property
    def architecture(self) -> Architecture:
        # The command line shows these settings in its help, where importing JAX would take longer than reading.
        from asymrl.models.architecture import Architecture

        window = self.window if self.window is not None else self.how.window
        return Architecture(
            observation_features=self.observation_features,
            state_features=self.state_features,
            memory=self.memory,
            memory_size=self.memory_size,
            window=window,
            attention_heads=self.attention_heads,
            hidden=self.hidden,
            actor_memory=self.actor_memory,
            critic_memory=self.critic_memory,
            shared_memory=getattr(self, "shared_memory", False),
            normalise_observations=self.normalise_observations,
            normalise_rewards=getattr(self, "normalise_rewards", False),
        )

    @property
    def user_code(self) -> tuple[str, ...]:
        """The names of classes of the user's own that the networks are made of. Making them runs the user's code."""
        from asymrl.models.architecture import is_users  # lazily, as above

        memories = (self.memory, self.actor_memory, self.critic_memory)
        own = [name for name in memories if name is not None and ":" in name and is_users(name)]
        features = [name for name in (self.observation_features, self.state_features) if name is not None]
        return tuple(dict.fromkeys([*features, *own]))

    @property
    def code_names(self) -> tuple[str, ...]:
        """All names whose code may be run: that of the world, and those of classes of the user's own."""
        return (self.world, *self.user_code)

    @property
    def targets(self) -> tuple[str, float]:
        """How the critic's targets are estimated, and the n or lambda of the estimator; see `returns`."""
        return "td0", 0

    def shape(self) -> Self:
        """These settings with everything that does not change the program set aside: numbers and labels.

        Runs whose shapes are equal can be trained together.
        """
        is_aside = ("number", "label")
        kept = [f.name for f in fields(self) if not any(f.metadata.get(kind) for kind in is_aside)]
        return type(self)(**{name: getattr(self, name) for name in kept})

    def numbers(self) -> dict[str, int | float]:
        """The numbers that may differ between runs of one program, by name; what is None is infinite."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.metadata.get("number")}
        values = {name: math.inf if value is None else value for name, value in values.items()}
        # In 32 bits, 1 - 0.999 would be wrong in the fifth digit.
        return values | {"log_period": self.log_period, "adam_new_square": 1 - self.adam_beta2}


@dataclass(frozen=True)
class A2CSettings(Settings):
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
    update_steps: int | None = None
    """Play further rounds of E episodes until an update has at least this many steps, at most 16 rounds. None: one
    round."""
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

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_positive("actor_rate", "critic_rate", "entropy_steps", "episodes", "td_n", "target_period")
        self.check_sizes("episodes", "td_n")
        if self.update_steps is not None:
            self.check_positive("update_steps")
            self.check_sizes("update_steps")
        self.check_counts("target_period")
        self.check_share("td_lambda", "polyak")
        self.check_not_negative("entropy_weight", "entropy_end")

    @property
    def targets(self) -> tuple[str, float]:
        return self.estimator, {"td-n": self.td_n, "td-lambda": self.td_lambda}.get(self.estimator, 0)

    def numbers(self) -> dict[str, int | float]:
        end = self.entropy_weight / 10 if self.entropy_end is None else self.entropy_end
        return super().numbers() | {"entropy_end": end}


@dataclass(frozen=True)
class PPOSettings(Settings):
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
class DQNSettings(Settings):
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

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_positive("learning_rate", "episodes", "replay_steps", "train_ratio", "exploration_steps")
        self.check_positive("target_period")
        self.check_sizes("episodes")
        self.check_counts("target_period", "prefill", "replay_steps")
        self.check_share("exploration_start", "exploration_end", "polyak")
        self.check_not_negative("prefill")


SETTINGS_TYPES: dict[str, type[Settings]] = {"a2c": A2CSettings, "ppo": PPOSettings, "dqn": DQNSettings}


def settings_type(name: str) -> type[Settings]:
    """The class of the settings of a method. Raises ValueError if there is no such method."""
    return SETTINGS_TYPES[method(name).learner]


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
    known = {each.name for each in fields(settings_type(name))}
    for setting in given:
        if setting not in known:
            others = [learner for learner, kind in SETTINGS_TYPES.items() if setting in names_of(kind)]
            whose = f"a setting of {' and '.join(others)}" if others else "no setting"
            raise ValueError(f"{setting} is {whose}; {name} is trained by {method(name).learner}, so leave it out")


def own_values(name: str, methods: Sequence[str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Of values that are meant for several methods, those that the learner of one of them has.

    Raises:
        ValueError: if a value is a setting of none of their learners.
    """
    known = {setting for each in methods for setting in names_of(settings_type(each))}
    check_learner(name, [setting for setting in values if setting in SETTINGS and setting not in known])
    own = names_of(settings_type(name))
    return {setting: value for setting, value in values.items() if setting in own or setting not in SETTINGS}


def names_of(kind: type[Settings]) -> tuple[str, ...]:
    """The names of the settings of a learner."""
    return tuple(each.name for each in fields(kind))


SETTINGS = tuple(dict.fromkeys(name for kind in SETTINGS_TYPES.values() for name in names_of(kind)))
