"""Our worlds as Gymnasium environments: one episode at a time, or many in one compiled call."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from jaxtyping import Array, Bool, Int32, UInt32

from asymrl.envs.compiled_functions import blend, compiled_functions
from asymrl.envs.gymnasium_spaces import entry, to_gymnasium, to_world, values_to_gymnasium
from asymrl.worlds.registry import make
from asymrl.worlds.spaces import Discrete, Record, Space
from asymrl.worlds.world import Episode, Latent, World

Mask = Bool[np.ndarray, "num_envs"]

RENDER_MODES = ("ansi", "rgb_array")
TERMINATED = "terminated"
NO_LIMIT = -1  # "no time limit", as in `gymnasium.make`


class Environment(gymnasium.Env[Any, Any]):
    """A world as a Gymnasium environment. NumPy in, NumPy out; a step is one compiled call.

    `info["state"]` is the latent state, which `state_space` contains. `reset(options={"state": latent})` starts
    from a latent state, with the world's first observation in that state.

    The time limit is the world's own. `gymnasium.make` builds the world without one and applies its
    `max_episode_steps` instead.
    """

    metadata = {"render_modes": list(RENDER_MODES), "render_fps": 4}

    def __init__(self, world: str | World, *, render_mode: str | None = None, **options: Any):
        """Wraps a world.

        Args:
            world: a name, such as `heaven-hell-3`, or an object.
            render_mode: `ansi`, `rgb_array` or None.
            **options: of the world with this name, such as `time_limit=50`.
        """
        self.world = _resolved(world, options)
        self.render_mode = _checked_render_mode(render_mode)
        self.action_space = to_gymnasium(self.world.action_space)
        self.observation_space = to_gymnasium(self.world.observation_space)
        self.state_space = to_gymnasium(self.world.latent_space)
        self._compiled = compiled_functions(self.world)
        self._spaces: tuple[Space, Space, Space] = (  # kept, since the properties are slow
            self.world.action_space, self.world.observation_space, self.world.latent_space
        )  # fmt: skip
        self._key: UInt32[Array, "2"] | None = None  # None: not yet reset
        self._episode: Episode | None = None
        self._observation: Any = None  # on the device
        self._action: Any = None  # the last action of this episode
        self._end: str | None = None  # how the episode ended

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode, from the latent state `options["state"]` if given."""
        latent = _checked_options(options, ["state"]).get("state")
        if latent is not None:
            _check_latent(self.world, latent)
            latent = to_world(self._spaces[2], latent)
        super().reset(seed=seed)
        begun = self._compiled.begin(_key_words(seed, self.np_random), latent)
        self._key, self._episode, self._observation = begun.keys, begun.episodes, begun.observation
        self._action = self._end = None
        return self._result(begun.latent)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Takes an action; see `gymnasium.Env.step`."""
        if self._key is None or self._episode is None:
            raise _reset_needed(self.world, "step()")
        if self._end is not None:
            raise ResetNeeded(f"{self.world.name}: the episode was {self._end}; call reset() to start the next one")
        taken = _checked_action(self.world, self._spaces[0], action)
        stepped = self._compiled.step(self._key, self._episode, taken)
        self._episode, self._observation, latent, outcome = stepped
        self._action = int(taken) if isinstance(self._spaces[0], Discrete) else taken
        reward, terminated, truncated = np.asarray(outcome).tolist()
        if terminated or truncated:
            self._end = TERMINATED if terminated else "truncated by its time limit"
        observation, info = self._result(latent)
        return observation, reward, bool(terminated), bool(truncated), info

    def _result(self, latent: Latent) -> tuple[Any, dict[str, Any]]:
        _, observations, latents = self._spaces
        return values_to_gymnasium(observations, self._observation), {"state": values_to_gymnasium(latents, latent)}

    def render(self) -> Any:
        """The true state beside the agent's observation: text in mode `ansi`, an image in mode `rgb_array`."""
        if self.render_mode is None:
            _warn_of_no_render_mode()
            return None
        if self._episode is None:
            raise _reset_needed(self.world, "render()")
        observation = values_to_gymnasium(self._spaces[1], self._observation)
        terminated = self._end == TERMINATED
        return _draw(self.render_mode, self.world, self._episode.state, observation, self._action, terminated)


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
        self.world = _limited(_resolved(world, options), max_episode_steps, options)
        self.num_envs = num_envs
        self.render_mode = _checked_render_mode(render_mode)
        self.single_action_space = to_gymnasium(self.world.action_space)
        self.single_observation_space = to_gymnasium(self.world.observation_space)
        self.single_state_space = to_gymnasium(self.world.latent_space)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.state_space = batch_space(self.single_state_space, num_envs)
        self._compiled = compiled_functions(self.world)
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
        reset_options = _checked_options(options, ["state", "reset_mask"])
        mask = self._reset_mask(reset_options)
        latents = self._latents(reset_options["state"], mask) if "state" in reset_options else None
        begun = self._compiled.begin_many(self._key_words(seed), latents)
        state = values_to_gymnasium(self.world.latent_space, begun.latent)
        now = (begun.keys, begun.episodes, begun.observation)
        if not mask.all():
            now = blend(mask, now, (self._keys, self._episodes, self._observation))
        self._keys, self._episodes, self._observation = now
        self._clock = np.where(mask, 0, self._clock).astype(np.int32)
        self._actions = [None if reset else action for reset, action in zip(mask, self._actions, strict=True)]
        return values_to_gymnasium(self.world.observation_space, self._observation), _state_info(state, mask)

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Takes an action in each environment; see `gymnasium.vector.VectorEnv.step`."""
        self._check_open()
        if self._keys is None or self._episodes is None:
            raise _reset_needed(self.world, "step()")
        taken = _checked_actions(self.world, actions, self.num_envs)
        stepped = self._compiled.step_many(self._keys, self._clock, self._episodes, taken)
        self._episodes, self._observation = stepped.episodes, stepped.observation
        self._clock = self._clock + np.int32(1)
        reward, terminated, truncated = np.asarray(stepped.outcome).T
        terminated, truncated = terminated > 0, truncated > 0
        ended = terminated | truncated
        if self.render_mode is not None:
            self._actions = [None if end else _one(entry(taken, i)) for i, end in enumerate(ended)]
        observations, latents = self.world.observation_space, self.world.latent_space
        info: dict[str, Any] = {}
        if ended.any():
            last = values_to_gymnasium(observations, stepped.final_observation)
            final = np.full(self.num_envs, None, dtype=object)
            for i in np.flatnonzero(ended).tolist():
                final[i] = entry(last, i)
            last_state = values_to_gymnasium(latents, self._compiled.latent_many(stepped.final_state))
            info |= {"final_obs": final, "_final_obs": ended.copy()}
            info |= {"final_info": _state_info(last_state, ended), "_final_info": ended.copy()}
        info |= _state_info(values_to_gymnasium(latents, stepped.latent), np.ones(self.num_envs, bool))
        observation = values_to_gymnasium(observations, stepped.observation)
        return observation, reward.astype(np.float64), terminated, truncated, info

    def render(self) -> tuple[Any, ...] | None:
        """One image (or text, in mode `ansi`) for each environment."""
        if self.render_mode is None:
            _warn_of_no_render_mode()
            return None
        if self._episodes is None:
            raise _reset_needed(self.world, "render()")
        states = jax.device_get(self._episodes.state)
        observations = values_to_gymnasium(self.world.observation_space, self._observation)
        frames = []
        for i, action in enumerate(self._actions):
            state = jax.tree.map(lambda leaf, i=i: leaf[i], states)
            frames.append(_draw(self.render_mode, self.world, state, entry(observations, i), action))
        return tuple(frames)

    def close_extras(self, **kwargs: Any) -> None:
        """Releases the episodes."""
        self._keys = self._episodes = self._observation = None

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError(f"{self.world.name}: the environment is closed; make a new one")

    def _reset_mask(self, options: Mapping[str, Any]) -> Mask:
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

    def _latents(self, states: Any, mask: Mask) -> Any:
        """The latent states to start from; only those in the mask are checked."""
        space, where = self.world.latent_space, "options['state']"
        states = without_masks(states)
        if isinstance(space, Record) and (not isinstance(states, Mapping) or set(states) != set(dict(space.items()))):
            _check_latent(self.world, states, where)
        _check_count(self.world, where, states, self.num_envs)
        for i in np.flatnonzero(mask).tolist():
            _check_latent(self.world, entry(states, i), f"{where} of environment {i}")
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
        return np.stack([_key_words(s, self.np_random) for s in seeds])


def _one(action: Any) -> Any:
    return int(action) if isinstance(action, np.integer) else action


def without_masks(states: Any) -> Any:
    """`info["state"]` of a vector environment, without the masks among the parts of a dictionary."""
    if isinstance(states, dict):
        return {key: value for key, value in states.items() if not key.startswith("_")}
    return states


def _state_info(states: Any, mask: Mask) -> dict[str, Any]:
    """`info["state"]` and its mask, in the form of Gymnasium's vector environments: an array `key` has a mask `_key`.

    The states of environments outside the mask are set to zero, in place.
    """

    def masked(values: Any) -> Any:
        if isinstance(values, dict):
            pairs = [{key: masked(value), f"_{key}": mask.copy()} for key, value in values.items()]
            return functools.reduce(operator.or_, pairs, {})
        values[~mask] = 0
        return values

    return {"state": masked(states), "_state": mask.copy()}


def _key_words(seed: int | None, generator: np.random.Generator) -> UInt32[np.ndarray, "2"]:
    """The two words of `jax.random.key(seed)`; without a seed, words drawn from the generator."""
    if seed is None:
        return generator.integers(1 << 32, size=2, dtype=np.uint32)
    if seed >= 1 << 64:
        # Gymnasium accepts seeds of any length; JAX takes 64 bits.
        return np.random.SeedSequence(seed).generate_state(2)
    return np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)


def _resolved(world: str | World, options: Mapping[str, Any]) -> World:
    """The world given by a name and options, or by an object and possibly another `time_limit`."""
    if isinstance(world, str):
        return make(world, **options)
    if not isinstance(world, World):
        raise TypeError(f"{world!r} is not a world; pass a name such as 'heaven-hell-3' or a World")
    if unknown := sorted(set(options) - {"time_limit"}):
        raise ValueError(
            f"{world.name}: the options {', '.join(unknown)} cannot be applied to a world that is already built; "
            "build it with them, or pass its name"
        )
    return world.with_time_limit(options["time_limit"]) if options else world


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


def _checked_options(options: Mapping[str, Any] | None, known: Sequence[str]) -> Mapping[str, Any]:
    for option in options or {}:
        if option not in known:
            raise ValueError(f"reset has no option {option!r}; its options are {', '.join(known)}")
    return options or {}


def _check_latent(world: World, latent: Any, where: str = "options['state']") -> None:
    if problem := world.latent_problem(latent):
        with np.printoptions(threshold=32, edgeitems=2, precision=4):
            shown = " ".join(str(latent).split())
        raise ValueError(
            f"{world.name}: {where} {problem}; it was {shown}. "
            "Pass a latent state of the state_space, in the form of info['state']"
        )


def _check_count(world: World, what: str, values: Any, num_envs: int) -> None:
    """Raises ValueError unless the values, or the parts of a dictionary, are as many as the environments."""
    for part in values.values() if isinstance(values, Mapping) else [values]:
        if np.shape(part)[:1] != (num_envs,):
            raise ValueError(
                f"{world.name}: {what} must hold {num_envs} values, stacked along a first axis, but has the shape "
                f"{np.shape(part)}; use np.stack"
            )


def _checked_action(world: World, space: Space, action: Any, where: str = "") -> Any:
    """The action as a value of the world's action space: an index, a vector, or a dictionary of both."""
    if not isinstance(space, Discrete):
        if problem := space.problem(action):
            raise ValueError(f"{world.name}: the action{where} {problem}")
        return to_world(space, action)
    try:
        index = operator.index(action)
    except TypeError:
        index = -1
    if not 0 <= index < space.n:
        names = ", ".join(f"{i} {name}" for i, name in enumerate(world.action_names))
        raise ValueError(
            f"{world.name}: action {action!r}{where} is not in the action space; actions are integers in "
            f"0..{space.n - 1}: {names}"
        )
    return np.int32(index)


