"""Three updates from fixed weights and episodes, recorded: neither the reference nor the program may drift from them.

The numbers were computed by the NumPy reference. From weights and episodes of the authors' program (heaven-hell-3,
a2c-asym-hs, networks of the paper's size) it repeats that program's losses and gradient norms over three updates with a
relative error of at most 2.2e-6, the rounding of float32. `python -m tests.learners.test_recorded_updates` prints them.
"""

from __future__ import annotations

import zlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asymrl.learners.a2c import A2CState
from asymrl.learners.episodes import Episodes
from asymrl.learners.numbers import stack_numbers
from asymrl.learners.state import training_world
from asymrl.nn.agent import Actor
from asymrl.nn.distributions import NO_ACTION
from asymrl.settings import A2CSettings
from asymrl.worlds.world import World
from tests.learners.small import learn, learner_of, member, rules_of, start, tiny
from tests.oracles.networks import Episode

LOSSES = ("critic_loss", "policy_loss", "negentropy_loss", "critic_gradient_norm", "actor_gradient_norm")
# By method: of each update the losses and norms, in this order.
RECORDED = {
    "a2c": [
        [1.6155668011950188, 0.04083162405522123, -5.516747720422001, 2.969157088780092, 0.7415508117155167],
        [1.1548735634729679, 0.026873919322825568, -5.517373554138667, 0.46656741814851027, 0.7478419178069787],
        [1.1420520520340713, 0.014454118905030566, -5.517931934072016, 0.44789510187350956, 0.7553175534721098],
    ],
    "a2c-asym-s": [
        [1.6127622571372109, 0.012259743236072707, -5.516747720422001, 2.9871906593355217, 0.7521240703671783],
        [1.1276029842318633, -0.003432893763211764, -5.517009047772212, 1.3163405701659936, 0.7504611158361788],
        [1.1068095180558828, -0.01726189992720184, -5.517241053489897, 1.2505355520973571, 0.7497124926382422],
    ],
    "a2c-asym-hs": [
        [1.6044732683216751, 0.026048297525013808, -5.516747720422001, 3.342365232280117, 0.7084617815544746],
        [1.1230144541511624, 0.00256008581079048, -5.517372297321737, 1.2999484662381744, 0.706589406642067],
        [1.09129356652329, -0.022792989544957454, -5.517929228184865, 1.22742562478539, 0.7034276073051062],
    ],
    "a2c-react-2": [
        [1.640736529778174, 0.0709540378710748, -5.512085513949964, 3.057725160972586, 0.7358894060947528],
        [1.1524865252985745, 0.056511430205503865, -5.512222301869874, 0.5136572880534492, 0.7327811361151516],
        [1.1390789021960628, 0.04347347889108044, -5.512474733975385, 0.4883420393706078, 0.7392770128588354],
    ],
}
EPISODES = [
    # observations, states, actions and rewards of two episodes in heaven-hell-1; the last observation and state are
    # what there was after the last action.
    ([6, 1, 2, 0, 3, 4], [1, 3, 5, 2, 7, 0], [0, 2, 1, 3, 0], [0.0, 0.0, 0.5, 0.0, 1.0]),
    ([6, 2, 2, 5], [4, 0, 6, 1], [3, 1, 1], [0.0, -0.25, -1.0]),
]


def settings_of(method: str) -> A2CSettings:
    return tiny(world="heaven-hell-1", method=method, hidden=(8, 5), time_limit=6, target_period=12)


def fixed_weights(env: World, settings: A2CSettings) -> A2CState:
    """Weights by a formula, so that no random number generator is involved; targets unlike the critic."""

    def draw(path: tuple, leaf: jax.Array) -> jax.Array:
        phase = zlib.crc32(jax.tree_util.keystr(path).encode()) % 1000
        return jnp.asarray(0.4 * np.sin(phase + 1.7 * np.arange(leaf.size)).reshape(leaf.shape), jnp.float32)

    runs = start(env, settings, [0])
    models, static = eqx.partition((runs.actor, runs.critic, runs.target), eqx.is_array)
    models = eqx.combine(jax.tree_util.tree_map_with_path(draw, models), static)
    return eqx.tree_at(lambda r: (r.actor, r.critic, r.target, r.next_target), runs, (*models, jnp.asarray([10])))


def episodes_of_reference() -> list[Episode]:
    arrays = ([np.asarray(part) for part in episode] for episode in EPISODES)
    return [
        Episode(seen, states, actions, rewards.astype(np.float64), False) for seen, states, actions, rewards in arrays
    ]


def episodes_of_program(env: World, actors: Actor) -> Episodes:
    """The same as a roll-out records them: `[time, run, episode]`, with one run."""

    def rows(part: int, length: int, dtype: type) -> jax.Array:
        columns = [np.pad(np.asarray(episode[part], dtype), (0, length - len(episode[part]))) for episode in EPISODES]
        return jnp.asarray(np.stack(columns, axis=1)[:, None])

    observations, actions = rows(0, 7, np.int32), rows(2, 6, np.int32)
    before = jnp.concatenate([jnp.full_like(actions[:1], NO_ACTION), actions[:-1]])
    features = member(actors, 0).history.sequence(before[:, 0], observations[:6, 0])[:, None]
    lengths = jnp.asarray([[len(episode[2]) for episode in EPISODES]], jnp.int32)
    return Episodes(
        observations, rows(1, 7, np.int32), actions, rows(3, 6, np.float32), features, lengths, jnp.zeros((1, 2), bool)
    )


def by_reference(method: str) -> list[list[float]]:
    settings = settings_of(method)
    env = training_world(settings)
    reference = learner_of(member(fixed_weights(env, settings), 0), env, settings)
    updates = [reference.update(episodes_of_reference(), rules_of(settings)) for _ in range(3)]
    return [[float(losses[name]) for name in LOSSES] for losses in updates]


def by_program(method: str) -> list[list[float]]:
    settings = settings_of(method)
    env = training_world(settings)

    @eqx.filter_jit
    def update(runs: A2CState) -> tuple[A2CState, list[jax.Array]]:
        episodes = episodes_of_program(env, runs.actor)
        runs, losses = learn(env, settings, stack_numbers([settings]), runs, episodes)
        return runs, [getattr(losses, name)[0] for name in LOSSES]

    runs, updates = fixed_weights(env, settings), []
    for _ in range(3):
        runs, losses = update(runs)
        updates.append([float(loss) for loss in losses])
    return updates


@pytest.mark.parametrize("method", RECORDED)
def test_the_reference_repeats_what_was_recorded(method: str):
    np.testing.assert_allclose(by_reference(method), RECORDED[method], rtol=1e-9)


@pytest.mark.parametrize("method", RECORDED)
def test_the_program_repeats_what_was_recorded(method: str):
    np.testing.assert_allclose(by_program(method), RECORDED[method], rtol=2e-5, atol=2e-6)


if __name__ == "__main__":
    for name in RECORDED:
        print(name, by_reference(name))
