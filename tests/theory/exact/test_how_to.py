"""The code of the how-to runs, and says what the page says."""

from typing import Any

from asymrl import theory
from asymrl.theory.solvers import policy_by_name, solve
from tests.doc_pages import DOCS, blocks
from tests.theory.exact.worlds import problem

PPO = DOCS / "methods" / "ppo.md"
HOW_TO = DOCS / "how-to" / "analyse-a-pomdp.md"


def test_the_code_of_the_how_to_runs() -> None:
    code = blocks(HOW_TO, "python")
    assert len(code) == 3
    names: dict[str, Any] = {}
    for block in code[1:]:  # the first needs a trained run; tests/test_doc_code.py has one
        exec(compile(block, HOW_TO.name, "exec"), names)
    assert 0 < names["analysis"].left_over <= 0.1
    assert names["analysis"].error > 0


def test_how_much_a_state_critic_misleads_with_each_lambda() -> None:
    pomdp = problem("heaven-hell-3")
    policy = policy_by_name(pomdp, "eps-optimal:0.5", solve(pomdp), 100)
    cosines = []
    for lambda_ in (0.0, 0.7, 0.95):
        analysis = theory.analyse(pomdp, policy, lambda_=lambda_)
        cosines.append(analysis.gradient("td-lambda", "td-lambda").cosine(analysis.gradient()))
    assert f"| {cosines[0]:.3f} | {cosines[1]:.3f} | {cosines[2]:.3f} |" in PPO.read_text()
