"""Our worlds from another framework: Stable-Baselines3's RecurrentPPO in heaven-hell-3.

    pip install sb3-contrib
    python examples/recurrent_ppo.py [STEPS]

Importing asymrl registers the worlds with Gymnasium; `info["state"]` holds the latent state. A random policy earns
about 0 here and the best one 1. Prints what RecurrentPPO earns before and after STEPS steps.
"""

import sys

import gymnasium

import asymrl  # noqa: F401  registers the worlds

WORLD = "asymrl/HeavenHell-3-v0"


def play(model, env, episodes):
    """The mean return of some episodes."""
    total = 0.0
    for seed in range(episodes):
        observation, _ = env.reset(seed=seed)
        memory, over = None, False
        while not over:
            action, memory = model.predict(observation, state=memory)
            observation, reward, terminated, truncated, _ = env.step(int(action))
            total, over = total + float(reward), terminated or truncated
    return total / episodes


def main(steps=10_000, episodes=20, **options):
    """Trains. Returns the mean return of episodes before and after."""
    from sb3_contrib import RecurrentPPO

    env = gymnasium.make(WORLD)
    model = RecurrentPPO("MlpLstmPolicy", env, seed=0, device="cpu", **options)
    before = play(model, env, episodes)
    after = play(model.learn(steps), env, episodes)
    print(f"return {before:.2f} before training, {after:.2f} after {steps:,} steps; means of {episodes} episodes")
    return before, after


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
