"""Kernels for NVIDIA GPUs. They work on arrays; models and collection attach them where a plain version exists too."""
