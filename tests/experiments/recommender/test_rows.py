"""The rows of the comparison: tuned on known users with one budget, then rebuilt with the prior of all."""

import pytest

from experiments.recommender.new_users import new_users
from experiments.recommender.rows import BUDGET, MULTIPLES, all_rows, play, tune
from tests.experiments.recommender.cases import ratings
from torch_softucb import EpsilonGreedy, GaussianPrior

SMALL = {"rounds": 4, "candidates": 5, "delay": 1, "epochs": 1}


@pytest.fixture(scope="module")
def setting():
    return new_users(ratings(), **SMALL).setting


def test_every_policy_has_the_same_budget(setting):
    assert len(MULTIPLES) == BUDGET
    seen = []
    rows = all_rows(setting, seen.append)
    assert len(seen) == 9
    assert {"greedy", "greedy, prior", "LinUCB, prior", "auto", "auto, prior", "SoftUCB, learned beta, prior"} <= set(rows)
    for name, (policy, _) in rows.items():
        assert (policy.prior is not None) == ("prior" in name)
        assert policy.prior is None or policy.prior == setting.prior


def test_tuning_takes_the_best_value_on_known_users(setting):
    tried = []

    def make(value, prior):
        tried.append((value, prior))
        return EpsilonGreedy(setting.dim, epsilon=value, prior=prior)

    found = tune(make, [0.0, 1.0], setting, True)
    regret = [float(play(make(v, setting.tuning_prior), setting.tuning, 4, 0).sum(0).mean()) for v in (0.0, 1.0)]
    assert found.chosen == (0.0 if regret[0] <= regret[1] else 1.0)
    assert isinstance(found.policy.prior, GaussianPrior)
    assert found.policy.prior == setting.prior  # of all known users; tuning itself saw the prior of the others only
    assert [prior for _, prior in tried[:2]] == [setting.tuning_prior] * 2
