"""Several Gymnasium environments stepped together: one after the other, or each in its own process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from asymrl.adapters.gym.gymnasium_spaces import Encoding, to_gymnasium
from asymrl.adapters.user_code import user_path
from asymrl.worlds.spaces import Record, Space

MakeEnv = Callable[[], gymnasium.Env]
StepResult = tuple[Any, Any, np.ndarray, np.ndarray, np.ndarray]


class LatentState(NamedTuple):
    """How to find and encode the latent state of an environment; `missing` says why there is none."""

    find: Callable[[gymnasium.Env, dict[str, Any]], Any]
    encoding: Encoding
    missing: str | None = None


def _zeros(space: Space, count: int) -> Any:
    """Zero arrays for `count` values of a space."""
    if isinstance(space, Record):
        return {name: _zeros(part, count) for name, part in space.items()}
    return np.zeros((count, *space.shape), space.dtype)


def _write(rows: Any, i: int, value: Any) -> None:
    """Writes a value into row `i`."""
    if isinstance(rows, dict):
        for name, part in rows.items():
            _write(part, i, value[name])
    else:
        rows[i] = value


class SerialStepper:
    """Steps environments one after the other, in this process, except those whose episode has ended."""

    def __init__(
        self, make: MakeEnv, count: int, observation: Encoding, latent: LatentState, act: Callable[[Any], Any]
    ):
        """`act` turns an action into one of the environment."""
        self.envs = [make() for _ in range(count)]
        self.observation, self.latent, self.act = observation, latent, act

    def reset(self, seeds: Sequence[int], which: np.ndarray | None = None) -> tuple[Any, Any]:
        observations, latents = self._buffers()
        for i in range(len(self.envs)) if which is None else np.flatnonzero(which).tolist():
            env = self.envs[i]
            observation, info = env.reset(seed=seeds[i])
            _write(observations, i, self.observation.read(observation))
            _write(latents, i, self.latent.encoding.read(self.latent.find(env, info)))
        return observations, latents

    def step(self, actions: np.ndarray, alive: np.ndarray) -> StepResult:
        observations, latents = self._buffers()
        rewards, ends = np.zeros(len(self.envs), np.float32), np.zeros((2, len(self.envs)), bool)
        for i in np.flatnonzero(alive).tolist():
            env = self.envs[i]
            observation, rewards[i], ends[0, i], ends[1, i], info = env.step(self.act(actions[i]))
            _write(observations, i, self.observation.read(observation))
            _write(latents, i, self.latent.encoding.read(self.latent.find(env, info)))
        return observations, latents, rewards, ends[0], ends[1]

    def close(self) -> None:
        for env in self.envs:
            env.close()

    def _buffers(self) -> tuple[Any, Any]:
        return _zeros(self.observation.space, len(self.envs)), _zeros(self.latent.encoding.space, len(self.envs))


class WithLatent(gymnasium.Wrapper):
    """Adds the latent state to the observation, both as arrays that can be sent to another process."""

    def __init__(self, env: gymnasium.Env, observation: Encoding, latent: LatentState):
        super().__init__(env)
        self.observation, self.latent = observation, latent
        self.observation_space = gymnasium.spaces.Dict(
            {"observation": to_gymnasium(observation.space), "latent": to_gymnasium(latent.encoding.space)}
        )

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**options)
        return self._both(observation, info), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._both(observation, info), float(reward), terminated, truncated, {}

    def _both(self, observation: Any, info: dict[str, Any]) -> dict[str, Any]:
        latent = self.latent.encoding.read(self.latent.find(self.env, info))
        return {"observation": self.observation.read(observation), "latent": latent}


class ProcessStepper:
    """Steps environments in their own processes, with Gymnasium's AsyncVectorEnv.

    Environments whose episode has ended start over and are stepped with the others; the results are not used.
    """

    def __init__(
        self, make: MakeEnv, count: int, observation: Encoding, latent: LatentState, act: Callable[[Any], Any]
    ):
        from gymnasium.vector import AsyncVectorEnv

        self.spaces, self.act = (observation.space, latent.encoding.space), act
        # Forking a process that uses JAX may hang, so new processes are started from a fork server.
        with user_path():
            self.envs = AsyncVectorEnv([lambda: WithLatent(make(), observation, latent)] * count, context="forkserver")

    def reset(self, seeds: Sequence[int], which: np.ndarray | None = None) -> tuple[Any, Any]:
        options = None if which is None else {"reset_mask": which}
        result, _ = self.envs.reset(seed=list(seeds), options=options)
        return self._parts(result)

    def step(self, actions: np.ndarray, alive: np.ndarray) -> StepResult:
        del alive
        result, rewards, terminated, truncated, _ = self.envs.step(np.stack([self.act(each) for each in actions]))
        return *self._parts(result), rewards.astype(np.float32), terminated, truncated

    def close(self) -> None:
        self.envs.close()

    def _parts(self, result: Any) -> tuple[Any, Any]:
        def typed(space: Space, values: Any) -> Any:
            if isinstance(space, Record):
                return {name: typed(part, values[name]) for name, part in space.items()}
            return np.array(values, space.dtype)  # a copy, since the processes write into these arrays

        observations, latents = (
            typed(space, result[name]) for space, name in zip(self.spaces, ("observation", "latent"), strict=True)
        )
        return observations, latents
