"""The regret figure: every curve labelled once, readable where curves end close together."""

import itertools

import torch

from torch_softucb.training import SoftUCBOffline
from torch_softucb.training.figures import NAMES, regret_figure
from torch_softucb.training.tags import BASELINES


def test_figure_names_every_curve_once(fit, tiny):
    model = SoftUCBOffline(dim=3, horizon=16)
    fit(model, tiny(), logger=False)
    assert set(model.curves) == {"soft_ucb", "lin_ucb_bound", "lin_ucb_same_beta", "lin_ts", "epsilon_greedy"}
    assert all(curve.shape == (16, 8) for curve in model.curves.values())
    (axes,) = regret_figure(model.curves).axes
    assert len(axes.texts) == len(axes.lines) == 5


def test_labels_of_curves_that_end_together_are_at_least_11_points_apart():
    rounds = torch.arange(1.0, 11.0).unsqueeze(-1).expand(10, 4)
    (axes,) = regret_figure({name: rounds * (1 + 1e-3 * i) for i, name in enumerate(NAMES)}, "a title").axes
    scale = axes.get_window_extent().height * 72 / axes.figure.dpi
    low, high = (torch.tensor(end).log() for end in axes.get_ylim())
    heights = sorted(
        float((torch.tensor(text.xy[1]).log() - low) / (high - low)) * scale + text.xyann[1] for text in axes.texts
    )
    assert all(b - a > 10.9 for a, b in itertools.pairwise(heights))
    assert axes.get_title() == "a title"
    assert set(BASELINES) <= set(NAMES)
