"""Optuna's study of a search, in a file of JSON lines beside the runs: the trials, and what they reached."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asymrl.runs.files import RunError
from asymrl.runs.search_space import SearchAxis, Space

if TYPE_CHECKING:
    import optuna  # pyright: ignore[reportMissingImports]

STUDY_FILE = "study.journal"
STARTUP_TRIALS = 5  # before the sampler learns from earlier trials, and before trials are pruned
WARMUP_SHARE = 0.2  # of a learning curve, before it is judged


def optuna_package() -> Any:
    """Optuna, quiet. Raises RunError with the install command if it is missing."""
    try:
        import optuna  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise RunError('asymrl tune needs the package optuna: pip install "asymrl[tune]"') from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def open_study(folder: Path, description: Mapping[str, Any], points: int, seed: int) -> optuna.Study:
    """The study in a folder that this process holds, or a new one.

    Args:
        folder: of the study, inside that of the search.
        description: of the search; must equal that of an existing study.
        points: of the learning curve of a run.
        seed: of the sampler.

    Raises:
        RunError: if the existing study is of another search, or damaged.
    """
    optuna = optuna_package()
    file = folder / STUDY_FILE
    _drop_unfinished_line(file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        try:
            storage = optuna.storages.JournalStorage(_backend(file))
            study_names = optuna.study.get_all_study_names(storage)
            begun = len(optuna.load_study(study_name=study_names[0], storage=storage).trials) if study_names else 0
            sampler = optuna.samplers.TPESampler(
                seed=seed + begun, n_startup_trials=STARTUP_TRIALS, multivariate=True, constant_liar=True
            )
            warmup = max(1, round(WARMUP_SHARE * points))
            pruner = optuna.pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=warmup)
            how = {"storage": storage, "sampler": sampler, "pruner": pruner}
            if study_names:
                study = optuna.load_study(study_name=study_names[0], **how)
            else:
                study = optuna.create_study(study_name="asymrl", direction="maximize", **how)
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(f"{file}: damaged: {error}; begin another search in another folder") from error
    there = study.user_attrs.get("search")
    if there is None:
        study.set_user_attr("search", dict(description))
    elif there != description:
        names = [name for name in description if there.get(name) != description[name]]
        raise RunError(
            f"{folder.parent}: holds a search with other {' and '.join(names)}; give the same, or choose another --out"
        )
    return study


def distributions(space: Space, kinds: Mapping[str, type]) -> dict[str, Any]:
    """The axes as Optuna's distributions. Lists become texts, since Optuna takes plain values only."""
    optuna = optuna_package()

    def of(name: str, axis: SearchAxis) -> Any:
        if axis.choices:
            return optuna.distributions.CategoricalDistribution([listed(each) for each in axis.choices])
        assert axis.low is not None
        assert axis.high is not None
        if kinds[name] is int:
            return optuna.distributions.IntDistribution(int(axis.low), int(axis.high), log=axis.log)
        return optuna.distributions.FloatDistribution(float(axis.low), float(axis.high), log=axis.log)

    return {name: of(name, axis) for name, axis in space.items()}


def listed(value: Any) -> Any:
    """A value of a setting for Optuna: a list of sizes becomes a text such as 64:64."""
    return ":".join(map(str, value)) if isinstance(value, tuple) else value


def unlisted(value: Any, axis: SearchAxis) -> Any:
    """The inverse of `listed`."""
    return next((each for each in axis.choices if listed(each) == value), value)


class HeldFolder:
    """A lock that does nothing: the folder of the search is already locked."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        pass


def _backend(file: Path) -> Any:
    from optuna.storages.journal import JournalFileBackend  # pyright: ignore[reportMissingImports]

    return JournalFileBackend(str(file), lock_obj=HeldFolder())  # pyright: ignore[reportArgumentType]


def _drop_unfinished_line(file: Path) -> None:
    """Removes a last line that a killed process left incomplete."""
    if not file.exists():
        return
    with open(file, "rb+") as opened:
        content = opened.read()
        if content and not content.endswith(b"\n"):
            opened.truncate(content.rfind(b"\n") + 1)
