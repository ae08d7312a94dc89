"""auto against tuned baselines: the same ratio in every unit."""

import pytest
import torch

from experiments.exam.tuned import UNITS, against_tuned, in_unit
from experiments.tables import save
from experiments.worth.settings import settings
from torch_softucb.learning.episode import Episode
from torch_softucb.problems import synthetic_problem


def test_rewards_are_scaled_and_shifted_and_drift_is_only_scaled():
    still, drifting = (
        Episode(synthetic_problem(num_problems=2, num_arms=3, dim=2, drift_rate=rate), 1, 2) for rate in (0.0, 0.1)
    )
    changed = in_unit(still, 2.0, 5.0).problem
    torch.testing.assert_close(changed.means, 2 * still.problem.means + 5)
    assert changed.noise_std == 1.0
    changed = in_unit(drifting, 2.0, 5.0).problem
    torch.testing.assert_close(changed.means_at(7), 2 * drifting.problem.means_at(7))


def test_the_ratio_does_not_depend_on_the_unit(tmp_path):
    setting = settings(False)[0]
    row = {"setting": setting.title, "policy": "LinUCB", "baseline": "LinUCB", "value": 0.5}
    save([row], tmp_path, "worth", {})
    rows = against_tuned([setting], tmp_path, count=16, horizon=20)
    assert [row["unit"] for row in rows] == list(UNITS)
    assert rows[0]["baseline"] == "LinUCB at 0.5"
    assert rows[1]["ratio"] == pytest.approx(rows[0]["ratio"], rel=1e-3)
    assert rows[0]["low"] < rows[0]["ratio"] < rows[0]["high"]
