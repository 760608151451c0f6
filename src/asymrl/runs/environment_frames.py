"""The pictures that an environment draws of itself during an episode.

Episodes are played in environments that draw nothing. For its pictures an episode is played again, from its seed and
with its actions, in an environment with the render mode rgb_array.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import gymnasium
import jax
import numpy as np
from jaxtyping import UInt8

from asymrl.envs.gymnasium_checks import Position, make_environment, mistakes_named, reset_values, step_values
from asymrl.envs.gymnasium_spaces import to_world
from asymrl.envs.user_code import described, own_traceback
from asymrl.learners.episodes import environment_seeds
from asymrl.runs.playback import Playback
from asymrl.worlds.stepped_world import SteppedWorld, UserCodeError

Frame = UInt8[np.ndarray, "H W 3"]
MODE = "rgb_array"


class NoFramesError(ValueError):
    """The environment does not draw itself."""


def played_frames(world: SteppedWorld, playback: Playback, seed: int) -> list[Frame]:
    """The pictures of an episode of an agent that `play_back` played with this seed; see `environment_frames`."""
    own_seed = int(environment_seeds(jax.random.key(seed), 1)[0])
    actions = [playback.taken(t) for t in range(len(playback.actions))]
    return environment_frames(world, own_seed, actions, playback.observations)


def environment_frames(world: SteppedWorld, seed: int, actions: Iterable[Any], observations: Any) -> list[Frame]:
    """The pictures of an episode: at its start, and after each action.

    Args:
        world: made from the environment.
        seed: of the environment's episode.
        actions: of the world.
        observations: from when the episode was played, `[T + 1, ...]`, to compare with; some parts of a dictionary
            suffice.

    Raises:
        NoFramesError: if the environment has no render mode rgb_array.
        UserCodeError: if its code fails, perhaps only when it draws.
        ValueError: if it does not repeat itself.
    """
    env, position = with_frames(world), Position().reset(seed)
    try:
        with mistakes_named(world.name, position, "reset"):
            observation, _ = reset_values(env.reset(seed=seed))
        frames = [_drawn(world, env)]
        for t, action in enumerate(actions):
            _check_same(world, observation, observations, t)
            position = position.stepped()
            with mistakes_named(world.name, position, "step"):
                observation, *_ = step_values(env.step(world.act(action)))
            frames.append(_drawn(world, env))
        return frames
    finally:
        env.close()


def with_frames(world: SteppedWorld) -> Any:
    """One environment with the render mode rgb_array. Raises NoFramesError if it has none."""
    for driver in ("SDL_VIDEODRIVER", "SDL_AUDIODRIVER"):
        os.environ.setdefault(driver, "dummy")  # pixels need no screen and no sound, which pygame would look for
    return _drawing(make_environment(world.name, world.make), world.name)


def frames_per_second(world: SteppedWorld) -> float | None:
    """The frame rate of its pictures, if the environment declares one."""
    env = make_environment(world.name, world.make)
    try:
        rate = env.metadata.get("render_fps")
        return float(rate) / getattr(env, "held_for", 1) if rate else None
    finally:
        env.close()


def _drawing(env: Any, name: str) -> Any:
    """The environment, or another one like it, that draws pixels."""
    if hasattr(env, "held_for"):  # a wrapper of ours, see `worlds.repeated`
        env.env = _drawing(env.env, name)
        return env
    if env.render_mode == MODE:
        return env
    if MODE not in env.metadata.get("render_modes", ()):
        env.close()
        raise NoFramesError(f"{name} has no render mode {MODE}, so it draws no pictures of itself")
    spec = env.spec
    # Gymnasium can make it again unless it is in a wrapper of the user's, whose arguments were not recorded.
    if spec is None or any(wrapper.kwargs is None for wrapper in spec.additional_wrappers):
        env.unwrapped.render_mode = MODE
        return env
    env.close()
    try:
        return gymnasium.make(spec, render_mode=MODE, disable_env_checker=True)
    except Exception as error:
        cause = f"{name} cannot be made with render_mode={MODE!r}: {described(error)}"
        raise UserCodeError(cause, own_traceback(error)) from error


def _drawn(world: SteppedWorld, env: Any) -> Frame:
    try:
        picture = env.render()
    except Exception as error:
        raise UserCodeError(f"{world.name}: render() failed: {described(error)}", own_traceback(error)) from error
    pixels = np.asarray(picture)
    if pixels.ndim != 3 or pixels.shape[2] not in (3, 4):
        what = "nothing" if picture is None else f"an array of shape {pixels.shape}"
        raise ValueError(f"{world.name}: render() gave {what}, expected pixels [height, width, 3]")
    return np.ascontiguousarray(pixels[..., :3].astype(np.uint8))


def _check_same(world: SteppedWorld, observation: Any, observations: Any, t: int) -> None:
    """Raises ValueError if the episode is not the one that was played."""
    now = to_world(world.observation_space, world.read(observation))
    then = jax.tree.map(lambda leaf: leaf[t], observations)
    if isinstance(then, dict):
        now = {name: now[name] for name in then}
    if not all(np.allclose(a, b, atol=1e-5) for a, b in zip(jax.tree.leaves(now), jax.tree.leaves(then), strict=True)):
        raise ValueError(
            f"{world.name} does not repeat an episode from its seed: step {t} looks different the second time, so its "
            "pictures cannot be drawn; draw all chance from the np_random that reset(seed=...) sets"
        )
