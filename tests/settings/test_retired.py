"""Settings that are no longer a choice: files of earlier versions are read where they chose what is left."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from asymrl.runs.files import RunError
from asymrl.runs.runs import from_json
from asymrl.settings import A2CSettings


def described(**retired: Any) -> dict[str, Any]:
    return {"settings": {**asdict(A2CSettings()), **retired}, "runs": [{"seed": 3}]}


def test_runs_that_did_without_them_are_read():
    (run,) = from_json(described(draws="shared", update_steps=None), "settings.json")
    assert run.settings == A2CSettings()


@pytest.mark.parametrize(("name", "value"), [("draws", "independent"), ("update_steps", 256)])
def test_runs_that_needed_them_are_refused_in_one_line(name: str, value: Any):
    data = described()
    data["runs"][0][name] = value
    with pytest.raises(RunError, match=f"^settings.json: {name} is {value!r}; .*, so use the version") as refused:
        from_json(data, "settings.json")
    assert "\n" not in str(refused.value)
