"""Where the worlds of a store come from, and what the store keeps so that it can be opened elsewhere.

It keeps copies of `.pomdp` and Python files; the names and versions of modules and installed packages; and for worlds
made in Python the name by which they can be made again, if they have one.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.metadata
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from asymrl.envs.sources import code_sources, is_registered, pomdp_path, recipe_of, register
from asymrl.envs.user_code import Location, locate, location_of, user_path
from asymrl.reading import UnreadableError, read_regular
from asymrl.runs.files import RunError, check_no_way_out
from asymrl.worlds.allowed_code import allow, is_allowed
from asymrl.worlds.registry import make, runs_code, source_of, split_options

FOLDER = "sources"  # of the copies
LARGEST_COPY, LARGEST_SOURCE = 256 << 20, 1 << 30  # bytes

_SAID: set[tuple[str, str]] = set()  # folders, and what was said about them

KINDS = POMDP, FILE, MODULE, PACKAGE, OBJECT = "pomdp", "file", "module", "package", "object"


class WorldSource(NamedTuple):
    """A file, module, package or object that names of worlds refer to."""

    kind: str
    path: str | None = None
    """Where a file was when the runs began, seen from the store."""
    sha256: str | None = None
    copy: str | None = None
    """The copy of a file, relative to the store."""
    version: str | None = None
    """Of a module or package, if it has one."""
    recipe: str | None = None
    """The name by which an object made in Python can be made again, if it has one."""

    def to_json(self) -> dict[str, str]:
        return {name: value for name, value in self._asdict().items() if value is not None}

    @classmethod
    def from_json(cls, name: str, data: Any) -> WorldSource:
        """Raises ValueError if the data do not describe what a name refers to; somebody else may have written them."""
        texts = [name, *data.values()] if isinstance(data, dict) and set(data) <= set(cls._fields) else [None]
        if name and all(map(_is_path_text, texts)) and data.get("kind") in KINDS:
            source, parts = cls(**data), Path(data.get("copy", FOLDER)).parts
            has_digest = source.kind not in (FILE, POMDP) or re.fullmatch("[0-9a-f]{64}", source.sha256 or "")
            if has_digest and parts[:1] == (FOLDER,) and ".." not in parts:
                return source
        raise ValueError(f"in sources, {name!r:.60} is {data!r:.200}, which is no source of worlds in this folder")


def _is_path_text(text: Any) -> bool:
    """Whether this is a text that can name a file."""
    try:
        return isinstance(text, str) and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


Sources = Mapping[str, WorldSource]


def sources_of(folder: Path, worlds: Iterable[str]) -> tuple[dict[str, WorldSource], dict[str, bytes]]:
    """The sources of the worlds of a store, by their text in world names, and the contents of the copies to keep.

    Raises:
        RunError: if a file cannot be read.
    """
    sources: dict[str, WorldSource] = {}
    copies: dict[str, bytes] = {}
    for world in dict.fromkeys(worlds):
        base, _ = split_options(world)
        if source_of(world) is None:
            continue
        if is_registered(base):
            sources[base] = WorldSource(OBJECT, recipe=(recipe := recipe_of(base)))
            if recipe is not None:
                sources |= _of_code(folder, recipe, copies)
        elif (path := pomdp_path(world)) is not None:
            sources[path] = _of_pomdp(folder, path, copies)
        elif base.startswith("gymnax:"):
            sources["gymnax"] = WorldSource(PACKAGE, version=_version("gymnax"))
        else:
            sources |= _of_code(folder, world, copies)
    return sources, copies


def _of_pomdp(folder: Path, path: str, copies: dict[str, bytes]) -> WorldSource:
    from asymrl.envs.pomdp_files import FileError, checksum

    there = location_of(path).path
    try:
        digest = checksum(there)
        data = Path(there).read_bytes()
    except (FileError, OSError) as error:
        raise RunError(str(error)) from error
    return WorldSource(POMDP, _relative(there, folder), digest, _copied(there, digest, data, copies))


def _of_code(folder: Path, world: str, copies: dict[str, bytes]) -> dict[str, WorldSource]:
    sources = {}
    for source in code_sources(world):
        if not source.endswith(".py"):
            sources[source] = WorldSource(MODULE, version=_version(source))
            continue
        path = location_of(source).path
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise RunError(f"{source}: cannot be read: {error.strerror}") from error
        digest = hashlib.sha256(data).hexdigest()
        sources[source] = WorldSource(FILE, _relative(path, folder), digest, _copied(path, digest, data, copies))
    if not sources:
        sources[split_options(world)[0]] = WorldSource(PACKAGE, version=_version("gymnasium"))
    return sources


def _copied(path: str, digest: str, data: bytes, copies: dict[str, bytes]) -> str | None:
    if len(data) > LARGEST_COPY:
        return None
    name = f"{FOLDER}/{digest[:16]}/{os.path.basename(path)}"
    copies[name] = data
    return name


def _origin(module: str) -> str | None:
    """Where the outermost package of a module would be imported from. Imports nothing."""
    try:
        with user_path(always=True):
            spec = importlib.machinery.PathFinder.find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    return spec.origin or next(iter(spec.submodule_search_locations or ()), None)


def _version(module: str) -> str | None:
    name = module.partition(".")[0]
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return None


def current_files(folder: Path, sources: Sources) -> tuple[dict[str, WorldSource], dict[str, bytes]]:
    """The sources of a store whose files have changed, as they are now, and the contents of the copies to keep.

    Raises:
        RunError: if a file cannot be read.
    """
    changed: dict[str, WorldSource] = {}
    copies: dict[str, bytes] = {}
    for source, record in sources.items():
        if record.kind not in (FILE, POMDP):
            continue
        path = next(filter(os.path.isfile, _places(folder, source, record)), None)
        if path is None:
            continue  # its copy is used, or the message says that it is missing
        digest = _pomdp_digest(path) if record.kind == POMDP else _digest(path)
        if digest != record.sha256:
            copy = _copied(path, digest, Path(path).read_bytes(), copies)
            changed[source] = record._replace(path=_relative(path, folder), sha256=digest, copy=copy)
    return changed, copies


def _relative(path: str, folder: Path) -> str:
    """A path as it is recorded: seen from the store, so that nobody reads there how a user's folders are called."""
    return os.path.relpath(os.path.realpath(path), os.path.realpath(folder))


