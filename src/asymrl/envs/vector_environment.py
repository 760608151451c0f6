"""Many episodes of one world in one compiled call, as a Gymnasium vector environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from jaxtyping import Array, Bool, Int32, UInt32

from asymrl.envs.arguments import (
    check_actions,
    check_latent,
    check_reset_options,
    key_words,
    reset_needed,
    resolve_world,
)
from asymrl.envs.compiled_functions import CompiledFunctions, blend
from asymrl.envs.environment import RENDER_MODES, check_render_mode, draw, warn_of_no_render_mode
from asymrl.envs.gymnasium_spaces import batch_to_gymnasium, entry, to_gymnasium, to_world
from asymrl.worlds.spaces import Record
from asymrl.worlds.world import Episode, World

Mask = Bool[np.ndarray, "num_envs"]
NO_LIMIT = -1  # "no time limit", as in `gymnasium.make`


class VectorEnvironment(VectorEnv[Any, Any, np.ndarray]):
    """Many episodes of a world at once.

    When an episode ends, the next one starts in the same step (`AutoresetMode.SAME_STEP`): the observation and
    `info["state"]` belong to the new episode, the last ones of the old episode are in `info["final_obs"]` and
    `info["final_info"]["state"]`. Environment `i` reset with a seed goes through the same first episode as an
    `Environment` with that seed.
    """

    metadata = {
        "render_modes": list(RENDER_MODES),
        "render_fps": 4,
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }

    def __init__(
        self,
        world: str | World,
        num_envs: int = 1,
        *,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
        **options: Any,
    ):
        """Wraps a world.

        Args:
            world: a name, such as `heaven-hell-3`, or an object.
            num_envs: how many episodes run at once.
            max_episode_steps: replaces the world's time limit; -1 for no limit.
            render_mode: `ansi`, `rgb_array` or None.
            **options: of the world with this name.
        """
        if num_envs < 1:
            raise ValueError(f"num_envs is {num_envs}; at least one environment is needed")
        self.world = _limited(resolve_world(world, options), max_episode_steps, options)
        self.num_envs = num_envs
        self.render_mode = check_render_mode(render_mode)
        self.single_action_space = to_gymnasium(self.world.action_space)
        self.single_observation_space = to_gymnasium(self.world.observation_space)
        self.single_state_space = to_gymnasium(self.world.latent_space)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.state_space = batch_space(self.single_state_space, num_envs)
        self._compiled = CompiledFunctions(self.world)
        self._keys: UInt32[Array, "num_envs 2"] | None = None  # None: not yet reset
        self._clock: Int32[np.ndarray, "num_envs"] = np.zeros(num_envs, np.int32)
        self._episodes: Episode | None = None
        self._observation: Any = None  # on the device
        self._actions: list[Any] = [None] * num_envs  # the last one of each episode

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | np.ndarray | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Starts all episodes.

        Args:
            seed: a number, where environment `i` uses `seed + i`, or a list with a number or None for each.
            options: `state`, latent states `[num_envs, ...]` to start from; `reset_mask`, booleans `[num_envs]`:
                only these environments are reset, and only their states are used.
        """
        self._check_open()
        reset_options = check_reset_options(options, known=["state", "reset_mask"])
        mask = self._reset_mask(reset_options)
        latents = self._latents(reset_options["state"], mask) if "state" in reset_options else None
        words = self._key_words(seed)

        begun = self._compiled.begin_many(words) if latents is None else self._compiled.begin_many_at(words, latents)
        state = batch_to_gymnasium(self.world.latent_space, begun.latent)
        now = (begun.keys, begun.episodes, begun.observation)
        if not mask.all():
            now = blend(mask, now, (self._keys, self._episodes, self._observation))
        self._keys, self._episodes, self._observation = now
        self._clock = np.where(mask, 0, self._clock).astype(np.int32)
        self._actions = [None if reset else action for reset, action in zip(mask, self._actions, strict=True)]
        return batch_to_gymnasium(self.world.observation_space, self._observation), state_info(state, mask)

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Takes an action in each environment; see `gymnasium.vector.VectorEnv.step`."""
        self._check_open()
        if self._keys is None or self._episodes is None:
            raise reset_needed(self.world, "step()")
        taken = check_actions(self.world, actions, self.num_envs)
        stepped = self._compiled.step_many(self._keys, self._clock, self._episodes, taken)
        self._episodes, self._observation = stepped.episodes, stepped.observation
        self._clock = self._clock + np.int32(1)

        terminated, truncated = np.array(stepped.terminated), np.array(stepped.truncated)
        ended = terminated | truncated
        if self.render_mode is not None:
            self._actions = [None if end else _one(a) for end, a in zip(ended, taken, strict=True)]
        info: dict[str, Any] = {}
        observation_space, latent_space = self.world.observation_space, self.world.latent_space
        if ended.any():
            last_observation = batch_to_gymnasium(observation_space, stepped.final_observation)
            last_state = batch_to_gymnasium(latent_space, self._compiled.latent_many(stepped.final_state))
            info |= final_info(last_observation, last_state, ended)
        state = batch_to_gymnasium(latent_space, stepped.latent)
        info |= state_info(state, np.ones(self.num_envs, bool))
        observation = batch_to_gymnasium(observation_space, stepped.observation)
        return observation, np.array(stepped.reward, np.float64), terminated, truncated, info

    def render(self) -> tuple[Any, ...] | None:
        """One image (or text, in mode `ansi`) for each environment."""
        if self.render_mode is None:
            warn_of_no_render_mode()
            return None
        if self._episodes is None:
            raise reset_needed(self.world, "render()")
        states = jax.device_get(self._episodes.state)
        observations = batch_to_gymnasium(self.world.observation_space, self._observation)
        frames = []
        for i, action in enumerate(self._actions):
            state = jax.tree.map(lambda leaf, i=i: leaf[i], states)
            frames.append(draw(self.render_mode, self.world, state, entry(observations, i), action))
        return tuple(frames)

    def close_extras(self, **kwargs: Any) -> None:
        """Releases the episodes."""
        self._keys = self._episodes = self._observation = None

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError(f"{self.world.name}: the environment is closed; make a new one")

    def _reset_mask(self, options: Mapping[str, Any]) -> Bool[np.ndarray, "num_envs"]:
        if "reset_mask" not in options:
            return np.ones(self.num_envs, bool)
        mask = np.asarray(options["reset_mask"])
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_ or not mask.any():
            raise ValueError(
                f"options['reset_mask'] must be {self.num_envs} booleans, at least one of them true; it was {mask!r}"
            )
        if self._keys is None and not mask.all():
            raise ResetNeeded("options['reset_mask'] leaves out environments that were never reset; reset all first")
        return mask

    def _latents(self, states: Any, mask: Bool[np.ndarray, "num_envs"]) -> Any:
        """The latent states to start from; only those in the mask are checked."""
        space, where = self.world.latent_space, "options['state']"
        states = without_masks(states)
        parts = [states]
        if isinstance(space, Record):
            if not isinstance(states, Mapping) or set(states) != {name for name, _ in space.items()}:
                check_latent(self.world, states, where)
            parts = list(states.values())
        for part in parts:
            if np.shape(part)[:1] != (self.num_envs,):
                raise ValueError(
                    f"{self.world.name}: {where} must hold {self.num_envs} latent states, stacked along a first axis, "
                    f"but has the shape {np.shape(part)}; use np.stack"
                )
        for i in np.flatnonzero(mask).tolist():
            check_latent(self.world, entry(states, i), f"{where} of environment {i}")
        return to_world(space, states)

    def _key_words(self, seed: int | Sequence[int | None] | np.ndarray | None) -> UInt32[np.ndarray, "num_envs 2"]:
        if seed is None:
            seeds: Sequence[int | None] = [None] * self.num_envs
        elif isinstance(seed, int | np.integer):
            super().reset(seed=int(seed))
            seeds = [int(seed) + i for i in range(self.num_envs)]
        else:
            seeds = [None if s is None else int(s) for s in seed]
            if len(seeds) != self.num_envs or any(s is not None and s < 0 for s in seeds):
                raise ValueError(f"seed must be one non-negative integer, or {self.num_envs} of them; it was {seed}")
            if None not in seeds:
                self.np_random = np.random.default_rng([s for s in seeds if s is not None])
        return np.stack([key_words(s, self.np_random) for s in seeds])


def _one(action: Any) -> Any:
    return action if np.ndim(action) else int(action)


def _limited(world: World, max_episode_steps: int | None, options: Mapping[str, Any]) -> World:
    if max_episode_steps is None:
        return world
    if options.get("time_limit") is not None:
        raise ValueError(
            f"{world.name}: time_limit={options['time_limit']} and max_episode_steps={max_episode_steps} are two time "
            "limits; pass max_episode_steps only"
        )
    if not isinstance(max_episode_steps, int) or (max_episode_steps != NO_LIMIT and max_episode_steps < 1):
        raise ValueError(
            f"{world.name}: max_episode_steps is {max_episode_steps!r}; pass at least 1, or -1 for no time limit"
        )
    return world.with_time_limit(None if max_episode_steps == NO_LIMIT else max_episode_steps)


def state_info(states: Any, mask: Mask) -> dict[str, Any]:
    """`info["state"]` and its mask, in the form of Gymnasium's vector environments: an array `key` has a mask `_key`.

    The states of environments outside the mask are set to zero, in place.
    """
    return {"state": _masked(states, mask), "_state": mask.copy()}


def final_info(observations: Any, states: Any, ended: Mask) -> dict[str, Any]:
    """The last observations and states of the episodes that have ended."""
    final_observations = np.full(len(ended), None, dtype=object)
    for i in np.flatnonzero(ended).tolist():
        final_observations[i] = entry(observations, i)
    return {
        "final_obs": final_observations,
        "_final_obs": ended.copy(),
        "final_info": state_info(states, ended),
        "_final_info": ended.copy(),
    }


def without_masks(states: Any) -> Any:
    """`info["state"]` of a vector environment, without the masks among the parts of a dictionary."""
    if isinstance(states, dict):
        return {key: value for key, value in states.items() if not key.startswith("_")}
    return states


def _masked(values: Any, mask: Mask) -> Any:
    if isinstance(values, dict):
        parts: dict[str, Any] = {}
        for key, value in values.items():
            parts[key], parts[f"_{key}"] = _masked(value, mask), mask.copy()
        return parts
    values[~mask] = 0
    return values
