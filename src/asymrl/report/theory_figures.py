"""Pictures of an analysis: the bias along the tree of histories, and the gradient that each critic gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float64
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asymrl.draw import style
from asymrl.theory import Analysis, History

COLOURS = (style.INK, style.GREEN, style.SKY, style.ORANGE, style.VERMILION)
PUSHES = (
    ("true gradient", None, None),
    ("V(h, s), one step", "hs", "td0"),
    ("V(s) by Monte-Carlo, one step", "mc", "td0"),
    ("V(s) by TD(lambda)", "td-lambda", "td-lambda"),
    ("V(s) by TD(0)", "td0", "td0"),
)
DPI = 150
PAPER = {"facecolor": style.PAPER, "edgecolor": "none", "pad": 0.5}


def picture(
    analysis: Analysis,
    title: str,
    depth: int = 4,
    h: History | None = None,
    more: Sequence[Callable[[Axes, Analysis], None]] = (),
) -> Figure:
    """The bias tree, the gradient of each critic after `h` (by default the likeliest start), and `more` panels."""
    panels = 2 + len(more)
    figure = Figure(figsize=(6 * panels, 5), dpi=DPI, layout="constrained")
    tree, bars, *others = figure.subplots(1, panels)
    draw_bias_tree(tree, analysis, depth=depth)
    draw_pushes(bars, analysis, _first_history(analysis) if h is None else h)
    for axes, draw in zip(others, more, strict=True):
        draw(axes, analysis)
    figure.suptitle(title)
    return figure


def _first_history(analysis: Analysis) -> History:
    graph = analysis.graph
    roots = np.flatnonzero(graph.parent < 0)
    return graph.history(int(roots[graph.probability_of_node[roots].argmax()]))


def draw_bias_tree(axes: Axes, analysis: Analysis, critic: str = "td0", depth: int = 4, widest: int = 12) -> None:
    """The likeliest histories as a tree from left to right; colour is the bias, size the probability."""
    graph, bias = analysis.graph, analysis.value_bias(critic)
    shown = _shown(analysis, depth, widest)
    place = {
        int(node): (t, -(row - (len(layer) - 1) / 2)) for t, layer in enumerate(shown) for row, node in enumerate(layer)
    }
    for node, (x, y) in place.items():
        if (parent := int(graph.parent[node])) in place:
            px, py = place[parent]
            axes.plot([px, x], [py, y], color=style.FAINT, linewidth=0.8, zorder=1)
    nodes = np.array(list(place))
    xy = np.array(list(place.values()))
    sizes = 20 + 280 * np.sqrt(graph.probability_of_node[nodes])
    limit = max(float(np.nanmax(np.abs(bias[nodes]))), 1e-12)
    points = axes.scatter(
        xy[:, 0], xy[:, 1], s=sizes, c=bias[nodes], cmap="coolwarm", vmin=-limit, vmax=limit, zorder=2
    )
    for node, (x, y) in place.items():
        words = analysis.describe(graph.history(node)).split(" ")[-1] if graph.parent[node] >= 0 else "start"
        axes.annotate(words, (x, y), xytext=(7, 0), textcoords="offset points", fontsize=7, va="center", bbox=PAPER)
    axes.figure.colorbar(points, ax=axes, label="E[V(s) | h] - V(h)", shrink=0.8)
    axes.set(
        title=f"Bias of V(s), {critic.upper()} targets, at the likeliest histories", xlabel="actions taken", yticks=[]
    )
    axes.set_xticks(range(len(shown)))
    axes.set_xlim(-0.3, len(shown) - 0.4)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _shown(analysis: Analysis, depth: int, widest: int) -> list[list[int]]:
    """The likeliest nodes of each time step, ordered so that children are near their parents."""
    graph = analysis.graph
    if graph.stationary:
        raise ValueError(f"{analysis.pomdp.name}: a tree of histories needs a horizon")
    layers: list[list[int]] = []
    for t in range(min(depth + 1, graph.layers)):
        nodes = np.arange(graph.first_node[t], graph.first_node[t + 1])
        nodes = nodes[~graph.open[nodes]]
        likely = nodes[np.argsort(-graph.probability_of_node[nodes], kind="stable")[:widest]]
        row = {node: i for i, node in enumerate(layers[-1])} if layers else {}
        layers.append(sorted(likely.tolist(), key=lambda z: (row.get(int(graph.parent[z]), widest), z)))
    return layers


def draw_pushes(axes: Axes, analysis: Analysis, h: History) -> None:
    """The gradient of each action's logit after h, for each kind of critic, beside the true gradient."""
    names: Sequence[str] = analysis.pomdp.action_names
    width = 0.8 / len(PUSHES)
    for i, (label, critic, estimator) in enumerate(PUSHES):
        push = pushes(analysis, h, critic, estimator)
        axes.bar(np.arange(len(names)) + (i - 2) * width, push, width, label=label, color=COLOURS[i])
    axes.axhline(0, color=style.MUTED, linewidth=0.8)
    axes.set_xticks(range(len(names)), names)
    axes.set(title=f"Which way each critic pushes after {analysis.describe(h)}", ylabel="gradient of the logit")
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def pushes(analysis: Analysis, h: History, critic: str | None, estimator: str | None) -> Float64[np.ndarray, "A"]:
    """The row of the gradient for the policy's memory after h."""
    node = analysis.find(h)
    if node is None:
        raise ValueError(f"{analysis.pomdp.name}: the policy never reaches {analysis.describe(h)}")
    return analysis.gradient(critic, estimator).table[analysis.graph.parameter[node]]
