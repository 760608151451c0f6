"""The files: what stands in them, what they need, and what is refused."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from asymrl.envs import Environment
from asymrl.export import numpy_policy
from asymrl.export.numpy_policy import NumpyPolicy
from asymrl.export.onnx_policy import OnnxPolicy
from asymrl.export.policy_files import save_npz, save_onnx
from asymrl.export.policy_graph import build_graph
from asymrl.export.saving import TOLERANCE, export_run
from asymrl.runs.policy import ActorPolicy
from asymrl.runs.trained import TrainedRun
from asymrl.settings import A2CSettings
from asymrl.worlds import make
from tests.export.twins import TIME_LIMIT, about, exported, small_actor


@pytest.fixture(scope="module")
def env():
    return make("heaven-hell-3", time_limit=TIME_LIMIT)


@pytest.fixture(scope="module")
def actor(env):
    return small_actor(env)


def play(policy, game: Environment, seed: int) -> list[int]:
    """The actions of an episode."""
    policy.reset()
    observation, _ = game.reset(seed=seed)
    actions, over = [], False
    while not over:
        actions.append(policy.act(observation))
        observation, _, terminated, truncated, _ = game.step(actions[-1])
        over = terminated or truncated
    return actions


@pytest.mark.parametrize("ending", [".npz", ".onnx"])
def test_the_same_generator_gives_the_same_actions_as_the_agent(env, actor, tmp_path: Path, ending: str):
    twin, agent, game = exported(env, actor, tmp_path / f"p{ending}"), ActorPolicy(env, actor), Environment(env)
    assert play(twin, game, 0) == play(agent, game, 0)
    twin.generator, agent.generator = np.random.default_rng(1), np.random.default_rng(1)
    sampled = [play(twin, game, seed) for seed in range(3)]
    assert sampled == [play(agent, game, seed) for seed in range(3)]
    assert len({tuple(actions) for actions in sampled}) == 3


def test_actions_are_sampled_as_often_as_they_should_be(env, actor, tmp_path: Path):
    twin = exported(env, actor, tmp_path / "policy.npz")
    shares = twin.observe(15)
    twin.generator = np.random.default_rng(0)
    counts, n = np.zeros(4), 2000
    for _ in range(n):
        twin.reset()
        counts[twin.act(15)] += 1
    # Five standard deviations: a false alarm is one in a million.
    assert np.all(np.abs(counts / n - shares) < 5 * np.sqrt(shares * (1 - shares) / n))


def test_both_kinds_say_where_they_come_from(env, actor, tmp_path: Path):
    for ending in (".npz", ".onnx"):
        told = exported(env, actor, tmp_path / f"policy{ending}").about
        assert (told["world"], told["method"], told["run_seed"]) == ("heaven-hell-3", "a2c", 3)
        assert told["action_names"] == ["N", "S", "E", "W"]
        assert told["settings"] == {"world": "heaven-hell-3", "hidden": [8, 6]}


def test_the_onnx_model_names_what_goes_in_and_out(env, actor, tmp_path: Path):
    save_onnx(tmp_path / "policy.onnx", build_graph(actor, env.observation_space), about(env))
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx", providers=["CPUExecutionProvider"])
    assert [(x.name, x.shape) for x in session.get_inputs()] == [
        ("observation", ["episode"]),
        ("previous_action", ["episode"]),
        ("memory/hidden", ["episode", 8]),
    ]
    assert [(x.name, x.shape) for x in session.get_outputs()] == [
        ("logits", ["episode", 4]),
        ("probabilities", ["episode", 4]),
        ("next_memory/hidden", ["episode", 8]),
    ]
    model = onnx.load_model(tmp_path / "policy.onnx")
    assert model.producer_name == "asymrl"
    assert json.loads({p.key: p.value for p in model.metadata_props}["action_names"]) == ["N", "S", "E", "W"]


def test_the_class_runs_alone_without_this_package(env, actor, tmp_path: Path):
    """A copy of its file, next to the policy, in a process that knows neither JAX nor asymrl."""
    save_npz(tmp_path / "policy.npz", build_graph(actor, env.observation_space), about(env))
    shutil.copy(numpy_policy.__file__, tmp_path / "numpy_policy.py")
    script = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from numpy_policy import NumpyPolicy
policy = NumpyPolicy(sys.argv[1] + "/policy.npz", np.random.default_rng(5))
print([policy.act(o) for o in [15, 1, 2, 3, 2, 11]])
print(sorted(name for name in sys.modules if name.partition(".")[0] in ("jax", "asymrl", "equinox", "gymnasium")))
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    here = NumpyPolicy(tmp_path / "policy.npz", np.random.default_rng(5))
    assert done.stdout.splitlines() == [str([here.act(o) for o in [15, 1, 2, 3, 2, 11]]), "[]"]


def test_within_the_package_it_needs_no_jax_either():
    script = (
        "import sys; sys.modules['jax'] = None; import asymrl.export.numpy_policy as n; print(n.NumpyPolicy.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "NumpyPolicy\n"


def test_observations_of_another_form_are_refused(env, actor, tmp_path: Path):
    agent, twin = ActorPolicy(env, actor), exported(env, actor, tmp_path / "policy.npz")
    with pytest.raises(ValueError, match=r"heaven-hell-3: the observation is 16, outside 0..15"):
        agent.observe(16)
    with pytest.raises(ValueError, match="16 is not one of the environment's observations: index 16 is out"):
        twin.observe(16)
    with pytest.raises(TypeError, match="Cannot cast"):
        twin.observe(0.5)
    with pytest.raises(ValueError, match="reshape"):
        twin.observe([1, 2])


def test_files_that_are_no_policies_are_refused(env, actor, tmp_path: Path):
    np.savez(tmp_path / "other.npz", numbers=np.arange(3))
    (tmp_path / "notes.txt").write_text("no policy")
    (tmp_path / "half.npz").write_bytes((tmp_path / "other.npz").read_bytes()[:50])
    for name in ("other.npz", "notes.txt", "half.npz"):
        with pytest.raises(ValueError, match=rf"{name}: not a policy; write one with `asymrl export"):
            NumpyPolicy(tmp_path / name)
    save_npz(tmp_path / "policy.npz", build_graph(actor, env.observation_space), about(env))
    with np.load(tmp_path / "policy.npz") as file:
        arrays = dict(file)
    facts = json.loads(str(arrays["about"]))
    arrays["about"] = np.array(json.dumps({**facts, "version": 4}))
    np.savez(tmp_path / "future.npz", **arrays)
    with pytest.raises(ValueError, match="version 4, but this program reads versions 1 to 3"):
        NumpyPolicy(tmp_path / "future.npz")
    np.savez(tmp_path / "pickled.npz", about=np.array({"a": 1}, dtype=object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        NumpyPolicy(tmp_path / "pickled.npz")

    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy")
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "other", [x], [y]), ir_version=8)
    model.opset_import[0].version = 18
    onnx.save_model(model, tmp_path / "other.onnx")
    with pytest.raises(ValueError, match=r"other.onnx: not a policy"):
        OnnxPolicy(tmp_path / "other.onnx")


def test_missing_packages_are_named_with_their_remedy(env, actor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    save_onnx(tmp_path / "policy.onnx", build_graph(actor, env.observation_space), about(env))
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r'onnxruntime: pip install "asymrl\[onnx\]"'):
        OnnxPolicy(tmp_path / "policy.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r'onnx: pip install "asymrl\[onnx\]"'):
        save_onnx(tmp_path / "new.onnx", build_graph(actor, env.observation_space), about(env))
    assert not (tmp_path / "new.onnx").exists()


def test_a_policy_is_written_only_if_it_does_what_the_agent_does(
    env, actor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    settings, path = A2CSettings("heaven-hell-3", "a2c-asym-hs", time_limit=TIME_LIMIT), tmp_path / "policy.npz"
    state: Any = SimpleNamespace(actor=actor)
    trained = TrainedRun(state, settings, 7, env, 0.5)
    assert export_run(trained, path) <= TOLERANCE
    policy = NumpyPolicy(path)
    assert (policy.about["method"], policy.about["run_seed"]) == ("a2c-asym-hs", 7)
    with pytest.raises(ValueError, match=r"policy.txt: unknown file ending '.txt'; use .onnx or .npz"):
        export_run(trained, tmp_path / "policy.txt")
    other = build_graph(small_actor(env, seed=1), env.observation_space)
    monkeypatch.setattr("asymrl.export.saving.build_graph", lambda *_: other)
    with pytest.raises(RuntimeError, match=r"differs from the agent by .*, so it was removed"):
        export_run(trained, path)
    assert not path.exists()
