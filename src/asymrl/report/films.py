"""Films of episodes: recorded scene by scene, written as a film, a picture or text."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from asymrl.runs.environment_frames import NoFramesError, environment_frames, frames_per_second, played_frames
from asymrl.runs.playback import Playback, play_back
from asymrl.runs.trained import TrainedRun

if TYPE_CHECKING:
    from pathlib import Path

    from asymrl.worlds import World
    from asymrl.worlds.stepped_world import SteppedWorld

USUAL_SECONDS, SHORTEST = 0.4, 0.02  # that a film shows each step


class Scene(NamedTuple):
    """An episode after `step` actions, with the result of the last one."""

    state: Any
    observation: Any
    action: Any  # an index or a vector, or None at the start
    step: int
    reward: float | None
    total: float
    terminated: bool
    truncated: bool

    def frame(self, env: World, **options: Any) -> Any:
        """This scene as pixels; `options` are those of `draw_frame`."""
        from asymrl.draw import draw_frame

        return draw_frame(env, **self._asdict(), **options)

    def text(self, env: World) -> str:
        """This scene as lines of text."""
        from asymrl.draw import draw_text

        ending = " (the end)" if self.terminated else " (time limit)" if self.truncated else ""
        reward = "" if self.reward is None else f"  reward {self.reward:g}"
        caption = f"step {self.step}{reward}  return {round(self.total, 6):g}{ending}"
        text = draw_text(env, self.state, self.observation, self.action, terminated=self.terminated)
        return f"{text}\n{caption}"


def record(env: World, actions: Iterable[Any], seed: int) -> Iterator[Scene]:
    """Plays an episode from its start until it ends, or until there are no more actions."""
    from asymrl.worlds.stepped_world import SteppedWorld

    return _record_stepped(env, actions, seed) if isinstance(env, SteppedWorld) else _record(env, actions, seed)


def _record_stepped(env: SteppedWorld, actions: Iterable[Any], seed: int) -> Iterator[Scene]:
    import jax
    import numpy as np

    alive, total = np.ones(1, bool), 0.0
    stepper = env.open(1)
    try:
        observation, state = jax.tree.map(lambda leaf: leaf[0], stepper.reset([seed]))
        yield Scene(state, observation, None, 0, None, total, False, False)
        for step, action in enumerate(actions, 1):
            after = stepper.step(jax.tree.map(lambda leaf: np.asarray(leaf)[None], action), alive)
            observation, state, reward, terminated, truncated = jax.tree.map(lambda leaf: leaf[0], after)
            truncated = not terminated and (truncated or step == env.time_limit)
            total += float(reward)
            yield Scene(state, observation, action, step, float(reward), total, bool(terminated), bool(truncated))
            if terminated or truncated:
                return
    finally:
        stepper.close()


def _record(env: World, actions: Iterable[Any], seed: int) -> Iterator[Scene]:
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    begin, advance = eqx.filter_jit(env.begin), eqx.filter_jit(env.advance)
    begin_key, key = jax.random.split(jax.random.key(seed))
    episode, observation = begin(begin_key)
    state, observation = jax.device_get((episode.state, observation))
    total = 0.0
    yield Scene(state, observation, None, 0, None, total, False, False)
    for step, action in enumerate(actions, 1):
        episode, transition = advance(jax.random.fold_in(key, step), episode, jax.tree.map(jnp.asarray, action))
        state, (observation, reward, terminated, truncated) = jax.device_get((episode.state, transition))
        total += float(reward)
        yield Scene(state, observation, action, step, float(reward), total, bool(terminated), bool(truncated))
        if terminated or truncated:
            return


def scenes_of(playback: Playback) -> list[Scene]:
    """The scenes of an episode that has been played."""
    steps = len(playback.actions)
    scenes = [Scene(*playback.at(0), None, 0, None, 0.0, False, False)]
    for t, reward in enumerate(playback.rewards, 1):
        over, total = t == steps, scenes[-1].total + float(reward)
        ends = (over and not playback.truncated, over and playback.truncated)
        scenes.append(Scene(*playback.at(t), playback.taken(t - 1), t, float(reward), total, *ends))
    return scenes


def random_actions(env: World, seed: int) -> Iterator[Any]:
    """Actions of the uniform policy, without end."""
    import numpy as np

    from asymrl.worlds.checking.sampling import random_action

    generator = np.random.default_rng(seed)
    while True:
        yield random_action(env.action_space, generator)


def parse_actions(env: World, text: str) -> list[int]:
    """The actions of a comma-separated list of their names or indices."""
    if not hasattr(env.action_space, "n"):
        raise ValueError(f"policy {text!r}: the actions of {env.name} are vectors; only 'random' can be shown")
    return [_parse_action(env, word.strip()) for word in text.split(",")]


def _parse_action(env: World, word: str) -> int:
    names = env.action_names
    for spelling, spellings in ((word, names), (word.lower(), [name.lower() for name in names])):
        if spelling in spellings:
            return list(spellings).index(spelling)
    if word.isdecimal() and int(word) < len(names):
        return int(word)
    raise ValueError(
        f"unknown policy or action {word!r}. A policy is 'random' or a comma-separated list of actions of {env.name}: "
        f"{', '.join(names)}, or indices 0 to {len(names) - 1}."
    )


Picture = Callable[..., None]
"""A user's picture: `draw(ax, state, observation)` draws a moment into matplotlib axes."""


