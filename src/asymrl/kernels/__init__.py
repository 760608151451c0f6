"""Kernels for NVIDIA GPUs. They work on arrays; models and learning attach them where a plain version exists too."""
