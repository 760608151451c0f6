"""The belief MDP of a finite POMDP: the reachable beliefs and the transitions between them.

A belief is the distribution of the state given the history *and that the episode goes on*: an action that could have
ended the episode and did not is informative too. Beliefs are rows of sparse matrices, and many are advanced at once.

Two beliefs count as equal if all their probabilities agree when rounded to twelve decimals; the first one represents
them all. (Two values on different sides of a rounding boundary stay different, which costs a node and no accuracy.)
Values of merged beliefs differ by at most 1e-12 times |S| times the largest value, which is exact for every purpose.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int, UInt64
from scipy import sparse

from asymrl.theory.exact.beliefs import fingerprint
from asymrl.theory.solvers.deadline import Deadline
from asymrl.worlds.pomdp import Pomdp

LIMIT = 200_000  # beliefs; with their successors this stays well below a gigabyte
_BLOCK = 500_000  # entries of the beliefs that are advanced together, times the number of actions


class TooManyBeliefsError(ValueError):
    """More beliefs than fit. `depth` is the largest depth that fits, and `beliefs` the number of its beliefs."""

    def __init__(self, name: str, limit: int, depth: int, beliefs: int):
        self.depth, self.beliefs = depth, beliefs
        super().__init__(
            f"{name}: more than {limit} beliefs can be reached in {depth + 1} steps. Choose depth {depth} at most, "
            f"which has {beliefs}, or raise the limit"
        )


def count(beliefs: sparse.csr_array) -> int:
    """The number of rows."""
    return beliefs.indptr.size - 1


class Successors(NamedTuple):
    """The successors of some beliefs: one entry for each possible belief, action and observation.

    Entries are sorted by belief, action and observation. Their probabilities sum to less than one for an action that
    may end the episode.
    """

    belief: Int[np.ndarray, "E"]
    action: Int[np.ndarray, "E"]
    observation: Int[np.ndarray, "E"]
    probability: Float64[np.ndarray, "E"]
    beliefs: sparse.csr_array


class BeliefModel:
    """Advances sparse beliefs of a POMDP, many at a time."""

    def __init__(self, pomdp: Pomdp):
        self.pomdp = pomdp
        state, action = pomdp.rows()
        goes_on = ~pomdp.done
        pair = action * pomdp.observations + pomdp.observation
        # Only possible triples (a, o, s') get a column, in sorted order.
        columns, column = np.unique((pair * pomdp.states + pomdp.next_state)[goes_on], return_inverse=True)
        self._pair, self._next_state = np.divmod(columns, pomdp.states)
        entries = (pomdp.probability[goes_on], (state[goes_on], column))
        self._joint = sparse.csr_array(entries, shape=(pomdp.states, columns.size))
        self._rewards = pomdp.R()

    def first(self) -> Successors:
        """The beliefs before the first action; `observation` is the first one (|O|: the constant symbol)."""
        pomdp = self.pomdp
        if pomdp.first_observation is None:
            observation, joint = np.array([pomdp.observations]), pomdp.start[None]
        else:
            joint = (pomdp.start[:, None] * pomdp.first_observation).T
            observation = np.flatnonzero(joint.sum(1))
            joint = joint[observation]
        probability = joint.sum(1)
        none = np.zeros(observation.size, int)
        return Successors(none, none, observation, probability, sparse.csr_array(joint / probability[:, None]))

    def rewards(self, beliefs: sparse.csr_array) -> Float64[np.ndarray, "N A"]:
        """The expected reward of each action."""
        return beliefs @ self._rewards

    def successors(self, beliefs: sparse.csr_array) -> Successors:
        """Bayes' rule for all beliefs, all actions and all observations that are possible."""
        joint = sparse.csr_array(beliefs @ self._joint)
        joint.sort_indices()
        row = np.repeat(np.arange(count(joint)), np.diff(joint.indptr))
        pair = self._pair[joint.indices]
        pairs = self.pomdp.actions * self.pomdp.observations
        group, entry_group = np.unique(row * pairs + pair, return_inverse=True)
        probability = np.bincount(entry_group, joint.data, minlength=group.size)
        offsets = np.searchsorted(entry_group, np.arange(group.size + 1))
        following = sparse.csr_array(
            (joint.data / probability[entry_group], self._next_state[joint.indices], offsets),
            shape=(group.size, self.pomdp.states),
        )
        parent, pair = np.divmod(group, pairs)
        action, observation = np.divmod(pair, self.pomdp.observations)
        return Successors(parent, action, observation, probability, following)


def belief_keys(beliefs: sparse.csr_array) -> UInt64[np.ndarray, "N 2"]:
    """128 bits for each row, equal for equal rounded beliefs; a collision is practically impossible."""
    row = np.repeat(np.arange(count(beliefs)), np.diff(beliefs.indptr))
    return fingerprint(row, beliefs.indices, beliefs.data, count(beliefs)).view(np.uint64)


