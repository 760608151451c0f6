"""`settings.json`: what is trained in a store, and where its worlds come from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from asymrl.reading import UnreadableError, read_json
from asymrl.runs import runs as run_lists
from asymrl.runs.files import RunError, write_whole
from asymrl.runs.runs import Run
from asymrl.runs.world_sources import WorldSource
from asymrl.settings.run_settings import ZOO

FORMAT = 2
AGENTS = Path(__file__).parents[1] / "zoo" / "agents"  # stores with one run each, which ship with the package
SETTINGS_FILE = "settings.json"
NO_SUBSTITUTE = "; nothing else in the folder says what its runs are, so bring the file back from a copy"


def shipped_agents() -> list[str]:
    """The names of the agents that ship with the package."""
    return sorted(folder.name for folder in AGENTS.iterdir() if is_store(folder))


def is_store(path: Path) -> bool:
    """Whether this folder holds runs."""
    return (path / SETTINGS_FILE).is_file()


def read_description(path: Path) -> dict[str, Any]:
    """What is trained in a folder, as arguments of `Store`."""
    file = path / SETTINGS_FILE
    if not file.is_file():
        missing = "it is a file, not a folder" if path.is_file() else "there is no such folder"
        if str(path).startswith(ZOO):
            missing = f"agents that ship with the package are loaded by asymrl.zoo.load({str(path)[len(ZOO) :]!r})"
        what = f"there is no {file.name} in it" if path.is_dir() else missing
        raise RunError(f"{path}: no runs here: {what}")
    try:
        data: dict[str, Any] = read_json(file)
        version = data["format"]
        sources = _read_sources(data.get("sources", {}))
    except UnreadableError as error:
        raise RunError(str(error).replace(": ", ": damaged: ", 1) + NO_SUBSTITUTE) from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(f"{file}: damaged: {error}{NO_SUBSTITUTE}") from error
    if version != FORMAT:
        raise RunError(
            f"{file}: a store of format {version}, but this version of asymrl reads format {FORMAT}; "
            "use the version that wrote it"
        )
    runs = run_lists.from_json(data, str(file))
    return {
        "runs": runs,
        "keeps_networks": bool(data.get("keeps_networks", True)),
        "sources": sources,
        "probes": data.get("probes"),
    }


def _read_sources(data: Any) -> dict[str, WorldSource]:
    if not isinstance(data, dict):
        raise ValueError(f"sources is {data!r:.40}, expected an object")
    return {name: WorldSource.from_json(name, each) for name, each in data.items()}


def write_description(
    path: Path,
    run_list: Sequence[Run],
    *,
    keeps_networks: bool,
    sources: Mapping[str, WorldSource],
    probes: Mapping[str, Any],
) -> None:
    """Writes what is trained in a folder."""
    import jax

    from asymrl import __version__

    description = {
        "format": FORMAT,
        "versions": {"asymrl": __version__, "jax": jax.__version__},
        "keeps_networks": keeps_networks,
        **run_lists.to_json(run_list),
    }
    if sources:
        description["sources"] = {name: each.to_json() for name, each in sources.items()}
    if probes:
        description["probes"] = probes
    write_whole(path / SETTINGS_FILE, (json.dumps(description, indent=1) + "\n").encode())
