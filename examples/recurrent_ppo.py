"""Our worlds from another framework: Stable-Baselines3's RecurrentPPO learns heaven-hell-3.

    pip install sb3-contrib
    python examples/recurrent_ppo.py [STEPS]

Importing asymrl registers the worlds with Gymnasium; `info["state"]` holds the latent state.
"""

import sys

import gymnasium

import asymrl  # noqa: F401  registers the worlds

WORLD = "asymrl/HeavenHell-3-v0"


def main(steps=50_000, **options):
    """Trains, then plays an episode; its return."""
    from sb3_contrib import RecurrentPPO

    env = gymnasium.make(WORLD)
    model = RecurrentPPO("MlpLstmPolicy", env, seed=0, device="cpu", **options).learn(steps)
    observation, _ = env.reset(seed=0)
    memory, total, over = None, 0.0, False
    while not over:
        action, memory = model.predict(observation, state=memory, deterministic=True)
        observation, reward, terminated, truncated, _ = env.step(int(action))
        total, over = total + float(reward), terminated or truncated
    print(f"return {total:.2f}")
    return total


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
