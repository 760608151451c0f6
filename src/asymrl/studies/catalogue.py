"""The studies by name."""

from __future__ import annotations

from asymrl.studies import (
    bootstrap_or_baseline,
    information_or_feature,
    lost_tasks,
    other_learners,
    partial_knowledge,
    ppo_bootstrap,
)
from asymrl.studies.study import Study

_FILES = (
    bootstrap_or_baseline,
    information_or_feature,
    partial_knowledge,
    lost_tasks,
    other_learners,
    ppo_bootstrap,
)
STUDIES: dict[str, Study] = {each.STUDY.name: each.STUDY for each in _FILES}


def study_named(name: str) -> Study:
    """Raises ValueError if there is no such study."""
    if name not in STUDIES:
        raise ValueError(f"{name}: the studies are {', '.join(STUDIES)}")
    return STUDIES[name]
