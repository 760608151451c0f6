"""One world, one episode at a time, as a Gymnasium environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from jaxtyping import Array, UInt8, UInt32

from asymrl.adapters.gym.arguments import (
    check_action,
    check_latent,
    check_reset_options,
    key_words,
    reset_needed,
    resolve_world,
)
from asymrl.adapters.gym.programs import Programs, result_layout
from asymrl.adapters.gym.rendering import RENDER_MODES, check_render_mode, draw, warn_of_no_render_mode
from asymrl.adapters.gym.spaces import to_gymnasium, to_world
from asymrl.worlds.spaces import Space
from asymrl.worlds.world import Episode, World

TERMINATED = "terminated"


class Environment(gymnasium.Env[Any, Any]):
    """A world as a Gymnasium environment. NumPy in, NumPy out; a step is one compiled call.

    `info["state"]` is the latent state, which `state_space` contains. `reset(options={"state": latent})` starts
    from a latent state; what the agent then sees is the world's first observation there.

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
        self.world = resolve_world(world, options)
        self.render_mode = check_render_mode(render_mode)
        self.action_space = to_gymnasium(self.world.action_space)
        self.observation_space = to_gymnasium(self.world.observation_space)
        self.state_space = to_gymnasium(self.world.latent_space)
        self._programs = Programs(self.world)
        self._layout = result_layout(self.world)
        self._actions: Space = self.world.action_space  # a property that takes its time
        self._key: UInt32[Array, "2"] | None = None  # None: not yet reset
        self._episode: Episode | None = None
        self._result: UInt8[Array, "bytes"] | None = None
        self._action: Any = None  # the last one of this episode
        self._end: str | None = None  # how the episode ended

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode, from `options["state"]` if that is given."""
        options_given = check_reset_options(options, known=["state"])
        if "state" in options_given:
            check_latent(self.world, options_given["state"])
        super().reset(seed=seed)
        words = key_words(seed, self.np_random)
        if "state" in options_given:
            latent = to_world(self.world.latent_space, options_given["state"])
            begun = self._programs.begin_at(words, latent)
        else:
            begun = self._programs.begin(words)
        self._key, self._episode, self._result = begun
        self._action = self._end = None
        result = self._layout.unpack(self._result)
        return result["observation"], {"state": result["latent"]}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Takes an action; see `gymnasium.Env.step`."""
        if self._key is None or self._episode is None:
            raise reset_needed(self.world, "step()")
        if self._end is not None:
            raise ResetNeeded(f"{self.world.name}: the episode was {self._end}; call reset() to start the next one")
        taken = check_action(self.world, self._actions, action)
        self._episode, self._result = self._programs.step(self._key, self._episode, taken)
        self._action = taken if isinstance(taken, np.ndarray) else int(taken)
        result = self._layout.unpack(self._result)
        reward, terminated, truncated = result["outcome"].tolist()
        if terminated or truncated:
            self._end = TERMINATED if terminated else "truncated by its time limit"
        return result["observation"], reward, bool(terminated), bool(truncated), {"state": result["latent"]}

    def render(self) -> Any:
        """The true state beside what the agent sees: text in the mode `ansi`, an image in the mode `rgb_array`."""
        if self.render_mode is None:
            warn_of_no_render_mode()
            return None
        if self._episode is None or self._result is None:
            raise reset_needed(self.world, "render()")
        observation = self._layout.unpack(self._result)["observation"]
        terminated = self._end == TERMINATED
        return draw(self.render_mode, self.world, self._episode.state, observation, self._action, terminated)
