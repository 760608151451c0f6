"""The paper's theory as exact arithmetic on finite POMDPs, in float64. Nothing here is sampled or learned.

    >>> import asymrl
    >>> analysis = asymrl.theory.analyse("tiger", horizon=4)
    >>> analysis.V(())

`analyse(world, policy)` gives an `Analysis`: values, beliefs, biases, gradients and variances. A policy can be any of
`Controller`, `reactive`, `uniform`, `WindowPolicy`, `BeliefPolicy`, `EpsilonSoft`, a plain function of the history, or
a subclass of `HistoryPolicy`. `asymrl.theory.solvers` has optimal policies, `asymrl.theory.audit` those of trained
networks.
"""

from typing import TYPE_CHECKING

from asymrl.lazy import exports
from asymrl.theory.exact.analysis import Analysis as Analysis, analyse as analyse, as_pomdp as as_pomdp
from asymrl.theory.exact.beliefs import belief_of as belief_of
from asymrl.theory.exact.conditions import StateValue as StateValue
from asymrl.theory.exact.gradients import Gradient as Gradient
from asymrl.theory.exact.graph_builder import realisable as realisable
from asymrl.theory.exact.histories import (
    History as History,
    TooLargeError as TooLargeError,
    count_histories as count_histories,
)
from asymrl.theory.exact.policies import (
    BeliefPolicy as BeliefPolicy,
    Controller as Controller,
    EpsilonSoft as EpsilonSoft,
    FunctionPolicy as FunctionPolicy,
    HistoryPolicy as HistoryPolicy,
    WindowPolicy as WindowPolicy,
    reactive as reactive,
    uniform as uniform,
)
from asymrl.theory.exact.q_learning import (
    Q_METHODS as Q_METHODS,
    QFixedPoint as QFixedPoint,
    q_fixed_point as q_fixed_point,
)
from asymrl.theory.exact.reading_worth import (
    READINGS as READINGS,
    ReadingWorth as ReadingWorth,
    compare_readings as compare_readings,
    examine_reading as examine_reading,
)
from asymrl.theory.exact.readings import (
    LearnedCritic as LearnedCritic,
    named_inputs as named_inputs,
    signal_labels as signal_labels,
)
from asymrl.theory.exact.state_values import CRITICS as CRITICS
from asymrl.worlds.critic_inputs import BeliefFilter as BeliefFilter

if TYPE_CHECKING:
    from asymrl.theory import audit as audit, exact as exact, solvers as solvers

__getattr__, __dir__ = exports(__name__)
