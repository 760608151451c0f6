"""The tasks that presets are measured in, for asymrl and for RecurrentPPO of Stable-Baselines3.

Where RL Zoo has settings of RecurrentPPO for a task (CartPole and Pendulum without velocities), it gets those;
elsewhere the preset's, in its own words. It reads the same observations, as one vector or one image: indices are
one-hot, and normalised where the preset normalises them. What it does not get is the previous action, which our
memories always read, and the state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

TASKS_FILE = Path(__file__).parents[1] / "examples" / "memory_tasks.py"
EPISODES = 100  # of an evaluation, with sampled actions


@dataclass(frozen=True)
class Task:
    """A problem of other people."""

    world: str
    """As `asymrl train` knows it."""
    make: Callable[[], gymnasium.Env]
    """The same for Stable-Baselines3."""
    steps: int
    preset: str
    title: str
    random: float
    """What random actions earn, in 60 to 300 episodes."""
    best: float
    """About the most that can be reached."""
    asymmetric: bool = True
    """Whether it has a state to read."""
    zoo: dict[str, Any] = field(default_factory=dict)
    """RL Zoo's settings for RecurrentPPO, if it has some."""
    rate_of_theirs: float | None = None
    """The learning rate of RecurrentPPO, if it is not the preset's."""

    @property
    def methods(self) -> tuple[str, ...]:
        return ("ppo", "ppo-asym-hs") if self.asymmetric else ("ppo",)


class OneHotGrid(gymnasium.ObservationWrapper):
    """What a MiniGrid agent sees as one vector: each cell's object, colour and state one-hot, and its heading."""

    COUNTS = (11, 6, 3)  # objects, colours, states of doors

    def __init__(self, env: gymnasium.Env):
        super().__init__(env)
        image = env.observation_space["image"].shape  # pyright: ignore[reportIndexIssue]
        self.observation_space = gymnasium.spaces.Box(0, 1, (image[0] * image[1] * sum(self.COUNTS) + 4,), np.float32)

    def observation(self, observation: Any) -> np.ndarray:
        image = observation["image"]
        cells = [np.eye(count, dtype=np.float32)[image[..., i]] for i, count in enumerate(self.COUNTS)]
        heading = np.eye(4, dtype=np.float32)[observation["direction"]]
        return np.concatenate([np.concatenate(cells, axis=-1).ravel(), heading])


def _example(name: str) -> dict[str, Any]:
    """A function of the examples, by the name of a world and as it is."""
    import runpy

    return {"world": f"{TASKS_FILE}:{name}", "make": runpy.run_path(str(TASKS_FILE))[name]}


def _of_minigrid() -> gymnasium.Env:
    import minigrid  # noqa: F401  registers its environments  # pyright: ignore[reportMissingImports]

    return OneHotGrid(gymnasium.make("MiniGrid-MemoryS7-v0", disable_env_checker=True))


def _flat(name: str) -> Callable[[], gymnasium.Env]:
    """An environment with indices as observations, which are shown one-hot."""

    def make() -> gymnasium.Env:
        import asymrl  # noqa: F401  registers its worlds

        if name.startswith("popgym"):
            import popgym  # noqa: F401  # pyright: ignore[reportMissingImports]
        return gymnasium.wrappers.FlattenObservation(gymnasium.make(name, disable_env_checker=True))

    return make