class Film:
    """The scenes of an episode and, for a trained run, the policy and values of its agent."""

    def __init__(
        self,
        env: World,
        title: str,
        scenes: Iterable[Scene],
        playback: Playback | None = None,
        *,
        seed: int = 0,
        picture: Picture | None = None,
    ):
        """`seed`: of the episode. `picture`: draws the state, instead of the usual drawing of `env`."""
        self.env, self.title, self.scenes, self.playback = env, title, scenes, playback
        self.seed, self.picture = seed, picture

    def lines(self) -> Iterator[str]:
        """The text of each scene."""
        for i, scene in enumerate(self.scenes):
            yield ("\n" if i else "") + "\n".join([scene.text(self.env), *self._thoughts(scene.step)])

    def save(self, path: Path, seconds: float | None = None, dpi: int = 100) -> Scene:
        """Writes a .gif or .mp4 film of all scenes, or a .png picture of the last. Returns the last scene.

        `seconds`: how long a film shows each step; by default 0.4, or what an environment that draws itself says.

        Raises:
            OSError: if the file cannot be written.
            ValueError: if the environment cannot draw itself, although it says so.
            ImportError: if a package for .mp4 files is missing.
        """
        scenes = list(self.scenes)
        pictures = self._pictures(scenes)
        frames = (self._frame(scene, dpi, pictures) for scene in scenes)
        if path.suffix.lower() in (".gif", ".mp4"):
            from asymrl.draw import save_gif, save_mp4

            save = save_gif if path.suffix.lower() == ".gif" else save_mp4
            save(frames, path, seconds or self._seconds(drawn=pictures is not None))
        else:
            from PIL import Image

            Image.fromarray(self._frame(scenes[-1], dpi, pictures)).save(path, optimize=True)
        return scenes[-1]

    def _pictures(self, scenes: Sequence[Scene]) -> Sequence[Any] | None:
        """The environment's own pictures, by step, if it draws itself and there is no other `picture`."""
        import jax
        import numpy as np

        from asymrl.worlds.stepped_world import SteppedWorld

        if self.picture is not None or not isinstance(self.env, SteppedWorld):
            return None
        try:
            if self.playback is not None:
                return played_frames(self.env, self.playback, self.seed)
            observations = jax.tree.map(lambda *leaves: np.stack(leaves), *[scene.observation for scene in scenes])
            return environment_frames(self.env, self.seed, [scene.action for scene in scenes[1:]], observations)
        except NoFramesError:
            return None

    def _seconds(self, *, drawn: bool) -> float:
        from asymrl.worlds.stepped_world import SteppedWorld

        rate = frames_per_second(self.env) if drawn and isinstance(self.env, SteppedWorld) else None
        return USUAL_SECONDS if rate is None else min(max(1 / rate, SHORTEST), USUAL_SECONDS)

    def _frame(self, scene: Scene, dpi: int, pictures: Sequence[Any] | None) -> Any:
        options: dict[str, Any] = {"dpi": dpi}
        if pictures is not None:
            options["picture"] = pictures[scene.step]
        elif (draw := self.picture) is not None:
            options["picture"] = lambda ax: draw(ax, scene.state, scene.observation)
        if self.playback is None:
            return scene.frame(self.env, **options)
        from asymrl.report.panels import agent_panel

        panel = agent_panel(self.playback, self.env.action_names, scene.step)
        return scene.frame(self.env, title=self.title, panel=panel, **options)

    def _thoughts(self, t: int) -> list[str]:
        """The policy and the value at this step, as text; nothing once the episode is over."""
        if self.playback is None or t >= len(self.playback.actions):
            return []
        described = policy_text(self.playback, self.env.action_names, t)
        action = self.env.action_text(self.playback.taken(t))
        return [f"{described}  takes {action}", f"critic {self.playback.critic} = {self.playback.values[t]:.3g}"]


def policy_text(playback: Playback, names: Sequence[str], t: int) -> str:
    """The policy at a step as a line of text."""
    from asymrl.nn.distributions import Categorical, Greedy

    kind = playback.distribution
    if not isinstance(kind, Categorical | Greedy):
        choices, numbers = playback.entries(t)
        shares = [" ".join(f"{share:.2f}" for share in part) for part in choices]
        spreads = [f"{mean:.3g} ± {spread:.3g}" for mean, spread in numbers]
        return "policy " + ", ".join(f"{name} {text}" for name, text in zip(names, [*shares, *spreads], strict=True))
    what = "values" if isinstance(kind, Greedy) else "policy"
    numbers = "  ".join(f"{name} {number:.2f}" for name, number in zip(names, playback.policy[t], strict=True))
    return f"{what} {numbers}"


def film_of_run(
    trained: TrainedRun,
    *,
    seed: int = 0,
    greedy: bool = False,
    steps: int | None = None,
    picture: Picture | None = None,
) -> Film:
    """An episode of a trained agent, with its policy and its critic, of at most `steps` steps."""
    settings, state = trained.settings, trained.state
    playback = play_back(trained.world, settings, state.actor, state.critic, seed=seed, greedy=greedy)
    scenes = scenes_of(playback)[: None if steps is None else steps + 1]
    title = f"{settings.world}, {settings.method}, seed {trained.seed}"
    return Film(trained.world, title, scenes, playback, seed=seed, picture=picture)


def film_of_world(
    world: World,
    policy: str = "random",
    *,
    seed: int = 0,
    steps: int | None = None,
    picture: Picture | None = None,
) -> Film:
    """An episode with random actions, or with a list of actions; see `parse_actions`."""
    actions = random_actions(world, seed) if policy == "random" else parse_actions(world, policy)
    scenes = record(world, itertools.islice(actions, steps), seed)
    return Film(world, world.name, scenes, seed=seed, picture=picture)
