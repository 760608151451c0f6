"""One world, one episode at a time, as a Gymnasium environment."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.error import ResetNeeded
from jaxtyping import Array, UInt8, UInt32

from asymrl.envs.arguments import (
    check_action,
    check_latent,
    check_reset_options,
    key_words,
    reset_needed,
    resolve_world,
)
from asymrl.envs.compiled_functions import CompiledFunctions, result_layout
from asymrl.envs.gymnasium_spaces import to_gymnasium, to_world
from asymrl.worlds.spaces import Discrete, Space
from asymrl.worlds.world import Episode, World

RENDER_MODES = ("ansi", "rgb_array")
TERMINATED = "terminated"


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
        self.world = resolve_world(world, options)
        self.render_mode = check_render_mode(render_mode)
        self.action_space = to_gymnasium(self.world.action_space)
        self.observation_space = to_gymnasium(self.world.observation_space)
        self.state_space = to_gymnasium(self.world.latent_space)
        self._compiled = CompiledFunctions(self.world)
        self._layout = result_layout(self.world)
        self._actions: Space = self.world.action_space  # kept, since the property is slow
        self._key: UInt32[Array, "2"] | None = None  # None: not yet reset
        self._episode: Episode | None = None
        self._result: UInt8[Array, "bytes"] | None = None
        self._action: Any = None  # the last action of this episode
        self._end: str | None = None  # how the episode ended

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode, from the latent state `options["state"]` if given."""
        reset_options = check_reset_options(options, known=["state"])
        if "state" in reset_options:
            check_latent(self.world, reset_options["state"])
        super().reset(seed=seed)
        words = key_words(seed, self.np_random)
        if "state" in reset_options:
            latent = to_world(self.world.latent_space, reset_options["state"])
            begun = self._compiled.begin_at(words, latent)
        else:
            begun = self._compiled.begin(words)
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
        self._episode, self._result = self._compiled.step(self._key, self._episode, taken)
        self._action = int(taken) if isinstance(self._actions, Discrete) else taken
        result = self._layout.unpack(self._result)
        reward, terminated, truncated = result["outcome"].tolist()
        if terminated or truncated:
            self._end = TERMINATED if terminated else "truncated by its time limit"
        return result["observation"], reward, bool(terminated), bool(truncated), {"state": result["latent"]}

    def render(self) -> Any:
        """The true state beside the agent's observation: text in mode `ansi`, an image in mode `rgb_array`."""
        if self.render_mode is None:
            warn_of_no_render_mode()
            return None
        if self._episode is None or self._result is None:
            raise reset_needed(self.world, "render()")
        observation = self._layout.unpack(self._result)["observation"]
        terminated = self._end == TERMINATED
        return draw(self.render_mode, self.world, self._episode.state, observation, self._action, terminated)


def check_render_mode(render_mode: str | None) -> str | None:
    if render_mode is not None and render_mode not in RENDER_MODES:
        raise ValueError(f"render_mode {render_mode!r} is unknown; choose {', '.join(RENDER_MODES)} or None")
    return render_mode


def warn_of_no_render_mode() -> None:
    gymnasium.logger.warn("render() needs a render mode; make the environment with render_mode='ansi' or 'rgb_array'")


def draw(render_mode: str, world: World, state: Any, observation: Any, action: Any, terminated: bool = False) -> Any:
    """One moment of an episode: a string in mode `ansi`, an image `[H, W, 3]` of bytes in mode `rgb_array`."""
    # Importing matplotlib takes long, and most environments are never rendered.
    from asymrl.draw import draw_frame, draw_text

    render = draw_text if render_mode == "ansi" else draw_frame
    return render(world, state, observation, action, terminated=terminated)
