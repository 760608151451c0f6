"""Compiled programs are kept between processes, in the user's cache folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

SWITCH = "ASYMRL_CACHE"  # a folder, or "off"
_FOLDER, _SHORTEST = "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"
SHORTEST_COMPILATION = 0.1  # seconds; what compiles faster is not worth a file


def cache_folder() -> Path | None:
    """Where compiled programs are kept, or None if the user does not want that or it is not possible."""
    setting = os.environ.get(SWITCH, "")
    if setting.lower() in ("off", "0", "no", "false"):
        return None
    # A relative XDG_CACHE_HOME is invalid and must be ignored, says the specification.
    base = os.environ.get("XDG_CACHE_HOME", "")
    default = (Path(base) if os.path.isabs(base) else Path("~/.cache")) / "asymrl" / "compiled"
    try:
        folder = Path(setting or default).expanduser()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no home, or not writable: then every process compiles anew
        return None
    return folder if os.access(folder, os.W_OK) else None


def use_compilation_cache() -> None:
    """Lets JAX keep what it compiles. Call it before the first compilation; a folder that the user set in JAX stays."""
    folder = cache_folder()
    if folder is None or os.environ.get(_FOLDER.upper()):
        return
    if "jax" in sys.modules:
        import jax

        if getattr(jax.config, _FOLDER) is None:
            jax.config.update(_FOLDER, str(folder))
            jax.config.update(_SHORTEST, SHORTEST_COMPILATION)
    else:
        # Importing JAX takes a second, and a command may not need it; JAX reads these when it is imported.
        os.environ[_FOLDER.upper()] = str(folder)
        os.environ.setdefault(_SHORTEST.upper(), str(SHORTEST_COMPILATION))
