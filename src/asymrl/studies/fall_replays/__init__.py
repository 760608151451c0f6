"""Replays of falls: runs that lost a solved task, continued from just before with one thing changed.

`Replayer` trains one run update by update and measures each; `replay` continues it as one of the `VARIANTS`;
`replay_findings` makes tables and a figure of the recorded falls and replays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asymrl.lazy import exports

if TYPE_CHECKING:
    from asymrl.studies.fall_replays.changed_updates import Change as Change, Replayer as Replayer
    from asymrl.studies.fall_replays.replay_tables import replay_findings as replay_findings
    from asymrl.studies.fall_replays.replaying import replay as replay
    from asymrl.studies.fall_replays.variants import VARIANTS as VARIANTS, ReplayVariant as ReplayVariant

__getattr__, __dir__ = exports(
    __name__,
    {
        "asymrl.studies.fall_replays.changed_updates": ["Change", "Replayer"],
        "asymrl.studies.fall_replays.replaying": ["replay"],
        "asymrl.studies.fall_replays.replay_tables": ["replay_findings"],
        "asymrl.studies.fall_replays.variants": ["VARIANTS", "ReplayVariant"],
    },
)
