"""Policies as files for other programs: ONNX, or NumPy arrays with a small class that runs them.

Importing this package imports nothing else, so that `asymrl.export.numpy_policy` needs NumPy only.
"""
