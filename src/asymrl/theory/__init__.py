"""The paper's theory as exact arithmetic on finite POMDPs, in float64. Nothing here is sampled or learned.

    >>> import asymrl
    >>> analysis = asymrl.theory.analyse("tiger", horizon=4)
    >>> analysis.V(())

`analyse(world, policy)` gives an `Analysis`: values, beliefs, biases, gradients and variances. A policy can be any of
`Controller`, `reactive`, `uniform`, `WindowPolicy`, `BeliefPolicy`, `EpsilonSoft`, a plain function of the history, or
a subclass of `HistoryPolicy`. `asymrl.solvers` has optimal policies, `asymrl.audit` those of trained networks.
"""

from asymrl.theory.analysis import Analysis as Analysis
from asymrl.theory.analysis import analyse as analyse
from asymrl.theory.analysis import as_pomdp as as_pomdp
from asymrl.theory.beliefs import BeliefFilter as BeliefFilter
from asymrl.theory.beliefs import belief_of as belief_of
from asymrl.theory.conditions import StateValue as StateValue
from asymrl.theory.critic_signals import SignalWorth as SignalWorth
from asymrl.theory.critic_signals import examine_signal as examine_signal
from asymrl.theory.gradients import Gradient as Gradient
from asymrl.theory.histories import History as History
from asymrl.theory.histories import TooLargeError as TooLargeError
from asymrl.theory.histories import count_histories as count_histories
from asymrl.theory.policies import BeliefPolicy as BeliefPolicy
from asymrl.theory.policies import Controller as Controller
from asymrl.theory.policies import EpsilonSoft as EpsilonSoft
from asymrl.theory.policies import FunctionPolicy as FunctionPolicy
from asymrl.theory.policies import HistoryPolicy as HistoryPolicy
from asymrl.theory.policies import WindowPolicy as WindowPolicy
from asymrl.theory.policies import reactive as reactive
from asymrl.theory.policies import uniform as uniform
from asymrl.theory.state_values import CRITICS as CRITICS
from asymrl.theory.unrolling import realisable as realisable