def _places(folder: Path, source: str, record: WorldSource) -> list[str]:
    """Where a file may be: where it was, and where its name leads now."""
    recorded = [] if record.path is None else [os.path.normpath(os.path.join(os.path.realpath(folder), record.path))]
    return list(dict.fromkeys([*recorded, os.path.abspath(source)]))


def make_ready(
    folder: Path, worlds: Iterable[str], sources: Sources, *, trust: bool, say: Callable[[str], None]
) -> None:
    """Prepares the worlds of a store: finds their files, and checks whether their code may run.

    Args:
        folder: of the store.
        worlds: their names.
        sources: as the store has recorded them.
        trust: whether the user trusts the code of this store.
        say: called about copies in use.

    Raises:
        RunError: if something is missing, or the code of a world may not run.
    """
    for world in dict.fromkeys(worlds):
        base, _ = split_options(world)
        record = sources.get(base)
        if source_of(world) is None and not (record is not None and record.kind == OBJECT):
            continue  # a world of this package, or an unknown one, which fails when it is made
        if record is None or record.kind != OBJECT:
            _make_code_ready(folder, world, sources, trust, say)
        elif not is_registered(base):
            if record.recipe is None:
                raise RunError(
                    f"{folder}: {base} was made in Python, and cannot be made again from its name; make it, call "
                    f"asymrl.register({base!r}, lambda time_limit: WORLD.with_time_limit(time_limit)), and load the "
                    "runs again. A world that is trained by name, FILE.py:CLASS, needs none of that"
                )
            _make_code_ready(folder, record.recipe, sources, trust, say)
            recipe = record.recipe
            register(base, lambda time_limit=None, recipe=recipe: _remake(recipe, time_limit))


