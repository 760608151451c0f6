"""`asymrl export`: a trained policy as a file for other programs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from asymrl.cli.usage import UsageError, check_writable, require_packages, select_run

ENDINGS = (".onnx", ".npz")


@dataclass(frozen=True)
class Export:
    """Write the policy of a run, with its memory, for programs without JAX."""

    run_folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN", name="run")]
    """Folder of the run."""

    output: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="FILE")]
    """An .onnx model of one step, or .npz arrays for asymrl.export.numpy_policy.NumpyPolicy."""

    run_seed: Annotated[int | None, tyro.conf.arg(metavar="K", help_behavior_hint="(default: the best)")] = None
    """Which seed of the run; by default the one with the best recent return."""

    where: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE")] = ()
    """Which runs of the folder, by their settings, such as method=a2c-asym-hs."""

    def run(self) -> int:
        check_writable(self.output, ENDINGS)
        if self.output.suffix.lower() == ".onnx":
            require_packages(("onnx", "onnxruntime"), "onnx", "an .onnx file")
        chosen = select_run(self.run_folder, self.run_seed, self.where)

        from asymrl.export.saving import export_run

        try:
            difference = export_run(chosen, self.output)
        except (ValueError, OSError) as error:
            raise UsageError(f"{self.output}: cannot be written: {error}") from error
        settings = chosen.settings
        why = "" if self.run_seed is not None else ", the one with the best recent return"
        print(
            f"{self.output}: {settings.world}, {settings.method}, seed {chosen.seed}{why} ({chosen.recent_return:.3g})"
        )
        print(f"Checked over whole episodes: it agrees with the agent to {difference:.0e}.")
        return 0
