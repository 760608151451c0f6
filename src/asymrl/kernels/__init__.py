"""Fast paths, most of them kernels for NVIDIA GPUs. Each replaces a plain function elsewhere; see `attach`."""
