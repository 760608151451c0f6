"""Networks that are stepped along histories say what they say when they read a whole history at once."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl import theory
from asymrl.nn.agent import Actor, Architecture
from asymrl.nn.distributions import Greedy
from asymrl.theory.audit import TrainedActor, critic_values
from asymrl.worlds import Discrete
from tests.theory.audit.networks import acts, sequence, untrained

MEMORIES = [{"memory": "gru"}, {"memory": "lstm"}, {"method": "a2c-react-2"}]


@pytest.mark.parametrize("changes", MEMORIES)
def test_trained_actor_acts_as_in_training(changes: dict) -> None:
    world, _, run = untrained("tiger", **changes)
    analysis = theory.analyse(world, TrainedActor(run.actor), horizon=4)
    act = acts(run.actor, analysis.pomdp.observations)
    for h in ((), ((0, 1),), ((0, 1), (1, 0)), ((0, 1), (1, 0), (0, 0))):
        np.testing.assert_allclose(analysis.pi(h), act(h), atol=1e-6)
    # 1 + 6 + 36 + 216 histories; a window of two pairs merges some of them.
    assert (analysis.graph.nodes < 259) == ("method" in changes)


@pytest.mark.parametrize("changes", MEMORIES)
def test_critic_says_what_it_says_in_training(changes: dict) -> None:
    world, _, run = untrained("heaven-hell-1", **changes)
    graph = theory.analyse(world, TrainedActor(run.actor), horizon=4).graph
    values = critic_values(run.critic, graph, lambda pairs: graph.state[pairs])
    for pair in (0, graph.pairs // 2, graph.pairs - 1):
        before, observations = sequence(graph.history(int(graph.node[pair])), graph.pomdp.observations)
        read = run.critic(before, observations, jnp.full(before.shape, graph.state[pair], jnp.int32))
        assert values[pair] == pytest.approx(float(read[-1, 0]), abs=1e-5)


def test_a_greedy_actor_takes_its_best_action_surely() -> None:
    shape, (actions, observations) = Architecture(memory_size=8, hidden=(8,)), (Discrete(3), Discrete(3))
    random, greedy = (
        TrainedActor(Actor(jax.random.key(0), actions, observations, shape, policy)) for policy in (None, Greedy(3))
    )
    first = np.array([0, 1, 2])
    likely = random.act(random.begin(first))
    assert (likely > 0).all()
    np.testing.assert_array_equal(greedy.act(greedy.begin(first)), np.eye(3)[likely.argmax(1)])
