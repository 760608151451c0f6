"""Reports on runs: statistics with intervals, learning curves, comparisons, summaries, films of episodes.

Tables of learning curves and of runs go in, as `asymrl.load(folder).metrics` and `.table` give them; figures, numbers
and sentences come out. `examine(analysis, ...)` turns an analysis of `asymrl.theory` into a verdict: would a privileged
critic help, and which?
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asymrl.lazy import exports

if TYPE_CHECKING:
    from asymrl.report.comparison import MethodScores as MethodScores, choose as choose, scores_of as scores_of
    from asymrl.report.curves import learning_curve as learning_curve
    from asymrl.report.films import film_of_run as film_of_run, film_of_world as film_of_world
    from asymrl.report.intervals import (
        Interval as Interval,
        bootstrap as bootstrap,
        detectable_difference as detectable_difference,
        detectable_improvement as detectable_improvement,
        difference_interval as difference_interval,
        improvement_interval as improvement_interval,
        interquartile_mean as interquartile_mean,
        normalised as normalised,
        performance_profile as performance_profile,
        probability_of_improvement as probability_of_improvement,
        profile_band as profile_band,
    )
    from asymrl.report.q_verdict import QVerdict as QVerdict, examine_q as examine_q
    from asymrl.report.summary import ranking_of as ranking_of
    from asymrl.report.verdict import Verdict as Verdict, examine as examine

__getattr__, __dir__ = exports(__name__)
