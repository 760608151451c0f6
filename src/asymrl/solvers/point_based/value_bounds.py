"""Bounds on the optimal value that hold in every belief and tighten as beliefs are added.

The lower bound is a set of vectors, each the value of a plan in every state; its value at b is the largest b . alpha.
The upper bound interpolates between points (b, v) and the corners of the simplex ("sawtooth"): the optimal value is
convex, so that no mixture of beliefs is worth more than the mixture of their values.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int

HEAVIEST = 4  # states of a point that are compared first
TINY = 1e-300  # added to probabilities, so that zero times the inverse of zero is one
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
    """A lower bound: max over plans of b . alpha, and the first action of each plan.

    Plans keep their numbers: one that others dominate is marked, and compared no more.
    """

    def __init__(self, alpha: Float64[np.ndarray, "n S"], action: Int[np.ndarray, "n"]):
        self._alpha, self._action, self._useful = Growing(alpha), Growing(action), Growing(np.ones(len(alpha), bool))

    def __len__(self) -> int:
        return self._alpha.size

    @property
    def alpha(self) -> Float64[np.ndarray, "n S"]:
        return self._alpha.rows

    @property
    def action(self) -> Int[np.ndarray, "n"]:
        return self._action.rows

    @property
    def useful(self) -> Int[np.ndarray, "m"]:
        """The numbers of the plans that no other one dominates."""
        return np.flatnonzero(self._useful.rows)

    def at(self, beliefs: Float64[np.ndarray, "N S"]) -> Float64[np.ndarray, "N"]:
        return self.best(beliefs)[1]

    def best(
        self, beliefs: Float64[np.ndarray, "N S"], since: int = 0
    ) -> tuple[Int[np.ndarray, "N"], Float64[np.ndarray, "N"]]:
        """The number of the best plan in each belief, among those added `since`, and its value."""
        numbers = self.useful
        numbers = numbers[np.searchsorted(numbers, since) :]
        if not numbers.size:
            return np.zeros(len(beliefs), int), np.full(len(beliefs), -np.inf)
        values = beliefs @ self.alpha[numbers].T
        best = values.argmax(1)
        return numbers[best], values[np.arange(len(beliefs)), best]

    def add(self, alpha: Float64[np.ndarray, "S"], action: int) -> None:
        """Adds a plan, and marks those that it dominates."""
        useful = self.useful
        self._useful.rows[useful[(self.alpha[useful] <= alpha).all(1)]] = False
        self._alpha.append(alpha[None])
        self._action.append(np.array([action]))
        self._useful.append(np.ones(1, bool))


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
        """The points that were added or lowered after this time, which `now` gave."""
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
        among = among[(self.drops[among] < 0).any(1)]
        if not among.size:
            return point, share
        point, share, drops = point.copy(), share.copy(), self.drops[among]
        lowest = share * self.drops[point, np.arange(point.shape[1])]
        limit = lowest - least

        def compare(row: np.ndarray, place: np.ndarray) -> None:
            """Compares pairs of a belief and a point, sorted by belief."""
            exact = self.share(beliefs, row, among[place])
            cones = exact[:, None] * drops[place]
            start = np.diff(row, prepend=-1) > 0
            winner = np.minimum.reduceat(cones, np.flatnonzero(start))[np.cumsum(start) - 1]
            pair, a = np.nonzero((cones == winner) & (cones < lowest[row]))
            at = row[pair]
            point[at, a], share[at, a], lowest[at, a] = among[place[pair]], exact[pair], cones[pair, a]

        # A belief's share of a point is at most that in the point's heaviest states, which rules out most pairs.
        most = self._share_at_most(beliefs, among)

        def gains(rows: np.ndarray) -> np.ndarray:
            """How far the cones are below the limits, at most."""
            gain = most[rows] * drops[:, 0] - limit[rows, 0, None]
            for a in range(1, point.shape[1]):
                np.minimum(gain, most[rows] * drops[:, a] - limit[rows, a, None], out=gain)
            return gain

        gain = gains(np.arange(len(beliefs)))
        nearest = gain.argmin(1)
        rows = np.flatnonzero(gain.min(1) < 0)
        if not rows.size:
            return point, share
        compare(rows, nearest[rows])
        np.minimum(limit, lowest - least, out=limit)
        row, place = np.nonzero(gains(rows) < 0)
        row = rows[row]
        for start in range(0, row.size, _PAIRS):
            part = slice(start, start + _PAIRS)
            compare(row[part], place[part])
        return point, share

    def _share_at_most(
        self, beliefs: Float64[np.ndarray, "N S"], among: Int[np.ndarray, "m"]
    ) -> Float64[np.ndarray, "N m"]:
        heaviest = self._heaviest.rows[among]
        most = np.full((len(beliefs), among.size), 1.0)
        for state in heaviest.T:
            np.minimum(most, beliefs[:, state] * self._inverse.rows[among, state], out=most)
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
        self._heaviest.append(np.where(belief[heavy] > 0, heavy, heavy[0])[None])
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
