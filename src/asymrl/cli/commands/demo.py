"""`asymrl demo`: trains an agent that solves Heaven-Hell, on whatever machine this is, and shows what it does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from asymrl.cli.commands.evaluate import Evaluate
from asymrl.cli.commands.render_command import Render
from asymrl.cli.running import Training
from asymrl.cli.usage import select_run, user_errors

WORLD, METHOD = "heaven-hell-3", "a2c-asym-hs"
SOLVED = 0.999  # mean return of the last 100 episodes: all of them. With less, some hundred is lucky long before
CHOSEN = {"steps": 4_000_000, "stop_return": SOLVED}  # the rest is the paper's


@dataclass(frozen=True)
class Demo:
    """Train a2c-asym-hs on heaven-hell-3 until it is solved, then evaluate the agent and film two of its episodes."""

    folder: Path = Path("demo")
    """Where the run, its learning curve, the page about it and the films go."""

    seed: int = 7
    """Seed of the training."""

    def run(self) -> int:
        from asymrl.api.run_folders import new_store
        from asymrl.api.wanted import settings_for
        from asymrl.runs.runs import Run
        from asymrl.runs.store import free_folder

        settings = settings_for(WORLD, METHOD, **CHOSEN)
        with user_errors():
            store = new_store([Run(settings, self.seed)], free_folder(WORLD, METHOD, self.folder))
        print(f"Training {METHOD} on {WORLD}: the critic reads history and state, the actor the history alone.")
        print("It stops when all of the last 100 episodes have ended in heaven.\n", flush=True)
        if status := Training().train(store):
            return status
        print("\nWhat the trained agent does, in 1000 new episodes:\n", flush=True)
        Evaluate(store.path).run()
        print()
        self._film(store.path)
        return 0

    def _film(self, run: Path) -> None:
        """Films an episode with heaven in the west and one with heaven in the east."""
        from asymrl.runs.playback import play_back

        agent = select_run(run, None)
        side_of = agent.world.signals()["heaven-side"].of
        filmed: set[int] = set()
        for seed in range(64):
            episode = play_back(
                agent.world, agent.settings, agent.state.actor, agent.state.critic, seed=seed, greedy=True
            )
            side = int(side_of(episode.states[0]))
            if side not in filmed:
                film = run / f"heaven-in-the-{('west', 'east')[side]}.gif"
                Render(str(run), output=str(film), seed=seed, greedy=True).run()
                filmed.add(side)
            if len(filmed) == 2:
                return
