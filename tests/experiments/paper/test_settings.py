"""Settings of the paper's experiments are complete and consistent."""

import math

import pytest

from experiments.paper.settings import GRIDS, PANELS, PAPER_BASELINES, TABLE_1, TABLE_1_BOUND, TABLE_1_LEARNED
from torch_softucb import functional as F


def test_table_1_has_a_printed_value_for_each_column_and_eq_5_gives_its_bound():
    assert len(TABLE_1) == len(TABLE_1_LEARNED) == len(TABLE_1_BOUND)
    for (dim, horizon), printed in zip(TABLE_1, TABLE_1_BOUND, strict=True):
        bound = F.beta_upper_bound(dim=dim, horizon=horizon, subgaussian_r=math.sqrt(0.1), fail_prob=0.1)
        assert bound == pytest.approx(printed, abs=0.015)


def test_grids_increase_and_cover_the_papers_baselines():
    assert set(PAPER_BASELINES) <= set(GRIDS)
    for _, values in GRIDS.values():
        assert values == sorted(set(values))


def test_panels_have_distinct_titles():
    assert len({panel.title for panel in PANELS}) == len(PANELS)
