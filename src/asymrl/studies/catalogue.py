"""The studies by name."""

from __future__ import annotations

import importlib
import importlib.util

from asymrl.studies.study import Study

# Name -> the file of the study.
FILES = {
    "bootstrap": "asymrl.studies.bootstrap_or_baseline",
    "information": "asymrl.studies.information_or_feature",
    "knowledge": "asymrl.studies.partial_knowledge",
    "lost": "asymrl.studies.lost_tasks",
    "learners": "asymrl.studies.other_learners",
}
STUDIES: dict[str, Study] = {
    name: importlib.import_module(module).STUDY for name, module in FILES.items() if importlib.util.find_spec(module)
}


def study_named(name: str) -> Study:
    """Raises ValueError if there is no such study."""
    if name not in STUDIES:
        raise ValueError(f"{name}: the studies are {', '.join(STUDIES)}")
    return STUDIES[name]
