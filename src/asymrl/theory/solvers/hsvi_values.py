"""Bounds on the optimal value that hold in every belief and tighten as beliefs are added.

The lower bound is a set of vectors, each the value of a plan in every state; its value at b is the largest b . alpha.
The upper bound interpolates between points (b, v) and the corners of the simplex ("sawtooth"): the optimal value is
convex, so that no mixture of beliefs is worth more than the mixture of their values.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float32, Float64, Int

HEAVIEST = 4  # states of a point that are compared first
TINY = 1e-300  # added to probabilities, so that zero times the inverse of zero is one
SMALLEST = 1e-30  # probability that is distinguished from zero in float32
ROUNDING = 1e-5  # of a product in float32, relative to the deepest point
DOMINATED = 0.25  # the share of dominated plans at which they are left out
_PAIRS = 512  # of a belief and a point, compared together


class Growing:
    """An array that grows by rows, in amortised constant time."""

    def __init__(self, rows: np.ndarray):
        self._rows, self.size = rows, len(rows)

    @property
    def rows(self) -> np.ndarray:
        return self._rows[: self.size]

    def append(self, rows: np.ndarray) -> None:
        size = self.size + len(rows)
        if size > len(self._rows):
            larger = np.empty((max(2 * len(self._rows), size, 16), *self._rows.shape[1:]), self._rows.dtype)
            larger[: self.size] = self.rows
            self._rows = larger
        self._rows[self.size : size] = rows
        self.size = size


class Vectors:
    """A lower bound: max over plans of b . alpha. A plan is an action, and a plan to follow after each observation.

    Plans keep their numbers: one that is dominated or forgotten is no longer compared.

    Args:
        alpha: the value of each plan in each state.
        action: the first action of each plan.
        observations: how many there are. At first each plan is followed by itself.
    """

    def __init__(self, alpha: Float64[np.ndarray, "n S"], action: Int[np.ndarray, "n"], observations: int = 0):
        self._alpha, self._action = Growing(alpha), Growing(action)
        self._then = Growing(np.repeat(np.arange(len(alpha))[:, None], observations, 1))
        # The plans that are compared, without gaps; some of them may be dominated.
        self._numbers, self._compared = Growing(np.arange(len(alpha))), Growing(alpha)
        self._dominated = Growing(np.zeros(len(alpha), bool))

    def __len__(self) -> int:
        return self._alpha.size

    @property
    def alpha(self) -> Float64[np.ndarray, "n S"]:
        return self._alpha.rows

    @property
    def action(self) -> Int[np.ndarray, "n"]:
        return self._action.rows

    @property
    def then(self) -> Int[np.ndarray, "n O"]:
        """The plan after each observation: a number in the layer below."""
        return self._then.rows

    @property
    def useful(self) -> Int[np.ndarray, "m"]:
        """The numbers of the plans that are neither dominated nor forgotten."""
        return self._numbers.rows[~self._dominated.rows]

    def at(self, beliefs: Float64[np.ndarray, "N S"]) -> Float64[np.ndarray, "N"]:
        return self.best(beliefs)[1]

    def best(
        self, beliefs: Float64[np.ndarray, "N S"], since: int = 0
    ) -> tuple[Int[np.ndarray, "N"], Float64[np.ndarray, "N"]]:
        """The number of the best plan in each belief, among those added `since`, and its value."""
        first = np.searchsorted(self._numbers.rows, since)
        if first == self._numbers.size:
            return np.zeros(len(beliefs), int), np.full(len(beliefs), -np.inf)
        values = beliefs @ self._compared.rows[first:].T
        best = values.argmax(1)
        return self._numbers.rows[first + best], values[np.arange(len(beliefs)), best]

    def add(self, alpha: Float64[np.ndarray, "S"], action: int, then: Int[np.ndarray, "O"] | None = None) -> None:
        """Adds a plan, and marks those that it dominates."""
        compared, lowest = self._compared.rows, int(alpha.argmin())
        candidates = np.flatnonzero(compared[:, lowest] <= alpha[lowest])
        self._dominated.rows[candidates[(compared[candidates] <= alpha).all(1)]] = True
        self._numbers.append(np.array([len(self)]))
        self._compared.append(alpha[None])
        self._dominated.append(np.zeros(1, bool))
        self._alpha.append(alpha[None])
        self._action.append(np.array([action]))
        self._then.append(np.zeros((1, self._then.rows.shape[1]), int) if then is None else then[None])
        if np.count_nonzero(self._dominated.rows) > self._numbers.size * DOMINATED:
            self.keep(self.useful)

    def keep(self, numbers: Int[np.ndarray, "m"]) -> None:
        """Forgets all other plans."""
        mask = np.isin(self._numbers.rows, numbers) & ~self._dominated.rows
        self._numbers, self._compared = Growing(self._numbers.rows[mask]), Growing(self._compared.rows[mask])
        self._dominated = Growing(np.zeros(self._numbers.size, bool))


class Sawtooth:
    """An upper bound on Q(b, a): for each action the lowest of the cones from points (b_i, Q_i) to the corners.

    Q(., a) is convex for each action, and the maximum of the interpolations is below the interpolation of the maximum.
    """

    def __init__(self, corners: Float64[np.ndarray, "A S"]):
        self.corners = corners
        actions, states = corners.shape
        self._points = Growing(np.zeros((0, states)))
        self._values, self._drops = Growing(np.zeros((0, actions))), Growing(np.zeros((0, actions)))
        self._noted, self._changed = Growing(np.zeros((0, actions))), Growing(np.zeros(0, int))
        self._heaviest = Growing(np.zeros((0, min(HEAVIEST, states)), int))
        self._weights = Growing(np.zeros((0, min(HEAVIEST, states)), np.float32))  # their inverse probabilities
        self._inverse = Growing(np.zeros((0, states)))
        self.now = 0
        """A count of the changes so far."""

    def __len__(self) -> int:
        return self._points.size

    @property
    def points(self) -> Float64[np.ndarray, "n S"]:
        return self._points.rows

    @property
    def values(self) -> Float64[np.ndarray, "n A"]:
        """The bound on Q at each point."""
        return self._values.rows

    @property
    def drops(self) -> Float64[np.ndarray, "n A"]:
        """How far each point is below the plane through the corners, as a number of at most zero."""
        return self._drops.rows

    def at(self, beliefs: Float64[np.ndarray, "N S"]) -> Float64[np.ndarray, "N"]:
        """The bound at beliefs."""
        plain = beliefs @ self.corners.T
        if len(self):
            none = np.zeros(plain.shape)
            point, share = self.best(beliefs, np.arange(len(self)), none.astype(int), none)
            plain += share * self.drops[point, np.arange(plain.shape[1])]
        return plain.max(1)

    def changed(self, since: int) -> Int[np.ndarray, "m"]:
        """The points that were added or lowered after this time, an earlier value of `now`."""
        return np.flatnonzero(self._changed.rows > since)

    def best(
        self,
        beliefs: Float64[np.ndarray, "N S"],
        among: Int[np.ndarray, "m"],
        point: Int[np.ndarray, "N A"],
        share: Float64[np.ndarray, "N A"],
        least: Float64[np.ndarray, "N A"] | float = 0.0,
    ) -> tuple[Int[np.ndarray, "N A"], Float64[np.ndarray, "N A"]]:
        """The point whose cone is lowest at each belief and for each action, and the belief's share of that point.

        The share is min_s b(s) / b_i(s), so that b is this share of b_i and otherwise corners. Points of `among` are
        compared with the best ones so far, which are given; what improves the bound by less than `least` is left out.
        """
        if not len(self) or not len(beliefs):
            return point, share
        lowest = share * self.drops[point, np.arange(point.shape[1])]
        limit = lowest - least
        # A cone is at most as deep as its point, which rules out some points and actions.
        drops, reach = self.drops[among], limit.max(0)
        among = among[(drops < reach).any(1)]
        actions = np.flatnonzero((drops < reach).any(0))
        if not among.size:
            return point, share
        point, share, drops = point.copy(), share.copy(), self.drops[among]

        def compare(row: np.ndarray, place: np.ndarray) -> None:
            """Compares pairs of a belief and a point, sorted by belief."""
            exact = self.share(beliefs, row, among[place])
            cones = exact[:, None] * drops[place]
            start = np.diff(row, prepend=-1) > 0
            winner = np.minimum.reduceat(cones, np.flatnonzero(start))[np.cumsum(start) - 1]
            pair, a = np.nonzero((cones == winner) & (cones < lowest[row]))
            at = row[pair]
            point[at, a], share[at, a], lowest[at, a] = among[place[pair]], exact[pair], cones[pair, a]

        # A belief's share of a point is at most that in the point's heaviest states, which rules out most pairs. For
        # that float32 is enough, if pairs that are nearly ruled out are compared.
        most, sinks = self._share_at_most(beliefs, among), drops.astype(np.float32)
        nearly = ROUNDING * float(-sinks.min())

        def gains(rows: np.ndarray | slice) -> np.ndarray:
            """How far the cones are below the limits, at most."""
            shares, limits = most[rows], limit[rows].astype(np.float32)
            gain = shares * sinks[:, actions[0]] - limits[:, actions[0], None]
            for a in actions[1:]:
                np.minimum(gain, shares * sinks[:, a] - limits[:, a, None], out=gain)
            return gain

        gain = gains(slice(None))
        nearest = gain.argmin(1)
        rows = np.flatnonzero(gain[np.arange(len(beliefs)), nearest] < nearly)
        if not rows.size:
            return point, share
        compare(rows, nearest[rows])
        np.minimum(limit, lowest - least, out=limit)
        row, place = np.nonzero(gains(rows) < nearly)
        row = rows[row]
        for start in range(0, row.size, _PAIRS):
            part = slice(start, start + _PAIRS)
            compare(row[part], place[part])
        return point, share

    def _share_at_most(
        self, beliefs: Float64[np.ndarray, "N S"], among: Int[np.ndarray, "m"]
    ) -> Float32[np.ndarray, "N m"]:
        rounded, heaviest, inverse = beliefs.astype(np.float32), self._heaviest.rows[among], self._weights.rows[among]
        most = np.full((len(beliefs), among.size), 1.0, np.float32)
        for place, state in enumerate(heaviest.T):
            np.minimum(most, rounded[:, state] * inverse[:, place], out=most)
        return most

    def share(
        self, beliefs: Float64[np.ndarray, "N S"], row: Int[np.ndarray, "k"], point: Int[np.ndarray, "k"]
    ) -> Float64[np.ndarray, "k"]:
        """min_s b(s) / b_i(s) for pairs of a belief and a point."""
        return np.minimum(((beliefs + TINY)[row] * self._inverse.rows[point]).min(1), 1.0)

    def add(self, belief: Float64[np.ndarray, "S"], values: Float64[np.ndarray, "A"]) -> int:
        """Adds a point and returns its number."""
        self.now += 1
        self._points.append(belief[None])
        self._values.append(values[None])
        self._noted.append(values[None])
        self._drops.append(np.minimum(values - self.corners @ belief, 0.0)[None])
        self._changed.append(np.array([self.now]))
        heavy = np.argsort(-belief)[: self._heaviest.rows.shape[1]]
        heavy = np.where(belief[heavy] > 0, heavy, heavy[0])
        self._heaviest.append(heavy[None])
        self._weights.append(1 / np.maximum(belief[heavy], SMALLEST)[None].astype(np.float32))
        self._inverse.append(np.where(belief > 0, 1 / np.maximum(belief, TINY**0.5), 1 / TINY)[None])
        return len(self) - 1

    def lower(self, number: Int[np.ndarray, "k"], values: Float64[np.ndarray, "k A"], notable: float) -> None:
        """Lowers points. Those that have sunk by more than `notable` count as changed."""
        self.now += 1
        values = np.minimum(self.values[number], values)
        self.values[number] = values
        self.drops[number] = np.minimum(values - self.points[number] @ self.corners.T, 0.0)
        sunk = number[(self._noted.rows[number] - values > notable).any(1)]
        self._noted.rows[sunk] = self.values[sunk]
        self._changed.rows[sunk] = self.now

    def lower_corners(self, corners: Float64[np.ndarray, "A S"]) -> None:
        """Lowers the values at the corners."""
        self.corners = np.minimum(self.corners, corners)
        self.drops[:] = np.minimum(self.values - self.points @ self.corners.T, 0.0)
