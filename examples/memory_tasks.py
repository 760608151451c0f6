"""Small tasks that need a memory, made of other people's environments. `docs/how-to/presets.md` has what is reached.

asymrl train examples/memory_tasks.py:cart_pole --preset ppo-small --steps 200k
"""

import gymnasium
import numpy as np

TILE = 6  # pixels of a cell


class Shown(gymnasium.ObservationWrapper):
    """Shows some of the numbers of an observation."""

    def __init__(self, env, indices):
        super().__init__(env)
        self.indices = list(indices)
        space = env.observation_space
        self.observation_space = gymnasium.spaces.Box(
            space.low[self.indices], space.high[self.indices], dtype=np.float32
        )

    def observation(self, observation):
        return observation[self.indices]


def cart_pole():
    """CartPole without its velocities: where the cart is and how the pole leans. 500 steps earn 500."""
    return Shown(gymnasium.make("CartPole-v1", disable_env_checker=True), [0, 2])


def pendulum():
    """Pendulum without its velocity: cosine and sine of the angle. Random actions earn about -1200, good ones -150."""
    return Shown(gymnasium.make("Pendulum-v1", disable_env_checker=True), [0, 1])


def pixels():
    """MiniGrid's Empty-Random-5x5 as a picture of what the agent sees, 42 x 42 x 3: find the goal from anywhere."""
    import minigrid  # noqa: F401  registers its environments
    from minigrid.wrappers import ImgObsWrapper, RGBImgPartialObsWrapper

    env = gymnasium.make("MiniGrid-Empty-Random-5x5-v0", disable_env_checker=True)
    return ImgObsWrapper(RGBImgPartialObsWrapper(env, tile_size=TILE))
