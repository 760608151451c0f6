"""`asymrl export`: a trained policy for other programs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from asymrl.cli.usage import (
    AgentFolder,
    RunSeed,
    Trust,
    UsageError,
    Where,
    check_writable,
    require_packages,
    select_run,
)

ENDINGS = (".onnx", ".npz")


@dataclass(frozen=True)
class Export:
    """Write the policy of a run, with its memory, for programs without JAX.

    asymrl export runs/tiger-a2c-asym-hs -o policy.npz
    """

    folder: AgentFolder

    output: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="FILE")]
    """An .onnx model of one step, or .npz arrays for asymrl.export.numpy_policy.NumpyPolicy."""

    run_seed: RunSeed = None

    where: Where = ()

    trust: Trust = False

    def run(self) -> int:
        check_writable(self.output, ENDINGS)
        if self.output.suffix.lower() == ".onnx":
            require_packages(("onnx", "onnxruntime"), "onnx", "an .onnx file")
        trained_run = select_run(self.folder, self.run_seed, self.where, trust=self.trust)

        from asymrl.export.saving import export_run

        try:
            difference = export_run(trained_run, self.output)
        except (ValueError, OSError) as error:
            raise UsageError(f"{self.output}: cannot be written: {error}") from error
        what = f"{trained_run.settings.world}, {trained_run.settings.method}, seed {trained_run.seed}"
        print(f"{self.output}: {what}, recent return {trained_run.recent_return_text}")
        print(f"Checked over whole episodes: it agrees with the agent to {difference:.0e}.")
        return 0
