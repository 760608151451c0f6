"""Learning curves as a table."""

import numpy as np
from asymrl.runs.batch import Batch
from asymrl.runs.metrics import metrics_table

from asymrl.learning.settings import Settings
from asymrl.learning.state import METRICS


def test_a_row_for_each_run_and_point_with_what_the_runs_differ_in():
    settings = [Settings(entropy_weight=weight, actor_rate=rate) for weight, rate in ((0.1, 1e-3), (0.3, 1e-4))]
    batch = Batch.product(settings, [5])
    curve = np.arange(2 * 3 * len(METRICS), dtype=np.float32).reshape(2, 3, len(METRICS))
    table = metrics_table(batch, curve, np.array([2, 1]))
    assert table["seed"].to_list() == [5, 5, 5]
    assert table["actor_rate"].to_list() == [1e-3, 1e-3, 1e-4]
    assert table["entropy_weight"].to_list() == [0.1, 0.1, 0.3]
    weights = curve[[0, 0, 1], [0, 1, 0], METRICS.index("negentropy_weight")]
    assert table["negentropy_weight"].to_list() == weights.tolist()
    assert table["timestep"].to_list() == [0, len(METRICS), 3 * len(METRICS)]
