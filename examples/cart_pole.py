"""CartPole without its velocities: trained here, then used in a plain Gymnasium loop.

    python examples/cart_pole.py [STEPS]

The agent sees where the cart is and how the pole leans, and must remember to know how fast they move. The critic is
told all four numbers: `env.unwrapped.state` is found by itself.
"""

import sys
import tempfile

import gymnasium
import numpy as np

import asymrl


class HiddenVelocities(gymnasium.ObservationWrapper):
    """Shows the two places of CartPole's four numbers."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def observation(self, observation):
        return observation[::2]


def hidden_velocities():
    """The environment; `asymrl train examples/cart_pole.py:hidden_velocities` trains in it, too."""
    return HiddenVelocities(gymnasium.make("CartPole-v1", max_episode_steps=100))


def main(steps=200_000, **settings):
    """Trains, then plays an episode; returns how long the pole stayed up."""
    with tempfile.TemporaryDirectory() as folder:
        asymrl.train(f"{__file__}:hidden_velocities", "a2c-asym-hs", seeds=1, steps=steps, out=folder, **settings)
        policy, env = asymrl.Policy(folder), hidden_velocities()
        policy.reset()
        observation, _ = env.reset(seed=0)
        total, over = 0.0, False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(policy.act(observation))
            total, over = total + float(reward), terminated or truncated
    print(f"the pole stayed up for {total:.0f} steps")
    return total


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
