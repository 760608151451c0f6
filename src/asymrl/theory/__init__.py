"""The paper's theory as exact arithmetic on finite POMDPs: beliefs, values, bias, variance and gradients in float64.

    >>> import asymrl
    >>> analysis = asymrl.theory.analyse("tiger", horizon=4)
    >>> analysis.V(())

Only `asymrl.audit.actor`, which makes policies of trained runs, and `asymrl.audit.auditing` with
`asymrl.audit.critic_network`, which judge trained critics, know more of the project than the worlds; `audit` is
therefore imported when it is first asked for.
"""

from typing import TYPE_CHECKING, Any

from asymrl.theory.analysis import Analysis as Analysis
from asymrl.theory.analysis import analyse as analyse
from asymrl.theory.analysis import as_pomdp as as_pomdp
from asymrl.theory.beliefs import BeliefFilter as BeliefFilter
from asymrl.theory.beliefs import belief_of as belief_of
from asymrl.theory.counting import TooLargeError as TooLargeError
from asymrl.theory.critics import CRITICS as CRITICS
from asymrl.theory.histories import realisable as realisable
from asymrl.theory.policies import BeliefPolicy as BeliefPolicy
from asymrl.theory.policies import Controller as Controller
from asymrl.theory.policies import History as History
from asymrl.theory.policies import Policy as Policy
from asymrl.theory.policies import Soft as Soft
from asymrl.theory.policies import reactive as reactive
from asymrl.theory.policies import uniform as uniform
from asymrl.theory.policies import window as window

if TYPE_CHECKING:
    from asymrl.audit.auditing import audit as audit


def __getattr__(name: str) -> Any:
    if name != "audit":
        raise AttributeError(f"module 'asymrl.theory' has no attribute {name!r}")
    from asymrl.audit.auditing import audit

    return audit