TASKS = {
    "minigrid-memory": Task(
        "minigrid:MiniGrid-MemoryS7-v0", _of_minigrid, 500_000, "ppo-grid", "MiniGrid MemoryS7",
        random=0.25, best=0.98,
    ),
    "pixels": Task(
        **_example("pixels"), steps=30_000, preset="ppo-image", title="MiniGrid Empty-Random-5x5 in pixels",
        random=0.31, best=0.97, rate_of_theirs=1e-3,
    ),
    "autoencode": Task(
        "popgym:popgym-AutoencodeEasy-v0", _flat("popgym-AutoencodeEasy-v0"), 200_000, "ppo-memory",
        "POPGym AutoencodeEasy", random=-0.5, best=1.0, asymmetric=False,
    ),
    "repeat-first": Task(
        "popgym:popgym-RepeatFirstEasy-v0", _flat("popgym-RepeatFirstEasy-v0"), 100_000, "ppo-memory",
        "POPGym RepeatFirstEasy", random=-0.5, best=1.0, asymmetric=False,
    ),
    "t-maze": Task(
        "t-maze-10", _flat("asymrl/TMaze-10-v0"), 100_000, "ppo-memory", "T-maze, corridor of 10", random=-4.64, best=4
    ),
    "cart-pole": Task(
        **_example("cart_pole"), steps=100_000, preset="ppo-small", title="CartPole without velocities",
        random=22, best=500,
        zoo={
            "n_envs": 8, "n_steps": 32, "batch_size": 256, "gae_lambda": 0.8, "gamma": 0.98, "n_epochs": 20,
            "ent_coef": 0.0, "learning_rate": "lin_0.001", "clip_range": "lin_0.2",
        },
    ),
    "pendulum": Task(
        **_example("pendulum"), steps=100_000, preset="ppo-control", title="Pendulum without velocity",
        random=-1200, best=-150,
        zoo={
            "n_envs": 4, "n_steps": 1024, "gae_lambda": 0.95, "gamma": 0.9, "n_epochs": 10, "ent_coef": 0.0,
            "learning_rate": 1e-3, "clip_range": 0.2, "use_sde": True, "sde_sample_freq": 4,
        },
    ),
}  # fmt: skip


def settings_of_theirs(task: Task, settings: Any) -> dict[str, Any]:
    """RL Zoo's settings of RecurrentPPO for this task, or those of `PPOSettings` in its words; lin_ falls to zero."""
    if task.zoo:
        return task.zoo
    return {
        "n_envs": settings.streams, "n_steps": settings.rollout, "n_epochs": settings.epochs,
        "batch_size": settings.streams * settings.rollout // settings.minibatches,
        "learning_rate": f"lin_{task.rate_of_theirs or settings.learning_rate}", "gamma": settings.discount,
        "gae_lambda": settings.gae_lambda, "clip_range": settings.clip_ratio, "ent_coef": settings.entropy_weight,
        "max_grad_norm": settings.clip_norm, "lstm_hidden_size": settings.memory_size,
        "net_arch": list(settings.hidden or ()), "normalise": settings.normalise_observations,
    }  # fmt: skip


def recurrent_ppo(task: Task, given: dict[str, Any], seed: int) -> Any:
    """RecurrentPPO with the settings of `settings_of_theirs`."""
    import torch  # pyright: ignore[reportMissingImports]
    from sb3_contrib import RecurrentPPO  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.monitor import Monitor  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(1)
    options = {name: _schedule(value) for name, value in given.items()}
    networks = {name: options.pop(name) for name in ("lstm_hidden_size", "net_arch") if name in options}
    envs = DummyVecEnv([lambda: Monitor(task.make())] * options.pop("n_envs"))
    if options.pop("normalise", False):
        envs = VecNormalize(envs, norm_reward=False)
    kind = "CnnLstmPolicy" if len(envs.observation_space.shape or ()) == 3 else "MlpLstmPolicy"
    return RecurrentPPO(kind, envs, device="cpu", seed=seed, policy_kwargs=networks, **options)


def _schedule(value: Any) -> Any:
    """RL Zoo's lin_0.001 as a function of the share of steps that is left; other values as they are."""
    if not (isinstance(value, str) and value.startswith("lin_")):
        return value
    start = float(value.removeprefix("lin_"))
    return lambda left: left * start


def play_recurrent_ppo(task: Task, model: Any, seed: int, episodes: int = EPISODES) -> float:
    """The mean return of whole episodes with sampled actions."""
    from stable_baselines3.common.vec_env import DummyVecEnv  # pyright: ignore[reportMissingImports]

    count, normalised = min(episodes, 25), model.get_vec_normalize_env()
    envs = DummyVecEnv([task.make] * count)
    totals: list[float] = []
    while len(totals) < episodes:
        envs.seed(1_000 * (seed + 1) + len(totals))
        observation, memory, first = envs.reset(), None, np.ones(count, bool)
        total, running = np.zeros(count), np.ones(count, bool)
        while running.any():
            if normalised is not None:
                observation = normalised.normalize_obs(observation)
            action, memory = model.predict(observation, state=memory, episode_start=first, deterministic=False)
            observation, reward, first, _ = envs.step(action)
            total += reward * running
            running &= ~first
        totals += total.tolist()
    return float(np.mean(totals))
