"""Splits of the paper's problems, and the share of variance that a linear model explains."""

import os

import pytest
import torch

from experiments.paper.problems import linear_share, problems
from experiments.paper.settings import PANELS, synthetic_panel

PANEL = PANELS[0]


def test_splits_have_nothing_in_common():
    parts = [problems(PANEL, split, 4, part).means for split in ("train", "tune", "test") for part in (0, 1)]
    for i, one in enumerate(parts):
        for other in parts[i + 1 :]:
            assert not torch.isclose(one, other).any()
    assert problems(PANEL, "test", 2).means.equal(parts[4][:2])


def test_a_panel_sets_the_size_of_its_problems():
    problem = problems(synthetic_panel(3, noise_std=0.2, num_arms=7), "test", 5)
    assert problem.arms.shape == (5, 7, 3)
    assert problem.noise_std == 0.2


@pytest.mark.skipif("SOFTUCB_DATA" not in os.environ, reason="SOFTUCB_DATA is not set: no Jester")
def test_real_ratings_are_only_partly_linear():
    (panel,) = [panel for panel in PANELS if panel.title == "Jester"]
    assert 0 < linear_share(panel) < 1
    assert problems(panel, "test", 2).arms.shape == (2, panel.num_arms, panel.dim)
