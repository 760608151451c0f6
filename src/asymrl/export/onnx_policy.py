"""A trained policy that onnxruntime runs, with the interface of the one in NumPy."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from asymrl.export.numpy_policy import NumpyPolicy


class OnnxPolicy(NumpyPolicy):
    """Acts as the exported agent does: `reset()` before each episode, then `act(observation)` until it ends.

    Args:
        path: of an `.onnx` file that `asymrl export` wrote.
        generator: samples the actions; without one, the most likely action is taken.
    """

    def __init__(self, path: str | os.PathLike[str], generator: np.random.Generator | None = None):
        try:
            import onnxruntime
        except ImportError as error:
            raise ImportError('running an .onnx file needs onnxruntime: pip install "asymrl[onnx]"') from error
        self._session = onnxruntime.InferenceSession(os.fspath(path), providers=["CPUExecutionProvider"])
        facts = self._session.get_modelmeta().custom_metadata_map
        structured = ("action_names", "settings", "run_seed", "observation", "memory", "actions", "reading")
        if not set(structured) <= set(facts):
            raise ValueError(f"{path}: not a policy; write one with `asymrl export RUN -o policy.onnx`")
        structured += ("results",)  # older files have none
        self.about = {name: json.loads(text) if name in structured else text for name, text in facts.items()}
        self._begin(generator)
        self._after = [f"next_{name}" for name, _ in self.about["memory"]]

    def observe(self, observation: Any) -> np.ndarray:
        """As `NumpyPolicy.observe`."""
        outputs = self._session.run(self._shown + self._after, self._read(observation))
        count = len(self._shown)
        self._memory = dict(zip(self._memory, outputs[count:], strict=True))
        return np.concatenate([np.asarray(each)[0] for each in outputs[:count]])
