"""Where V(s) misjudges, history by history, in pictures of the world: a section for an exact analysis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from asymrl.report.html.episode_pictures import EpisodePictures
from asymrl.report.html.page import Section, page_of
from asymrl.report.html.page_numbers import numbers, rounded
from asymrl.report.markup import escape, picture_html, text_html
from asymrl.theory.exact.analysis import Analysis
from asymrl.worlds.finite import FiniteWorld

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_HISTORIES = 48
MOST_STATES = 6
HELP = """<p class="hint">A critic that reads the state alone learns V(s), a mean over all histories that visit a state.
Each card is a history: what the agent sees last, and the states that are possible then. The actor gets the mean of V(s)
over these states; V(h) is the true value. Orange histories are judged too high, blue ones too low. Histories of equal
length with the same belief and the same behaviour share a card, which names the likeliest.</p>
<div class="theory-map"></div>"""


def theory_page(
    world: FiniteWorld,
    analysis: Analysis,
    policy: str,
    answer: Sequence[str],
    figure: Figure,
    *,
    depth: int | None = None,
) -> str:
    """An exact analysis as one HTML file: the answer, the map of where V(s) misjudges, and its figures.

    Args:
        world: that of the analysis.
        analysis: of the policy.
        policy: its name.
        answer: lines of text.
        figure: of the analysis.
        depth: leave out histories with more actions.

    Raises:
        ValueError: if the analysis does not tell histories apart.
    """
    sections = [
        Section("Would a privileged critic help?", "answer", _answer_html(answer)),
        Section("Bias and gradients", "figures", picture_html(figure, "bias along the tree of histories, gradients")),
        theory_map_section(world, analysis, depth=depth),
    ]
    return page_of(world.name, sections, f"policy {policy}")


def _answer_html(answer: Sequence[str]) -> str:
    """The answer with its last paragraph, the advice, in front and without the question, which is the heading."""
    lines = list(answer)
    begin = max((i for i, line in enumerate(lines) if not line), default=-1) + 1
    advice = " ".join(line for line in lines[begin:] if not line.endswith("?"))
    return f'<p class="verdict">{escape(advice)}</p>\n{text_html(lines[:begin])}'


def theory_map_section(
    world: FiniteWorld, analysis: Analysis, *, depth: int | None = None, most: int = MOST_HISTORIES
) -> Section:
    """The histories where a critic V(s) with TD(0) targets misjudges most, as pictures.

    Args:
        world: that of the analysis, with its pictures.
        analysis: of a policy.
        depth: leave out histories with more actions.
        most: the largest number of histories.

    Raises:
        ValueError: if the analysis does not tell histories apart.
    """
    data = map_data(world, analysis, depth=depth, most=most)
    assets = ("theory_map.css", "elements.js", "theory_map.js")
    return Section("Where V(s) misjudges", "theory-map", HELP, data, "startTheoryMap", assets)


def map_data(
    world: FiniteWorld, analysis: Analysis, *, depth: int | None = None, most: int = MOST_HISTORIES
) -> dict[str, Any]:
    """The histories with the largest |E[V(s) | h] - V(h)|, weighted by probability, for `startTheoryMap`.

    `pictures`: data URLs. `visits`: whether the `probability` of a history is an expected number of visits.
    `misjudged`: how many histories there are in all. `histories`: each with its words, number of `actions`,
    `probability`, `V_h`, the `mean` of V(s), their difference `bias`, the number of the picture of its last observation
    (`view`), and its likeliest `states`: name, belief, V(s), V(h, s), picture.
    """
    graph, bias = analysis.graph, analysis.value_bias("td0")
    V_s, values = analysis.critics("td0"), analysis.values
    nodes = _most_misjudged(analysis, bias, depth)
    pictures = EpisodePictures()
    histories = []
    for node in nodes[:most].tolist():
        pairs = graph.pairs_of(node)
        pairs = pairs[np.argsort(-graph.belief[pairs], kind="stable")]
        observed = int(graph.parent_observation[node])
        view = jnp.int32(observed if observed >= 0 else graph.pomdp.observations)
        states = [
            (
                world.state_names[s],
                *numbers((graph.belief[pair], V_s[pair], values.V_hs[pair])),
                pictures.state(world, world.from_latent(jnp.int32(s))),
            )
            for pair, s in zip(pairs[:MOST_STATES].tolist(), graph.state[pairs[:MOST_STATES]].tolist(), strict=True)
        ]
        histories.append(
            {
                "words": analysis.describe(graph.history(node)),
                "actions": int(graph.time[node]),
                "probability": rounded(graph.probability_of_node[node]),
                "V_h": rounded(values.V_h[node]),
                "mean": rounded(values.V_h[node] + bias[node]),
                "bias": rounded(bias[node]),
                "view": pictures.view(world, view),
                "states": states,
                "possible": len(pairs),
            }
        )
    return {
        "pictures": pictures.urls,
        "visits": graph.stationary,
        "misjudged": len(nodes),
        "histories": histories,
    }


def _most_misjudged(analysis: Analysis, bias: np.ndarray, depth: int | None) -> Int[np.ndarray, "n"]:
    """The nodes where the agent acts and V(s) is wrong by more than rounding, the most important first."""
    graph = analysis.graph
    listed = ~graph.open & (np.abs(bias) > analysis.rounding)
    if depth is not None and not graph.stationary:
        listed &= graph.time <= depth
    nodes = np.flatnonzero(listed)
    weight = np.abs(bias[nodes]) * graph.probability_of_node[nodes]
    return nodes[np.argsort(-weight, kind="stable")]
