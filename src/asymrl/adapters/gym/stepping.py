"""Several Gymnasium environments, stepped together: one after the other, or each in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np

from asymrl.adapters.gym.foreign_spaces import Reading
from asymrl.adapters.gym.latents import Latent
from asymrl.adapters.user_code import user_path
from asymrl.worlds.spaces import Record, Space

MakeEnv = Callable[[], gymnasium.Env]
Outcome = tuple[Any, Any, np.ndarray, np.ndarray, np.ndarray]


def room(space: Space, count: int) -> Any:
    """Arrays for `count` values of a space."""
    if isinstance(space, Record):
        return {name: room(part, count) for name, part in space.items()}
    return np.zeros((count, *space.shape), space.dtype)


def put(rows: Any, i: int, value: Any) -> None:
    """Writes a value into row `i`."""
    if isinstance(rows, dict):
        for name, part in rows.items():
            put(part, i, value[name])
    else:
        rows[i] = value


class InTurn:
    """Environments of this process, one after the other. What has ended is not stepped."""

    def __init__(self, make: MakeEnv, count: int, seen: Reading, latent: Latent, act: Callable[[Any], Any]):
        """`act` turns an action of ours into one of theirs."""
        self.envs = [make() for _ in range(count)]
        self.seen, self.latent, self.act = seen, latent, act

    def reset(self, seeds: Sequence[int]) -> tuple[Any, Any]:
        observations, latents = self._rooms()
        for i, (env, seed) in enumerate(zip(self.envs, seeds, strict=True)):
            observation, info = env.reset(seed=seed)
            put(observations, i, self.seen.read(observation))
            put(latents, i, self.latent.reading.read(self.latent.find(env, info)))
        return observations, latents

    def step(self, actions: np.ndarray, alive: np.ndarray) -> Outcome:
        observations, latents = self._rooms()
        rewards, ends = np.zeros(len(self.envs), np.float32), np.zeros((2, len(self.envs)), bool)
        for i in np.flatnonzero(alive).tolist():
            env = self.envs[i]
            observation, rewards[i], ends[0, i], ends[1, i], info = env.step(self.act(actions[i]))
            put(observations, i, self.seen.read(observation))
            put(latents, i, self.latent.reading.read(self.latent.find(env, info)))
        return observations, latents, rewards, ends[0], ends[1]

    def close(self) -> None:
        for env in self.envs:
            env.close()

    def _rooms(self) -> tuple[Any, Any]:
        return room(self.seen.space, len(self.envs)), room(self.latent.reading.space, len(self.envs))


class Revealed(gymnasium.Wrapper):
    """Shows the latent state beside the observation, both as arrays, so that they can cross to another process."""

    def __init__(self, env: gymnasium.Env, seen: Reading, latent: Latent):
        super().__init__(env)
        from asymrl.adapters.gym.spaces import to_gymnasium

        self.seen, self.latent = seen, latent
        self.observation_space = gymnasium.spaces.Dict(
            {"observation": to_gymnasium(seen.space), "latent": to_gymnasium(latent.reading.space)}
        )

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**options)
        return self._both(observation, info), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._both(observation, info), float(reward), terminated, truncated, {}

    def _both(self, observation: Any, info: dict[str, Any]) -> dict[str, Any]:
        latent = self.latent.reading.read(self.latent.find(self.env, info))
        return {"observation": self.seen.read(observation), "latent": latent}


class InProcesses:
    """Environments in processes of their own, by Gymnasium's AsyncVectorEnv.

    Those that have ended start over and are stepped with the others; nothing of that is used.
    """

    def __init__(self, make: MakeEnv, count: int, seen: Reading, latent: Latent, act: Callable[[Any], Any]):
        from gymnasium.vector import AsyncVectorEnv

        self.spaces, self.act = (seen.space, latent.reading.space), act
        # Forking a process that uses JAX may hang; new processes import what they need.
        with user_path():
            self.envs = AsyncVectorEnv([lambda: Revealed(make(), seen, latent)] * count, context="forkserver")

    def reset(self, seeds: Sequence[int]) -> tuple[Any, Any]:
        shown, _ = self.envs.reset(seed=list(seeds))
        return self._parts(shown)

    def step(self, actions: np.ndarray, alive: np.ndarray) -> Outcome:
        del alive
        shown, rewards, terminated, truncated, _ = self.envs.step(np.stack([self.act(each) for each in actions]))
        return *self._parts(shown), rewards.astype(np.float32), terminated, truncated

    def close(self) -> None:
        self.envs.close()

    def _parts(self, shown: Any) -> tuple[Any, Any]:
        def typed(space: Space, values: Any) -> Any:
            if isinstance(space, Record):
                return {name: typed(part, values[name]) for name, part in space.items()}
            return np.array(values, space.dtype)  # a copy: the processes write into these

        observations, latents = (
            typed(space, shown[name]) for space, name in zip(self.spaces, ("observation", "latent"), strict=True)
        )
        return observations, latents
