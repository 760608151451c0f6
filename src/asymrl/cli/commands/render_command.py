"""`asymrl render`: an episode as a film, a picture or text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from asymrl.cli.usage import (
    EnvArgs,
    Flag,
    RunSeed,
    Trust,
    UsageError,
    Where,
    check_writable,
    full_world,
    holds_runs,
    require_packages,
    select_run,
    user_errors,
    world_named,
)

if TYPE_CHECKING:
    from asymrl.report.films import Film, Picture

ENDINGS = (".gif", ".mp4", ".png")
DPI = 100


@dataclass(frozen=True)
class Render:
    """Draw an episode as a film, a picture or text: the true state beside the agent's view.

    For a trained run, also the probabilities of its actions and the critic's values.

      asymrl render heaven-hell-3 --policy S,E,E,E
      asymrl render runs/tiger-a2c-asym-hs -o episode.gif --greedy
    """

    world: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="WORLD|FOLDER")]
    """Name of the world, such as heaven-hell-3 or CartPole-v1, a .pomdp file, a folder with runs, or zoo:NAME for an
    agent that ships with asymrl."""

    env_args: EnvArgs = None

    policy: str = "random"
    """Who acts in a world: 'random', or actions to replay, by name or index, such as S,E,E,E; the episode stops after
    them. A run acts by its own policy."""

    output: Annotated[str, tyro.conf.arg(aliases=["-o"], metavar="FILE")] = "-"
    """A .gif or .mp4 film of the whole episode, a .png picture of its last moment, or - for text on the terminal."""

    seed: int = 0
    """Seed of the world and of the actions."""

    run_seed: RunSeed = None

    where: Where = ()

    trust: Trust = False

    greedy: Flag = False
    """Let a run take its most likely actions instead of sampling them."""

    steps: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: to its end)")] = None
    """Stop the episode after this many steps; 0 shows the start."""

    seconds: float | None = None
    """How long a film shows each step. Default: 0.4, or according to a Gymnasium environment's render_fps."""

    picture: Annotated[str | None, tyro.conf.arg(metavar="FILE.py:FUNCTION")] = None
    """Your own picture in place of the state: a function draw(ax, state, observation) that draws into matplotlib
    axes."""

    dpi: int = DPI
    """Resolution; 100 gives 800 x 450 pixels."""

    def run(self) -> int:
        check_film(self.output, ENDINGS, self.steps, self.seconds)
        if not 20 <= self.dpi <= 1000:
            raise UsageError(f"--dpi {self.dpi}: choose between 20 and 1000")
        if self.output.lower().endswith(".mp4"):
            require_packages(("imageio_ffmpeg",), "video", "an .mp4 film")
        film = self._film_of_run() if holds_runs(self.world) else self._film_of_world()
        if self.output == "-":
            for text in film.lines():
                print(text)
            return 0
        save_film(film, self.output, f"{film.title}, ", self.seconds, self.dpi)
        return 0

    def _film_of_world(self) -> Film:
        options = {"--greedy": self.greedy, "--run-seed": self.run_seed is not None, "--where": bool(self.where)}
        for option, is_given in options.items():
            if is_given:
                raise UsageError(f"{option} is for a folder with runs; {self.world!r} is a world")
        world = world_named(full_world(self.world, self.env_args))

        from asymrl.report.films import film_of_world

        with user_errors():
            return film_of_world(world, self.policy, seed=self.seed, steps=self.steps, picture=self._picture())

    def _film_of_run(self) -> Film:
        if self.policy != "random":
            raise UsageError(f"--policy {self.policy}: a run acts by its own policy; give the name of a world instead")
        trained_run = select_run(self.world, self.run_seed, self.where, trust=self.trust)

        from asymrl.report.films import film_of_run

        return film_of_run(trained_run, seed=self.seed, greedy=self.greedy, steps=self.steps, picture=self._picture())

    def _picture(self) -> Picture | None:
        """The function that the user named, which draws a moment."""
        if self.picture is None:
            return None
        from asymrl.envs.user_code import described, load_attribute

        source, colon, name = self.picture.rpartition(":")
        if not colon:
            raise UsageError(f"--picture {self.picture}: write FILE.py:FUNCTION or MODULE:FUNCTION")
        with user_errors():
            draw = load_attribute(f"--picture {self.picture}", source, name)
        if not callable(draw):
            raise UsageError(f"--picture {self.picture}: {name} is a {type(draw).__name__}, expected a function")

        def checked(ax: Any, state: Any, observation: Any) -> None:
            try:
                draw(ax, state, observation)
            except Exception as error:
                raise UsageError(f"--picture {self.picture} failed: {described(error)}") from error

        return checked


def check_film(output: str, endings: Sequence[str], steps: int | None, seconds: float | None) -> None:
    """Raises UsageError, before any work is done, if a film cannot be made like this."""
    if steps is not None and steps < 0:
        raise UsageError(f"--steps {steps}: cannot be negative; 0 shows the start")
    if seconds is not None and not 0.02 <= seconds <= 60:
        raise UsageError(f"--seconds {seconds:g}: choose between 0.02 and 60 per step")
    if output != "-":
        check_writable(Path(output), endings, ", or - for text")


def save_film(film: Film, output: str, title: str, seconds: float | None, dpi: int = DPI) -> None:
    """Writes a film or its last moment, and says so."""
    try:
        with user_errors():
            last = film.save(Path(output), seconds, dpi)
    except OSError as error:
        raise UsageError(f"{output}: cannot be written: {error.strerror or error}") from error
    print(f"{output}: {title}{last.step} steps, return {round(last.total, 6):g}")
