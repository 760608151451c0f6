"""The settings of a run that all learners share: configuration file, command line and documentation at once."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from asymrl.settings.methods import Method, method
from asymrl.worlds.name_options import split_names

if TYPE_CHECKING:
    from asymrl.nn.architecture import Architecture

LARGEST_COUNT = 2**31 - 1  # steps are counted in 32 bits
MOST_STEPS = LARGEST_COUNT - 2**20  # the last episodes may go beyond the limit
LARGEST_SIZE = 2**20  # of an axis of an array; nobody needs more, and products of such sizes overflow
LONGEST_NAME = 4000  # characters of a world with its arguments; Python reads no number with more digits
ZOO = "zoo:"  # in front of the name of an agent that ships with asymrl, in place of a folder
LARGEST_FLOAT = 3.4e38  # numbers of a program have 32 bits


def number(default: Any) -> Any:
    """A setting that may differ between runs of one compiled program: it becomes an entry of `Numbers`."""
    return field(default=default, metadata={"number": True})


def label(default: Any) -> Any:
    """A setting that is recorded with a run and does not change its program."""
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
    start_from: str | None = label(None)
    """A trained run whose networks to begin with, as far as they fit: a folder, of whose runs the best counts, or
    zoo:NAME."""
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
    """Whether to normalise numbers and arrays of symbols in observations and states by their running mean and standard
    deviation."""
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
    observation_features: str | None = None
    """Your own class, FILE.py:CLASS, that computes features of observations. None: chosen by their space."""
    state_features: str | None = None
    """Your own class, FILE.py:CLASS, that computes features of what the critic sees. None: chosen by its space."""
    memory: str = "gru"
    """Memory of actor and critic: gru, lstm, none, or your own class, FILE.py:CLASS."""
    actor_memory: str | None = None
    """Memory of the actor alone. None: that of `memory`."""
    critic_memory: str | None = None
    """Memory of the critic alone. None: that of `memory`."""
    memory_size: int = 128
    """Features of the history."""
    window: int | None = None
    """Remember only this many last pairs of action and observation. None: according to the method."""
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

    def __init_subclass__(cls, learner: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if learner is not None:
            SETTINGS_TYPES[learner] = cls

    if TYPE_CHECKING:
        # Which learner's settings a run has is known when it runs.
        def __getattr__(self, name: str) -> Any: ...

    def __post_init__(self) -> None:
        if settings_type(self.method) is not type(self):
            class_name = settings_type(self.method).__name__
            raise ValueError(f"{self.method} is trained with {class_name}, not with {type(self).__name__}")
        if self.start_from == "":
            raise ValueError("start_from is empty; name a folder of runs, zoo:NAME, or none")
        if self.start_from == "none":  # as the command line and sweeps say it
            object.__setattr__(self, "start_from", None)
        if self.start_from is not None and not self.start_from.startswith(ZOO):
            object.__setattr__(self, "start_from", str(Path(self.start_from).absolute()))  # wherever it is resumed
        if len(self.world) > LONGEST_NAME:
            raise ValueError(f"world {self.world[:30]}...: a name has at most {LONGEST_NAME} characters")
        for name in ("actor_sees", "critic_sees"):
            if (names := getattr(self, name)) is not None:
                object.__setattr__(self, name, "+".join(split_names(names)))  # one spelling, as it is part of the shape
        self.check_positive("steps", "adam_eps", "time_limit", "log_points", "memory_size")
        self.check_positive("action_repeat")
        self.check_sizes("time_limit", "action_repeat", "log_points", "memory_size", "evaluation_episodes")
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
        from asymrl.nn.architecture import Architecture

        window = self.window if self.window is not None else self.how.window
        return Architecture(
            observation_features=self.observation_features,
            state_features=self.state_features,
            memory=self.memory,
            memory_size=self.memory_size,
            window=window,
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
        from asymrl.nn.architecture import is_users  # lazily, as above

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
        return self._shape

    # Runs share their settings: what is asked for each of 100 000 runs is computed once.
    @functools.cached_property
    def _shape(self) -> Self:
        is_aside = ("number", "label")
        names = [f.name for f in fields(self) if not any(f.metadata.get(kind) for kind in is_aside)]
        return type(self)(**{name: getattr(self, name) for name in names})

    @functools.cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, f.name) for f in fields(self)))

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self) -> dict[str, Any]:
        # Another process has other hashes.
        return {name: value for name, value in self.__dict__.items() if name not in ("_shape", "_hash")}

    def numbers(self) -> dict[str, int | float]:
        """The numbers that may differ between runs of one program, by name; what is None is infinite."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.metadata.get("number")}
        values = {name: math.inf if value is None else value for name, value in values.items()}
        # In 32 bits, 1 - 0.999 would be wrong in the fifth digit.
        return values | {"log_period": self.log_period, "adam_new_square": 1 - self.adam_beta2}


SETTINGS_TYPES: dict[str, type[Settings]] = {}
"""The settings of each learner, by its name; the classes are in `learner_settings`."""


def settings_type(name: str) -> type[Settings]:
    """The class of the settings of a method. Raises ValueError if there is no such method."""
    return SETTINGS_TYPES[method(name).learner]
