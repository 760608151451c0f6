"""The beliefs that a point-based solver has visited, their successors, and the improvement of the bounds there.

A visited belief keeps its successors, and each successor keeps the best point and plan found for it, so that only
newer ones are compared with it. This makes it cheap to improve the upper bounds of all visited beliefs at once.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int
from scipy import sparse

from asymrl.theory.solvers.belief_mdp import BeliefModel
from asymrl.theory.solvers.deadline import Deadline
from asymrl.theory.solvers.hsvi_values import Growing, Sawtooth, Vectors
from asymrl.worlds.pomdp import Pomdp

BLOCK = 16  # beliefs whose successors are compared together
SWEEPS = 20  # of all visited beliefs after a trial, at most
EDGE = np.dtype(
    [
        ("node", np.int64),
        ("action", np.int64),
        ("observation", np.int64),
        ("probability", np.float64),
        ("plan", np.int64),  # the best one, and its value
        ("lower", np.float64),
    ]
)


class Backups:
    """One step of Bellman's equation: from vectors of the next step to vectors of this one."""

    def __init__(self, pomdp: Pomdp, discount: float):
        self.pomdp, self.discount, self.model = pomdp, discount, BeliefModel(pomdp)
        self.R = pomdp.R()
        state, action = pomdp.rows()
        goes_on = ~pomdp.done
        self._outcomes = []
        for a in range(pomdp.actions):
            mask = goes_on & (action == a)
            parts = state[mask], pomdp.observation[mask], pomdp.next_state[mask], pomdp.probability[mask]
            self._outcomes.append(parts)

    @property
    def most_outcomes(self) -> int:
        """The largest number of outcomes of an action."""
        return max(parts[0].size for parts in self._outcomes)

    def outcomes(self, action: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """State, observation, next state and probability of all outcomes of an action that go on."""
        return self._outcomes[action]

    def vector(self, action: int, alpha: Float64[np.ndarray, "O S"]) -> Float64[np.ndarray, "S"]:
        """The value in each state of an action, if `alpha[o]` are the values after observation o."""
        state, observation, next_state, probability = self._outcomes[action]
        ahead = np.bincount(state, probability * alpha[observation, next_state], minlength=self.pomdp.states)
        return self.R[:, action] + self.discount * ahead


class BeliefLayer:
    """The visited beliefs with the same number of steps to go. Belief i is point i of the sawtooth.

    Args:
        backups: of the world.
        vectors: the lower bound.
        sawtooth: the upper bound, without points.
        below: the layer with one step less to go; None if no step is left.
    """

    def __init__(
        self,
        backups: Backups,
        vectors: Vectors,
        sawtooth: Sawtooth,
        below: BeliefLayer | None,
    ):
        self.backups, self.vectors, self.sawtooth, self.below = backups, vectors, sawtooth, below
        self.notable = 0.0
        self._number: dict[bytes, int] = {}
        self._edges, self._successors = Growing(np.zeros(0, EDGE)), Growing(np.zeros((0, backups.pomdp.states)))
        self._first = Growing(np.zeros(1, int))
        # For each successor and action: the plane through the corners, the point whose cone is lowest and its share.
        none = np.zeros((0, backups.pomdp.actions))
        self._plain, self._point, self._share = Growing(none), Growing(none.astype(int)), Growing(none)
        self._rewards = Growing(np.zeros((0, backups.pomdp.actions)))
        # The time up to which the successors of each action know the points, and how many plans they know.
        self._compared = Growing(np.zeros((0, backups.pomdp.actions + 1), int))

    def __len__(self) -> int:
        return len(self._number)

    @property
    def numbers(self) -> int:
        """How many numbers the successors hold."""
        return self._successors.size * self.backups.pomdp.states

    def find(self, belief: Float64[np.ndarray, "S"]) -> int | None:
        """The number of a belief, if it was visited."""
        return self._number.get(_key(belief))

    def visit(self, belief: Float64[np.ndarray, "S"]) -> int:
        """The number of a belief; a new one gets its successors."""
        if (number := self.find(belief)) is not None:
            return number
        node = self._number[_key(belief)] = len(self)
        row = sparse.csr_array(belief[None])
        after = self.backups.model.successors(row)
        beliefs = after.beliefs.toarray()
        edges = np.zeros(len(beliefs), EDGE)
        edges["node"], edges["action"], edges["observation"] = node, after.action, after.observation
        edges["probability"] = after.probability
        assert self.below is not None
        plain = beliefs @ self.below.sawtooth.corners.T
        self._plain.append(plain)
        self._point.append(np.zeros(plain.shape, int))
        self._share.append(np.zeros(plain.shape))
        edges["lower"] = -np.inf
        self._edges.append(edges)
        self._successors.append(beliefs)
        self._first.append(np.array([self._edges.size]))
        self._rewards.append(self.backups.model.rewards(row))
        self._compared.append(np.zeros((1, self.backups.pomdp.actions + 1), int))
        self.sawtooth.add(belief, self.sawtooth.corners @ belief)
        return node

    def edges_of(self, node: int) -> np.ndarray:
        return self._edges.rows[self._range(node)]

    def successors_of(self, node: int) -> Float64[np.ndarray, "E S"]:
        return self._successors.rows[self._range(node)]

    def _range(self, node: int) -> slice:
        return slice(*self._first.rows[node : node + 2])

    def _edges_of_all(self, nodes: Int[np.ndarray, "k"]) -> Int[np.ndarray, "E"]:
        first = self._first.rows[nodes]
        count = self._first.rows[nodes + 1] - first
        return np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())

    def refresh(self, nodes: Int[np.ndarray, "k"], every_action: bool = False) -> None:
        """Compares the successors of beliefs with the points and plans that they do not know yet.

        Points are compared until the action with the largest upper bound knows them all, since it alone decides the
        bound of a belief; with `every_action`, for all of them.
        """
        assert self.below is not None
        compared, now, A = self._compared.rows, self.below.sawtooth.now, self.backups.pomdp.actions
        self._compare_plans(nodes)
        edges = self._edges_of_all(nodes)
        place = np.repeat(np.arange(nodes.size), self._first.rows[nodes + 1] - self._first.rows[nodes])
        action = self._edges.rows["action"][edges]
        pair, probability = place * A + action, self._edges.rows["probability"][edges]
        while True:
            stale = compared[nodes, :A] < now
            if not every_action:
                ahead = np.bincount(pair, probability * self._over(edges).max(1), minlength=nodes.size * A)
                q = self._rewards.rows[nodes] + self.backups.discount * ahead.reshape(-1, A)
                stale &= np.arange(A) == q.argmax(1)[:, None]
            if not stale.any():
                return
            rows, actions = np.nonzero(stale)
            self._compare_points(edges[stale[place, action]], int(compared[nodes[rows], actions].min()))
            compared[nodes[rows], actions] = now

    def _compare_points(self, edges: Int[np.ndarray, "k"], since: int) -> None:
        """Compares successors with the points that changed `since`."""
        assert self.below is not None
        tooth = self.below.sawtooth
        # An action that is worse than the best plan needs no upper bound.
        matters = self._over(edges) >= self._edges.rows["lower"][edges, None]
        least = np.where(matters, self.notable / 4, np.inf)
        incumbent = self._point.rows[edges], self._share.rows[edges]
        best = tooth.best(self._successors.rows[edges], tooth.changed(since), *incumbent, least)
        self._point.rows[edges], self._share.rows[edges] = best

    def _compare_plans(self, nodes: Int[np.ndarray, "k"]) -> None:
        """Compares the successors of beliefs with the plans that they do not know yet."""
        assert self.below is not None
        since = int(self._compared.rows[nodes, -1].min())
        if since < len(self.below.vectors):
            here = self._edges_of_all(nodes)
            plan, value = self.below.vectors.best(self._successors.rows[here], since)
            better = value > self._edges.rows["lower"][here]
            here = here[better]
            self._edges.rows["plan"][here], self._edges.rows["lower"][here] = plan[better], value[better]
            self._compared.rows[nodes, -1] = len(self.below.vectors)

    def over(self, here: slice) -> Float64[np.ndarray, "E"]:
        """The upper bounds of successors."""
        return self._over(here).max(1)

    def _over(self, here: slice | Int[np.ndarray, "E"]) -> Float64[np.ndarray, "E A"]:
        assert self.below is not None
        drops, plain = self.below.sawtooth.drops, self._plain.rows[here]
        if not drops.size:
            return plain
        return plain + self._share.rows[here] * drops[self._point.rows[here], np.arange(drops.shape[1])]

    def over_of(self, node: int) -> Float64[np.ndarray, "E"]:
        """The upper bounds of the successors of a belief."""
        return self.over(self._range(node))

    def q(self, node: int, values: Float64[np.ndarray, "E"]) -> Float64[np.ndarray, "A"]:
        """R(b, a) + g sum_o Pr(o | b, a) V(b')."""
        edges, actions = self.edges_of(node), self.backups.pomdp.actions
        ahead = np.bincount(edges["action"], edges["probability"] * values, minlength=actions)
        return self._rewards.rows[node] + self.backups.discount * ahead

    def _q_of_all(self, values: Float64[np.ndarray, "E"]) -> Float64[np.ndarray, "N A"]:
        """`q` of all visited beliefs."""
        edges, (N, A) = self._edges.rows, self._rewards.rows.shape
        ahead = np.bincount(edges["node"] * A + edges["action"], edges["probability"] * values, minlength=N * A)
        return self._rewards.rows + self.backups.discount * ahead.reshape(N, A)

    def improve(self, node: int) -> None:
        """Lowers the point of a belief and, if it is an improvement, adds a plan."""
        self.refresh(np.array([node]))
        self.sawtooth.lower(np.array([node]), self.q(node, self.over_of(node))[None], self.notable)
        self._add_plan(node)

    def _add_plan(self, node: int) -> None:
        """Adds the best plan for a belief, if it is an improvement there."""
        edges = self.edges_of(node)
        action = int(self.q(node, edges["lower"]).argmax())
        assert self.below is not None
        # After observations that are impossible here any plan is valid; this takes the first.
        then = np.zeros(self.backups.pomdp.observations, int)
        taken = edges["action"] == action
        then[edges["observation"][taken]] = edges["plan"][taken]
        alpha = self.backups.vector(action, self.below.vectors.alpha[then])
        belief = self.sawtooth.points[node]
        if float(belief @ alpha) > float(self.vectors.at(belief[None])[0]) + 1e-12:
            self.vectors.add(alpha, action, then)

    def sweep(self) -> None:
        """Lowers the points of all visited beliefs, using the best points that their successors know."""
        everything = np.arange(len(self))
        for _ in range(SWEEPS):
            new, values = self._q_of_all(self.over(slice(None))), self.sawtooth.values
            change = (values - new).max(initial=0.0)
            self.sawtooth.lower(everything, new, self.notable)
            if self.below is not self or change < self.notable:
                return

    def refresh_all(self, deadline: Deadline) -> None:
        """Lowers the points of all visited beliefs, after comparing their successors with new points."""
        for start in range(0, len(self), BLOCK):
            if deadline.is_over:
                return
            self.refresh(np.arange(start, min(start + BLOCK, len(self))))
        self.sweep()

    def raise_plans(self, deadline: Deadline) -> None:
        """Adds plans for the visited beliefs whose values they raise notably, the largest rise first."""
        assert self.below is not None
        for start in range(0, len(self), BLOCK):
            if deadline.is_over:
                return
            self._compare_plans(np.arange(start, min(start + BLOCK, len(self))))
        points, vector_count = self.sawtooth.points, len(self.vectors)
        values = self._q_of_all(self._edges.rows["lower"]).max(1)
        rise = values - self.vectors.at(points)
        for node in np.argsort(-rise)[: np.count_nonzero(rise > self.notable)]:
            if deadline.is_over:
                return
            # A plan that was added for another belief may do as well here.
            if self.vectors.best(points[node : node + 1], since=vector_count)[1][0] < values[node] - self.notable / 2:
                self._add_plan(node)
        if self.below is self:
            # A plan that is best nowhere is hardly ever missed.
            self.vectors.keep(np.union1d(self._edges.rows["plan"], self.vectors.best(points)[0]))

    def lower_corners(self, deadline: Deadline) -> None:
        """Improves the bound where the state is known, and with it the planes through the corners."""
        corners = self._visit_corners(deadline)
        for start in range(0, corners.size, BLOCK):
            if deadline.is_over:
                return
            self.refresh(corners[start : start + BLOCK], every_action=True)
        for node in corners:
            if deadline.is_over:
                return
            self._add_plan(node)
        self.sweep()
        if corners.size == self.backups.pomdp.states:
            self.sawtooth.lower_corners(self.sawtooth.values[corners].T)
            self._plain.rows[:] = self._successors.rows @ self.sawtooth.corners.T

    def _visit_corners(self, deadline: Deadline) -> Int[np.ndarray, "k"]:
        """The beliefs in which the state is known; fewer if the time is over."""
        nodes, belief = [], np.zeros(self.backups.pomdp.states)
        for state in range(belief.size):
            if deadline.is_over:
                break
            belief[state] = 1.0
            nodes.append(self.visit(belief))
            belief[state] = 0.0
        return np.array(nodes, int)

    def upper_with_steps(
        self, quick: Float64[np.ndarray, "K A S"], deadline: Deadline
    ) -> Float64[np.ndarray, "N A"] | None:
        """Upper bounds on Q in the visited beliefs with K - 1 steps to go; None if there is not enough time for all.

        For each number of steps, the sawtooth goes through the same points, and its corners are at most `quick`.
        """
        states, points, planes = np.eye(quick.shape[2]), self.sawtooth.points, quick[0]
        nodes = np.array([-1 if (node := self.find(state)) is None else node for state in states])
        corners, actions = np.flatnonzero(nodes >= 0), np.arange(quick.shape[1])
        values, begun = points @ planes.T, deadline.left
        for step, bound in enumerate(quick[1:], start=1):
            drops = np.minimum(values - points @ planes.T, 0.0)
            over = self._successors.rows @ planes.T + self._share.rows * drops[self._point.rows, actions]
            values, planes = self._q_of_all(over.max(1)), bound.copy()
            planes[:, corners] = np.minimum(planes[:, corners], values[nodes[corners]].T)
            values = np.minimum(values, points @ planes.T)
            if (begun - deadline.left) * (len(quick) - 1) > begun * step:
                return None
        return values


def _key(belief: Float64[np.ndarray, "S"]) -> bytes:
    return np.round(belief, 12).tobytes()
