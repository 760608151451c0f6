"""Reports on runs: statistics with intervals, learning curves, comparisons, summaries, films of episodes.

Tables of learning curves and of runs go in, as `asymrl.load(folder).metrics` and `.table` give them; figures, numbers
and sentences come out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asymrl.lazy import exports

if TYPE_CHECKING:
    from asymrl.report.comparison import MethodScores as MethodScores
    from asymrl.report.comparison import choose as choose
    from asymrl.report.comparison import scores_of as scores_of
    from asymrl.report.curves import learning_curve as learning_curve
    from asymrl.report.films import film_of_run as film_of_run
    from asymrl.report.films import film_of_world as film_of_world
    from asymrl.report.intervals import Interval as Interval
    from asymrl.report.intervals import bootstrap as bootstrap
    from asymrl.report.intervals import improvement_interval as improvement_interval
    from asymrl.report.intervals import interquartile_mean as interquartile_mean
    from asymrl.report.intervals import normalised as normalised
    from asymrl.report.intervals import performance_profile as performance_profile
    from asymrl.report.intervals import probability_of_improvement as probability_of_improvement
    from asymrl.report.intervals import profile_band as profile_band
    from asymrl.report.summary import ranking_of as ranking_of

__getattr__, __dir__ = exports(
    __name__,
    {
        "asymrl.report.comparison": ["MethodScores", "choose", "scores_of"],
        "asymrl.report.curves": ["learning_curve"],
        "asymrl.report.films": ["film_of_run", "film_of_world"],
        "asymrl.report.intervals": [
            *("Interval", "bootstrap", "improvement_interval", "interquartile_mean", "normalised"),
            *("performance_profile", "probability_of_improvement", "profile_band"),
        ],
        "asymrl.report.summary": ["ranking_of"],
    },
)
