"""A trained agent as a file, checked before it is handed out."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from asymrl.agents.policy import ActorPolicy
from asymrl.agents.trained import TrainedRun
from asymrl.export.describe import describe
from asymrl.export.files import About, save_npz, save_onnx
from asymrl.export.interface import actions_of, reading_of
from asymrl.export.numpy_policy import NumpyPolicy
from asymrl.export.onnx_policy import OnnxPolicy
from asymrl.export.verify import TOLERANCE, largest_difference


def export_run(trained: TrainedRun, path: Path) -> float:
    """Writes the policy of a run, with its memory: an .onnx model of one step, or .npz arrays for `NumpyPolicy`.

    Returns the largest difference between the file's and the agent's probabilities over whole episodes.

    Raises:
        ValueError: if the policy cannot be described, or the ending of the file is another.
        OSError: if the file cannot be written.
    """
    kinds = {".onnx": (save_onnx, OnnxPolicy), ".npz": (save_npz, NumpyPolicy)}
    if path.suffix.lower() not in kinds:
        raise ValueError(f"{path}: unknown file ending {path.suffix!r}; use {' or '.join(kinds)}")
    save, read = kinds[path.suffix.lower()]
    settings, world, actor = trained.settings, trained.world, trained.state.actor
    about = About(
        settings.world,
        settings.method,
        world.action_names,
        asdict(settings),
        trained.seed,
        actions_of(world),
        reading_of(world),
    )
    save(path, describe(actor), about)
    difference = largest_difference(ActorPolicy(world, actor), read(path))
    if not difference <= TOLERANCE:
        path.unlink()
        raise RuntimeError(f"the exported policy differs from the agent by {difference:.1e}, so it was removed")
    return difference