def _checked_actions(world: World, actions: Any, num_envs: int) -> Any:
    """Actions of all environments, `[num_envs, ...]`, as values of the world's action space."""
    space = world.action_space
    _check_count(world, "actions", actions, num_envs)
    if isinstance(space, Discrete):
        array = np.asarray(actions)
        is_right = array.shape == (num_envs,) and np.issubdtype(array.dtype, np.integer)
        if is_right and array.min() >= 0 and array.max() < space.n:
            return array.astype(np.int32)
    for i in range(num_envs):
        _checked_action(world, space, entry(actions, i), f" of environment {i}")
    return to_world(space, actions)


def _checked_render_mode(render_mode: str | None) -> str | None:
    if render_mode is not None and render_mode not in RENDER_MODES:
        raise ValueError(f"render_mode {render_mode!r} is unknown; choose {', '.join(RENDER_MODES)} or None")
    return render_mode


def _warn_of_no_render_mode() -> None:
    gymnasium.logger.warn("render() needs a render mode; make the environment with render_mode='ansi' or 'rgb_array'")


def _draw(render_mode: str, world: World, state: Any, observation: Any, action: Any, terminated: bool = False) -> Any:
    """One moment of an episode: a string in mode `ansi`, an image `[H, W, 3]` of bytes in mode `rgb_array`."""
    # Importing matplotlib takes long, and most environments are never rendered.
    from asymrl.draw import draw_frame, draw_text

    render = draw_text if render_mode == "ansi" else draw_frame
    return render(world, state, observation, action, terminated=terminated)


def _reset_needed(world: World, call: str) -> ResetNeeded:
    return ResetNeeded(f"{world.name}: {call} was called before the first reset(); call reset() first")
