"""Examples of commands: the end of `--help`, and of the reference page of commands."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "train": (
        "asymrl train tiger --steps 500k",
        "asymrl train heaven-hell-3 --method a2c-asym-hs --seeds 3 --steps 2M",
        "asymrl train heaven-hell-3 --method a2c-react-6 --hidden 64 64 --out runs/window-6",
        "asymrl train CartPole-v1 --method ppo --steps 500k --quiet",
        "asymrl train light.py:Light --config settings.toml --json",
    ),
    "resume": ("asymrl resume runs/tiger-a2c-asym-hs", "asymrl resume runs/tiger-a2c-asym-hs --steps 4M"),
    "sweep": (
        "asymrl sweep --env tiger shopping-2 --methods a2c a2c-asym-hs --set steps=500k --out runs/two-worlds",
        "asymrl sweep --env tiger --methods a2c --set actor_rate=1e-3,3e-4 steps=200k --seeds 3 --out runs/rates",
        "asymrl sweep --config rates.toml --minutes 30",
    ),
    "compare": (
        "asymrl compare tiger --steps 200k",
        "asymrl compare problem.pomdp --methods a2c a2c-asym-hs --seeds 8 --set memory_size=64",
    ),
    "tune": (
        "asymrl tune tiger --trials 20 --steps 50k",
        "asymrl tune CartPole-v1 --preset ppo-small --steps 100k --space space.toml",
    ),
    "reproduce": (
        "asymrl reproduce curves --quick",
        "asymrl reproduce curves --env heaven-hell-3 --seeds 5 --steps 4M",
        "asymrl reproduce claims --from-results results/curves",
    ),
    "study": ("asymrl study", "asymrl study bootstrap --exact-only", "asymrl study bootstrap --quick"),
    "evaluate": (
        "asymrl evaluate runs/tiger-a2c-asym-hs",
        "asymrl evaluate runs/rates --where method=a2c actor_rate=0.001 --episodes 5k --greedy",
        "asymrl evaluate runs/tiger-a2c-asym-hs --json",
    ),
    "render": (
        "asymrl render heaven-hell-3 --policy S,E,E,E",
        "asymrl render runs/tiger-a2c-asym-hs -o episode.gif --greedy",
    ),
    "export": ("asymrl export runs/tiger-a2c-asym-hs -o policy.npz",),
    "theory": (
        "asymrl theory tiger --horizon 4",
        "asymrl theory heaven-hell-3 --critic-sees heaven-side -o bias.png",
        "asymrl theory problem.pomdp --policy uniform --json",
    ),
    "envs": ("asymrl envs", "asymrl envs heaven-hell-6 tiger"),
    "presets": ("asymrl presets", "asymrl train CartPole-v1 --preset ppo-small --steps 200k"),
    "check": ("asymrl check light.py:Light",),
    "doctor": ("asymrl doctor", "asymrl doctor --quick --json"),
    "completion": (
        "asymrl completion bash > ~/.local/share/bash-completion/completions/asymrl",
        "asymrl completion zsh > ~/.zfunc/_asymrl",
    ),
}
