"""`asymrl export`: a trained policy as a file for other programs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro

from asymrl.cli.usage import UsageError, check_writable, require_packages, select_run

ENDINGS = (".onnx", ".npz")


@dataclass(frozen=True)
class Export:
    """Write the policy of a run, with its memory, for programs that know nothing of JAX."""

    run_folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN", name="run")]
    """Folder of the run."""

    output: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="FILE")]
    """An .onnx model of one step, or .npz arrays for asymrl.export.numpy_policy.NumpyPolicy."""

    run_seed: Annotated[int | None, tyro.conf.arg(metavar="K", help_behavior_hint="(default: the best)")] = None
    """Which seed of the run; by default the one with the best final return."""

    def run(self) -> int:
        check_writable(self.output, ENDINGS)
        is_onnx = self.output.suffix.lower() == ".onnx"
        if is_onnx:
            require_packages(("onnx", "onnxruntime"), "onnx", "an .onnx file")
        chosen = select_run(self.run_folder, self.run_seed)

        from asymrl.export.describe import describe
        from asymrl.export.files import About, save_npz, save_onnx
        from asymrl.export.interface import actions_of, reading_of
        from asymrl.export.numpy_policy import NumpyPolicy
        from asymrl.export.onnx_policy import OnnxPolicy
        from asymrl.export.verify import TOLERANCE, largest_difference
        from asymrl.runs.policy import ActorPolicy

        actor, settings = chosen.run.actor, chosen.settings
        about = About(
            settings.world,
            settings.method,
            chosen.env.action_names,
            asdict(settings),
            chosen.seed,
            actions_of(chosen.env),
            reading_of(chosen.env),
        )
        save, read = (save_onnx, OnnxPolicy) if is_onnx else (save_npz, NumpyPolicy)
        try:
            graph = describe(actor)
            save(self.output, graph, about)
        except (ValueError, OSError) as error:
            raise UsageError(f"{self.output}: can not be written: {error}") from error
        difference = largest_difference(ActorPolicy(chosen.env, actor), read(self.output))
        if not difference <= TOLERANCE:
            self.output.unlink()
            raise RuntimeError(f"the exported policy differs from the agent by {difference:.1e}, so it was removed")
        why = "" if self.run_seed is not None else ", the one with the best final return"
        print(
            f"{self.output}: {settings.world}, {settings.method}, seed {chosen.seed}{why} ({chosen.final_return:.3g})"
        )
        print(f"Checked over whole episodes: what it says is what the agent says, to {difference:.0e}.")
        return 0
