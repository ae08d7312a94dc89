"""A beta that is a module, behind a head: served, rewarded, logged, restarted."""

import pytest
import torch

from tests.recommend.cases import head, requests
from torch_softucb import SegmentBeta, SoftUCBPolicy
from torch_softucb.recommend import DecisionLog, OnlineBeta, read_log, restart

D = torch.double


def _heads(name):
    if name == "pretrained":
        return [head(SoftUCBPolicy.pretrained(4, horizon=200, dtype=D), users=20) for _ in range(2)]
    return [
        head(SoftUCBPolicy(4, beta_init=SegmentBeta(torch.arange(20) % 3, init=0.5), dtype=D), users=20) for _ in range(2)
    ]


@pytest.mark.parametrize("name", ["pretrained", "segments"])
def test_served_logged_and_restarted(name, tmp_path):
    ours, again = _heads(name)
    g = torch.Generator().manual_seed(1)
    with DecisionLog(tmp_path) as log:
        for drift_rate in range(6):
            user, items = requests(8, 5, seed=drift_rate)
            with torch.no_grad():
                served = ours.serve(ours(user, items, bandit=user))
            log.decisions(served, candidates=items)
            reward = torch.randn(8, generator=g, dtype=D)
            ours.feedback(served.id, reward)
            log.rewards(served.id, reward)
    assert read_log(tmp_path).beta.isfinite().all()
    assert restart(again, tmp_path) > 0
    torch.testing.assert_close(again.policy.statistics, ours.policy.statistics, atol=1e-9, rtol=0)
    user, items = requests(8, 5, seed=99)
    with torch.no_grad():
        new, old = (each(user, items, bandit=user) for each in (again, ours))
    torch.testing.assert_close(new.probs, old.probs, atol=1e-9, rtol=0)
    if name == "pretrained":
        assert len(new.beta.unique()) > 1  # users whose rewards differ


def test_online_learning_says_that_it_needs_a_number():
    with pytest.raises(ValueError, match="policy must have one beta for all, got a module"):
        OnlineBeta(SoftUCBPolicy.pretrained(4), horizon=10)
