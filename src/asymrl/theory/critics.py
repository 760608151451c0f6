"""What each kind of critic would say at every pair (h, s), if it had learned as well as it can."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from asymrl.theory.state_values import StateValues

CRITICS = ("h", "hs", "timed-mc", "timed-td", "mc", "td0", "td-lambda")
"""V(h); V(h, s); the two timed V_t(s); the time-less V(s) from Monte-Carlo, TD(0) and TD(lambda) targets."""


@dataclass(frozen=True, eq=False)
class Critics:
    """Critics as arrays over the pairs of a graph."""

    states: StateValues
    lambda_: float = 0.7

    def __call__(self, name: str | Float64[np.ndarray, "pairs"]) -> Float64[np.ndarray, "pairs"]:
        """The critic with this name, one of CRITICS; an array with a value for each pair is a critic already."""
        if isinstance(name, np.ndarray):
            return name
        graph, values = self.states.graph, self.states.values
        if name == "h":
            return values.V_h[graph.node]
        if name == "hs":
            return values.V_hs
        if name.startswith("timed-") and name in CRITICS:
            if graph.stationary:
                raise ValueError(f"critic {name!r} needs the time, which a problem without a horizon does not count")
            timed = self.states.timed_mc if name == "timed-mc" else self.states.timed_td
            return timed[graph.time[graph.node], graph.state]
        if name in CRITICS:
            V = {"mc": lambda: self.states.visit_mc, "td0": lambda: self.states.visit_td}.get(
                name, lambda: self.states.visit_td_lambda(self.lambda_)
            )()
            # A state in which no action follows is never learned; its true mean stands in.
            return np.where(self.states.met, V, 0.0)[graph.state] + np.where(
                self.states.met[graph.state], 0.0, values.V_hs
            )
        raise ValueError(f"unknown critic {name!r}; choose one of {', '.join(CRITICS)}")
