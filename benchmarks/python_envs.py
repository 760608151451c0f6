"""Training in a Gymnasium environment that runs in Python: how much of the time is the environment's own?

    python benchmarks/python_envs.py [--envs 8] [--seconds 10] [--method a2c-asym-hs]

The environment is CartPole with hidden velocities, as many as are asked for side by side. Printed are the environment
steps per second that were simulated and learned from, and the share of the wall time spent inside the environments'
`step` and `reset`. Where sb3-contrib is installed, its RecurrentPPO learns the same task in the same process, with
networks of the same size: with its default of 10 epochs per rollout, and with 1, so that both learn once from a step.
"""

from __future__ import annotations

import importlib.util
import time
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import tyro


@dataclass(frozen=True)
class Options:
    """What to measure."""

    envs: int = 8
    """Environments side by side."""
    seconds: float = 10.0
    """How long to measure each number, at least."""
    method: str = "a2c-asym-hs"
    """What is trained."""
    memory_size: int = 128
    """Features of the history."""
    hidden: tuple[int, ...] = (64, 64)
    """Hidden layers of policy and value; these are RecurrentPPO's default."""
    epochs: tuple[int, ...] = (10, 1)
    """Of RecurrentPPO, one measurement for each; 10 is its default."""


class HiddenVelocities(gymnasium.ObservationWrapper):
    """Shows the cart's place and the pole's angle, but not how fast they change."""

    def __init__(self, env: gymnasium.Env):
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def observation(self, observation: Any) -> Any:
        return observation[::2]


class Stopwatch:
    """Time spent in environments, and the steps taken there."""

    seconds, steps = 0.0, 0

    def start(self) -> float:
        """Forgets everything; the time now."""
        self.seconds, self.steps = 0.0, 0
        return time.perf_counter()


class Timed(gymnasium.Wrapper):
    """An environment with a stopwatch around everything that is its own."""

    def __init__(self, env: gymnasium.Env, watch: Stopwatch):
        super().__init__(env)
        self.watch = watch

    def reset(self, **options: Any) -> Any:
        begin = time.perf_counter()
        result = self.env.reset(**options)
        self.watch.seconds += time.perf_counter() - begin
        return result

    def step(self, action: Any) -> Any:
        begin = time.perf_counter()
        result = self.env.step(action)
        self.watch.seconds += time.perf_counter() - begin
        self.watch.steps += 1
        return result


def cart_pole(watch: Stopwatch) -> gymnasium.Env:
    return Timed(HiddenVelocities(gymnasium.make("CartPole-v1", disable_env_checker=True)), watch)


@dataclass(frozen=True)
class Speed:
    steps_per_second: float
    share: float
    """Of the wall time, inside the environments."""
    seconds_per_env_step: float

    @classmethod
    def of(cls, watch: Stopwatch, took: float) -> Speed:
        return cls(watch.steps / took, watch.seconds / took, watch.seconds / watch.steps)

    def __str__(self) -> str:
        return (
            f"{self.steps_per_second:>9,.0f} steps/s, {100 * self.share:.0f} % of the time in the environments "
            f"({1e6 * self.seconds_per_env_step:.1f} us a step)"
        )


def measure_ours(options: Options) -> Speed:
    """Trains one run, whose updates have an episode from each environment."""
    from asymrl.envs.gymnasium_world import from_gymnasium
    from asymrl.learners.numbers import stack_numbers
    from asymrl.learners.stepped import SteppedProgram
    from asymrl.settings import A2CSettings

    watch = Stopwatch()
    world = from_gymnasium(lambda: cart_pole(watch), name="cart-pole", time_limit=500)
    settings = A2CSettings(world="cart-pole", method=options.method, episodes=options.envs, time_limit=500,
                        memory_size=options.memory_size, hidden=options.hidden, steps=10**8)  # fmt: skip
    program, numbers = SteppedProgram(settings.shape(), world), stack_numbers([settings])
    runs = program.train(program.start([0]), numbers, 2)  # compiles
    begin = watch.start()
    while time.perf_counter() - begin < options.seconds:
        runs = program.train(runs, numbers, 5)
    runs.updates.block_until_ready()
    return Speed.of(watch, time.perf_counter() - begin)


def measure_recurrent_ppo(options: Options, epochs: int) -> Speed:
    import torch  # pyright: ignore[reportMissingImports]
    from sb3_contrib import RecurrentPPO  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.vec_env import DummyVecEnv  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(1)  # the networks are small
    watch = Stopwatch()
    envs = DummyVecEnv([lambda: cart_pole(watch)] * options.envs)
    model = RecurrentPPO(
        "MlpLstmPolicy", envs, device="cpu", n_epochs=epochs, seed=0,
        policy_kwargs={"lstm_hidden_size": options.memory_size, "net_arch": list(options.hidden)},
    )  # fmt: skip
    rollout = model.n_steps * options.envs
    model.learn(rollout)
    begin = watch.start()
    while time.perf_counter() - begin < options.seconds:
        model.learn(rollout, reset_num_timesteps=False)
    return Speed.of(watch, time.perf_counter() - begin)


def main(options: Options) -> None:
    sizes = f"{options.memory_size} features of the history, hidden layers {options.hidden}"
    print(f"CartPole with hidden velocities, {options.envs} environments, {sizes}")
    ours = measure_ours(options)
    print(f"asymrl {options.method:<17}{ours}")
    if importlib.util.find_spec("sb3_contrib") is None:
        print("RecurrentPPO is not measured: sb3-contrib is not installed")
        return
    for epochs in options.epochs:
        theirs = measure_recurrent_ppo(options, epochs)
        ratio = ours.steps_per_second / theirs.steps_per_second
        print(f"{f'RecurrentPPO, epochs {epochs}':<24}{theirs}; asymrl trains {ratio:.1f} times as many")


if __name__ == "__main__":
    main(tyro.cli(Options))
