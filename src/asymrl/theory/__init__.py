"""The paper's theory as exact arithmetic on finite POMDPs, in float64. Nothing here is sampled or learned.

    >>> import asymrl
    >>> analysis = asymrl.theory.analyse("tiger", horizon=4)
    >>> analysis.V(())

`analyse(world, policy)` gives an `Analysis`: values, beliefs, biases, gradients and variances. A policy can be any of
`Controller`, `reactive`, `uniform`, `WindowPolicy`, `BeliefPolicy`, `EpsilonSoft`, a plain function of the history, or
a subclass of `HistoryPolicy`. `asymrl.solvers` has optimal policies, `asymrl.audit` those of trained networks.
"""

from asymrl.theory.analysis import Analysis as Analysis, analyse as analyse, as_pomdp as as_pomdp
from asymrl.theory.beliefs import belief_of as belief_of
from asymrl.theory.conditions import StateValue as StateValue
from asymrl.theory.gradients import Gradient as Gradient
from asymrl.theory.graphs.unrolling import realisable as realisable
from asymrl.theory.histories import (
    History as History,
    TooLargeError as TooLargeError,
    count_histories as count_histories,
)
from asymrl.theory.policies import (
    BeliefPolicy as BeliefPolicy,
    Controller as Controller,
    EpsilonSoft as EpsilonSoft,
    FunctionPolicy as FunctionPolicy,
    HistoryPolicy as HistoryPolicy,
    WindowPolicy as WindowPolicy,
    reactive as reactive,
    uniform as uniform,
)
from asymrl.theory.q_learning import (
    Q_METHODS as Q_METHODS,
    QFixedPoint as QFixedPoint,
    q_fixed_point as q_fixed_point,
)
from asymrl.theory.reading_worth import (
    READINGS as READINGS,
    ReadingWorth as ReadingWorth,
    compare_readings as compare_readings,
    examine_reading as examine_reading,
)
from asymrl.theory.readings import (
    LearnedCritic as LearnedCritic,
    named_inputs as named_inputs,
    signal_labels as signal_labels,
)
from asymrl.theory.state_values import CRITICS as CRITICS
from asymrl.worlds.belief_filter import BeliefFilter as BeliefFilter
