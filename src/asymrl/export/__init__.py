"""Policies as files for other programs: ONNX, or NumPy arrays with a small class that runs them.

`export_run` writes and checks a file, `NumpyPolicy` and `OnnxPolicy` act with it. Importing this package imports
nothing else, so that `NumpyPolicy` needs NumPy only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asymrl.lazy import exports

if TYPE_CHECKING:
    from asymrl.export.numpy_policy import NumpyPolicy as NumpyPolicy
    from asymrl.export.onnx_policy import OnnxPolicy as OnnxPolicy
    from asymrl.export.saving import export_run as export_run

__getattr__, __dir__ = exports(__name__)
