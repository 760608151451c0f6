"""Episodes to look at: recorded moment by moment, with actions drawn at random or given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from asymrl.cli.usage import UsageError

if TYPE_CHECKING:
    from asymrl.runs.playback import Playback
    from asymrl.worlds import World


class Moment(NamedTuple):
    """Where an episode stands after `step` actions, and what the last of them did."""

    state: Any
    observation: Any
    action: Any  # an index or a vector, or None at the start
    step: int
    reward: float | None
    total: float
    terminated: bool
    truncated: bool

    def frame(self, env: World, **options: Any) -> Any:
        """This moment as pixels; `options` are those of `draw_frame`."""
        from asymrl.render import draw_frame

        return draw_frame(env, **self._asdict(), **options)

    def text(self, env: World) -> str:
        """This moment as lines of text."""
        from asymrl.render import draw_text

        ending = " (the end)" if self.terminated else " (time limit)" if self.truncated else ""
        reward = "" if self.reward is None else f"  reward {self.reward:g}"
        caption = f"step {self.step}{reward}  return {round(self.total, 6):g}{ending}"
        text = draw_text(env, self.state, self.observation, self.action, terminated=self.terminated)
        return f"{text}\n{caption}"


def record(env: World, actions: Iterable[Any], seed: int) -> Iterator[Moment]:
    """Follows an episode from its start until it ends or there are no more actions."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    begin, advance = eqx.filter_jit(env.begin), eqx.filter_jit(env.advance)
    begin_key, key = jax.random.split(jax.random.key(seed))
    episode, observation = begin(begin_key)
    state, observation = jax.device_get((episode.state, observation))
    total = 0.0
    yield Moment(state, observation, None, 0, None, total, False, False)
    for step, action in enumerate(actions, 1):
        episode, transition = advance(jax.random.fold_in(key, step), episode, jnp.asarray(action))
        state, (observation, reward, terminated, truncated) = jax.device_get((episode.state, transition))
        total += float(reward)
        yield Moment(state, observation, action, step, float(reward), total, bool(terminated), bool(truncated))
        if terminated or truncated:
            return


def moments_of(playback: Playback) -> list[Moment]:
    """The moments of an episode that was played already."""
    steps = len(playback.actions)
    moments = [Moment(*playback.at(0), None, 0, None, 0.0, False, False)]
    for t, (action, reward) in enumerate(zip(playback.actions, playback.rewards, strict=True), 1):
        over, total = t == steps, moments[-1].total + float(reward)
        ends = (over and not playback.truncated, over and playback.truncated)
        moments.append(Moment(*playback.at(t), action, t, float(reward), total, *ends))
    return moments


def random_actions(env: World, seed: int) -> Iterator[Any]:
    """Actions of the uniform policy, without end."""
    import numpy as np

    generator = np.random.default_rng(seed)
    while True:
        yield _random_action(env, generator)


def _random_action(env: World, generator: Any) -> Any:
    import numpy as np

    from asymrl.worlds.spaces import Discrete

    space: Any = env.action_space
    if isinstance(space, Discrete):
        return int(generator.integers(space.n))
    low, high = (np.nan_to_num(end, posinf=1.0, neginf=-1.0) for end in space.bounds())
    return generator.uniform(low, high).astype(np.float32)


def parse_actions(env: World, text: str) -> list[int]:
    """The actions of a comma-separated list of their names or indices."""
    if not hasattr(env.action_space, "n"):
        raise UsageError(f"--policy {text}: the actions of {env.name} are vectors; only 'random' can be shown")
    return [_parse_action(env, word.strip()) for word in text.split(",")]


def _parse_action(env: World, word: str) -> int:
    names = env.action_names
    for spelling, known in ((word, names), (word.lower(), [name.lower() for name in names])):
        if spelling in known:
            return list(known).index(spelling)
    if word.isdecimal() and int(word) < len(names):
        return int(word)
    raise UsageError(
        f"unknown policy or action {word!r}. A policy is 'random' or a comma-separated list of actions of {env.name}: "
        f"{', '.join(names)}, or indices 0 to {len(names) - 1}."
    )