class Numbering:
    """Numbers beliefs in the order in which they are added."""

    def __init__(self):
        self._number: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._number)

    def add(self, beliefs: sparse.csr_array) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "fresh"]]:
        """The number of each belief, and the rows of the new ones in the order of their numbers."""
        keys = belief_keys(beliefs).tobytes()
        numbers, fresh = np.empty(count(beliefs), np.int64), []
        for row in range(count(beliefs)):
            key = keys[16 * row : 16 * row + 16]
            if key not in self._number:
                self._number[key] = len(self._number)
                fresh.append(row)
            numbers[row] = self._number[key]
        return numbers, np.array(fresh, np.int64)

    def find(self, belief: sparse.csr_array) -> int | None:
        """The number of one belief, if it has one."""
        return self._number.get(belief_keys(belief)[0].tobytes())


@dataclass(frozen=True)
class BeliefGraph:
    """The beliefs that can be reached from the start, and the edges between them.

    Belief `i` is first reached after `depth[i]` steps. Edges are sorted by belief, action and observation. Beliefs at
    the largest depth have no edges: their successors were not computed.
    """

    pomdp: Pomdp
    beliefs: sparse.csr_array
    depth: Int[np.ndarray, "N"]
    rewards: Float64[np.ndarray, "N A"]
    belief: Int[np.ndarray, "E"]
    action: Int[np.ndarray, "E"]
    observation: Int[np.ndarray, "E"]
    probability: Float64[np.ndarray, "E"]
    following: Int[np.ndarray, "E"]
    first_observation: Int[np.ndarray, "F"]
    """The possible first observations (|O|: the constant symbol), with their probabilities and beliefs."""
    first_probability: Float64[np.ndarray, "F"]
    first_belief: Int[np.ndarray, "F"]
    complete: bool
    """Whether every belief has its successors, so that the graph is valid for any horizon."""
    numbering: Numbering = field(repr=False)

    def __len__(self) -> int:
        return count(self.beliefs)

    @cached_property
    def transition(self) -> sparse.csr_array:
        """Probabilities of the next belief: row `belief * A + action`, a column for each belief."""
        row = self.belief * self.pomdp.actions + self.action
        shape = (len(self) * self.pomdp.actions, len(self))
        return sparse.csr_array((self.probability, (row, self.following)), shape=shape)

    def find(self, belief: Float64[np.ndarray, "S"]) -> int:
        """The number of a belief.

        Raises:
            KeyError: if it is not in the graph.
        """
        number = self.numbering.find(sparse.csr_array(belief[None]))
        if number is None:
            raise KeyError(f"{self.pomdp.name}: this belief cannot be reached from the start")
        return number


def belief_graph(
    pomdp: Pomdp, depth: int | None = None, limit: int = LIMIT, deadline: Deadline | None = None
) -> BeliefGraph:
    """All beliefs that can be reached in `depth` steps (None: any number), breadth first.

    Raises:
        TooManyBeliefsError: if there are more than `limit`, or than can be found in time; it says which depth fits.
    """
    deadline = deadline or Deadline()
    model, numbering = BeliefModel(pomdp), Numbering()
    first = model.first()
    first_belief, fresh = numbering.add(first.beliefs)
    layer = first.beliefs[fresh]
    layers, sizes = [layer], [fresh.size]
    none = np.zeros(0, int)
    edges = [(none, none, none, np.zeros(0), none)]
    while count(layer) and (depth is None or len(layers) <= depth):
        offset, new = len(numbering) - count(layer), []
        for block in _blocks(layer, pomdp.actions):
            after = model.successors(layer[block])
            following, fresh = numbering.add(after.beliefs)
            deadline.tell(lambda: f"listing the reachable beliefs, {len(numbering)} so far")
            if len(numbering) > limit or deadline.is_over:
                raise TooManyBeliefsError(pomdp.name, limit, len(layers) - 1, sum(sizes))
            belief = after.belief + block.start + offset
            edges.append((belief, after.action, after.observation, after.probability, following))
            new.append(after.beliefs[fresh])
        layer = sparse.csr_array(sparse.vstack(new, "csr"))
        layers.append(layer)
        sizes.append(count(layer))
    beliefs = sparse.csr_array(sparse.vstack(layers, "csr"))
    names = ("belief", "action", "observation", "probability", "following")
    columns = zip(names, zip(*edges, strict=True), strict=True)
    return BeliefGraph(
        pomdp=pomdp,
        beliefs=beliefs,
        depth=np.repeat(np.arange(len(sizes)), sizes),
        rewards=model.rewards(beliefs),
        **{name: np.concatenate(column) for name, column in columns},
        first_observation=first.observation,
        first_probability=first.probability,
        first_belief=first_belief,
        complete=count(layer) == 0,
        numbering=numbering,
    )


def _blocks(layer: sparse.csr_array, actions: int) -> list[slice]:
    """Ranges of rows whose successors are computed together, to limit memory."""
    whole = layer.indptr[1:].astype(np.int64) * actions // _BLOCK
    cuts = np.flatnonzero(np.diff(whole, prepend=whole[:1])).tolist()
    return [slice(start, stop) for start, stop in zip([0, *cuts], [*cuts, count(layer)], strict=True)]