def _remake(recipe: str, time_limit: int | None) -> Any:
    limit: dict[str, Any] = {} if time_limit is None else {"time_limit": time_limit}
    return make(recipe, trust=False, **limit)


def _make_code_ready(folder: Path, world: str, sources: Sources, trust: bool, say: Callable[[str], None]) -> None:
    files = [*code_sources(world), *([path] if (path := pomdp_path(world)) is not None else [])]
    notes: list[str] = []
    found: dict[str, Location] = {}
    for source in files:
        record = sources.get(source)
        if record is not None and record.sha256 is not None and record.kind in (FILE, POMDP):
            found[source] = _location(folder, source, record, notes.append)
    # Whoever has named a file has allowed its contents, not those that somebody's folder has under the same name.
    is_known = is_allowed(world) and all(_digest_now(source) == location.sha256 for source, location in found.items())
    if runs_code(world) and not is_known and not trust:
        raise RunError(
            f"{folder}: {world} would run {_described(world, found)}. If you trust it, say so with --trust, or "
            "trust=True in Python"
        )
    for source, location in found.items():
        locate(source, location)
    if runs_code(world):
        allow(world)
    for note in notes:
        if (about := (os.path.abspath(folder), note)) not in _SAID:  # a command opens its store several times
            _SAID.add(about)
            say(note)


def _digest_now(source: str) -> str | None:
    """The digest of the file that would be read for this name, as things are."""
    location = location_of(source)
    is_there = location.sha256 is None and os.path.isfile(location.path)
    return _digest(location.path) if is_there else location.sha256


def _described(world: str, found: Mapping[str, Location]) -> str:
    """The code of a world in words; `found`: where its files are."""
    parts = []
    for source in code_sources(world):
        if source.endswith(".py"):
            location = found.get(source) or location_of(source)
            is_there = os.path.isfile(location.path) and location.sha256 in (None, _digest(location.path))
            parts.append(
                f"the file {location.path if is_there or location.copy is None else os.path.normpath(location.copy)}"
            )
        else:
            origin = _origin(source)
            parts.append(f"the module {source} ({origin or 'which is not installed here'})")
    return " and ".join(parts) or "an installed environment with these arguments"


def _location(folder: Path, source: str, record: WorldSource, say: Callable[[str], None]) -> Location:
    """Where to read a file with the recorded contents: where it was, where its name leads now, or in the store."""
    digest_of = _pomdp_digest if record.kind == POMDP else _digest
    copy = None if record.copy is None else folder / record.copy
    if copy is not None:
        inside = copy.relative_to(folder)
        check_no_way_out(folder, [folder / part for part in (*reversed(inside.parents[:-1]), inside)])
    is_copy_sound = copy is not None and copy.is_file() and digest_of(str(copy)) == record.sha256
    sound_copy = str(copy.absolute()) if copy and is_copy_sound else None
    places = _places(folder, source, record)
    for path in places:
        if os.path.isfile(path) and digest_of(path) == record.sha256:
            return Location(path, record.sha256, sound_copy)
    path = places[0]
    what = "has changed since the runs began" if os.path.isfile(path) else f"is no longer at {path}"
    if sound_copy is None:
        damaged = f"; its copy {copy} is damaged" if copy is not None and copy.exists() else ""
        raise RunError(f"{folder}: {source} {what}{damaged}; bring back the file as it was then")
    say(f"{folder}: {source} {what}; using the copy {copy}")
    return Location(path, record.sha256, sound_copy)


def _digest(path: str) -> str:
    try:
        return hashlib.sha256(read_regular(Path(path), LARGEST_SOURCE)).hexdigest()
    except UnreadableError as error:
        raise RunError(str(error)) from error
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror}") from error


def _pomdp_digest(path: str) -> str:
    from asymrl.envs.pomdp_files import FileError, checksum

    try:
        return checksum(path)
    except FileError as error:
        raise RunError(str(error)) from error
