"""`asymrl render`: an episode as a film, a picture or text."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from asymrl.cli.episodes import Moment, moments_of, parse_actions, random_actions, record
from asymrl.cli.usage import UsageError, check_writable, is_run, select_run, world_named

if TYPE_CHECKING:
    from asymrl.runs.playback import Playback
    from asymrl.worlds import World

ENDINGS = (".gif", ".png")


@dataclass(frozen=True)
class Render:
    """Draw an episode as a film, a picture or text: the true state beside the agent's view.

    Of a trained run, also how likely its actions were and what its critic said.
    """

    world: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="WORLD|RUN")]
    """Name of the world, such as heaven-hell-3 or cleaner:maze_seed=7, a .pomdp file, or the folder of a run."""

    policy: str = "random"
    """Who acts in a world: 'random', or actions to replay, by name or index, such as S,E,E,E; the episode stops after
    them. A run acts by its own policy."""

    output: Annotated[str, tyro.conf.arg(aliases=["-o"], metavar="FILE")] = "-"
    """A .gif film of the whole episode, a .png picture of its last moment, or - for text on the terminal."""

    seed: int = 0
    """Seed of the world and of the actions."""

    run_seed: Annotated[int | None, tyro.conf.arg(metavar="K", help_behavior_hint="(default: the best)")] = None
    """Which seed of a run; by default the one with the best final return."""

    greedy: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Let a run take its most likely actions instead of sampling them."""

    steps: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: to its end)")] = None
    """Stop the episode after this many steps; 0 shows the start."""

    seconds: float = 0.4
    """How long the film shows each step."""

    dpi: int = 100
    """Resolution; 100 gives 800 x 450 pixels."""

    def run(self) -> int:
        self._check_numbers()
        if self.output != "-":
            check_writable(Path(self.output), ENDINGS, ", or - for text")
        episode = self._episode_of_run() if is_run(self.world) else self._episode_of_world()
        if self.output == "-":
            episode.print()
        else:
            episode.save(Path(self.output), self.seconds, self.dpi)
        return 0

    def _episode_of_world(self) -> _Episode:
        for given, option in ((self.greedy, "--greedy"), (self.run_seed is not None, "--run-seed")):
            if given:
                raise UsageError(f"{option} is for the folder of a run, and {self.world!r} is none")
        env = world_named(self.world)
        actions = random_actions(env, self.seed) if self.policy == "random" else parse_actions(env, self.policy)
        return _Episode(env, env.name, record(env, itertools.islice(actions, self.steps), self.seed))

    def _episode_of_run(self) -> _Episode:
        if self.policy != "random":
            raise UsageError(f"--policy {self.policy}: a run acts by its own policy; give the name of a world instead")
        chosen = select_run(self.world, self.run_seed)

        from asymrl.runs.playback import play_back

        settings, run = chosen.settings, chosen.run
        playback = play_back(chosen.env, settings, run.actor, run.critic, seed=self.seed, greedy=self.greedy)
        moments = moments_of(playback)[: None if self.steps is None else self.steps + 1]
        title = f"{settings.world}, {settings.method}, seed {chosen.seed}"
        return _Episode(chosen.env, title, moments, playback)

    def _check_numbers(self) -> None:
        if self.steps is not None and self.steps < 0:
            raise UsageError(f"--steps {self.steps}: can not be negative; 0 shows the start")
        if not 0.02 <= self.seconds <= 60:
            raise UsageError(f"--seconds {self.seconds:g}: choose between 0.02 and 60 per step")
        if not 20 <= self.dpi <= 1000:
            raise UsageError(f"--dpi {self.dpi}: choose between 20 and 1000")


class _Episode:
    """What there is to draw: the moments of an episode and, of a trained run, what its agent made of them."""

    def __init__(self, env: World, title: str, moments: Iterable[Moment], playback: Playback | None = None):
        self.env, self.title, self.moments, self.playback = env, title, moments, playback

    def print(self) -> None:
        for i, moment in enumerate(self.moments):
            lines = [moment.text(self.env), *self._thoughts(moment.step)]
            print(("\n" if i else "") + "\n".join(lines))

    def save(self, path: Path, seconds: float, dpi: int) -> None:
        moments = list(self.moments)
        try:
            if path.suffix.lower() == ".gif":
                from asymrl.render import save_gif

                save_gif((self._frame(moment, dpi) for moment in moments), path, seconds)
            else:
                from PIL import Image

                Image.fromarray(self._frame(moments[-1], dpi)).save(path, optimize=True)
        except OSError as error:
            raise UsageError(f"{path}: can not be written: {error.strerror or error}") from error
        last = moments[-1]
        print(f"{path}: {self.title}, {last.step} steps, return {round(last.total, 6):g}")

    def _frame(self, moment: Moment, dpi: int) -> Any:
        if self.playback is None:
            return moment.frame(self.env, dpi=dpi)
        from asymrl.report.panels import agent_panel

        panel = agent_panel(self.playback, self.env.action_names, moment.step)
        return moment.frame(self.env, dpi=dpi, title=self.title, panel=panel)

    def _thoughts(self, t: int) -> list[str]:
        """The policy and the value at this step, as text; nothing once the episode is over."""
        if self.playback is None or t >= len(self.playback.actions):
            return []
        names, policy = self.env.action_names, self.playback.policy[t]
        if self.playback.vectors:
            parts = zip(names, policy[: len(names)], policy[len(names) :], strict=True)
            said = "  ".join(f"{name} {mean:.2f} ± {spread:.2f}" for name, mean, spread in parts)
        else:
            said = "  ".join(f"{name} {share:.2f}" for name, share in zip(names, policy, strict=True))
        chosen = self.env.action_text(self.playback.actions[t])
        return [f"policy {said}  takes {chosen}", f"critic {self.playback.critic} = {self.playback.values[t]:.3g}"]
