"""One bandit with disjoint arms in numpy against a batch of one in torch."""

import pytest
import torch

from tests.policies.test_auto_fast_path import _bent
from torch_softucb import AutoSoftUCB, DisjointArms, LinUCB, SoftUCBPolicy
from torch_softucb.policies import disjoint_fast_path

D = torch.double
K, d = 3, 4

MAKERS = {
    "auto": lambda dtype: AutoSoftUCB(d, beta_init=1.4, delta=0.99, dtype=dtype),
    "auto, module": lambda dtype: AutoSoftUCB(d, beta_init=_bent(), delta=0.99, dtype=dtype),
    "paper": lambda dtype: SoftUCBPolicy(d, beta_init=0.4, ridge_alpha=0.7, dtype=dtype),
    "LinUCB": lambda dtype: LinUCB(d, beta=0.4, dtype=dtype),
}


@pytest.mark.parametrize("dtype", [torch.float32, D])
@pytest.mark.parametrize("name", MAKERS)
def test_decisions_and_statistics_agree(name, dtype):
    g = torch.Generator().manual_seed(0)
    one, batch = (DisjointArms(MAKERS[name](dtype), num_arms=K) for _ in range(2))
    batch.reset(batch_shape=(1,))
    tolerance = 1e-9 if dtype == D else 1e-4
    for t in range(120):
        context = torch.randn(d, dtype=dtype, generator=g)
        mask = torch.tensor([True, t % 4 > 0, True]) if t % 3 else None
        with torch.no_grad():
            a, b = one(context, mask=mask), batch(context[None], mask=None if mask is None else mask[None])
        for field in ("probs", "index", "mu_hat", "width"):
            torch.testing.assert_close(getattr(a, field), getattr(b, field)[0], atol=tolerance, rtol=tolerance)
        arm, reward = torch.tensor(t % K), 5 + torch.randn((), dtype=dtype, generator=g)
        one.update(context, arm, reward)
        batch.update(context[None], arm[None], reward[None])
        torch.testing.assert_close(one.policy.statistics, batch.policy.statistics, atol=1e-9, rtol=1e-9)


def test_the_fast_path_is_used(monkeypatch):
    arms = DisjointArms(MAKERS["auto, module"](D), num_arms=K)
    for t in range(12):
        arms.update(torch.randn(d, dtype=D), torch.tensor(t % K), torch.randn((), dtype=D))

    def refuse(*_, **__):
        raise AssertionError("torch was used")

    monkeypatch.setattr(arms.policy, "update", refuse)
    monkeypatch.setattr(arms.policy, "decide", refuse)
    with torch.no_grad():
        arms(torch.randn(d, dtype=D))
    arms.update(torch.randn(d, dtype=D), torch.tensor(1), torch.tensor(1.0, dtype=D))
    assert arms.policy.scales.total[0] == 13


@pytest.mark.parametrize("name", MAKERS)
def test_bad_numbers_are_named_and_change_nothing(name):
    arms = DisjointArms(MAKERS[name](D), num_arms=K)
    for t in range(12):
        arms.update(torch.randn(d, dtype=D), torch.tensor(t % K), torch.randn((), dtype=D))
    before = arms.policy.statistics.clone()
    good, bad = torch.ones(d, dtype=D), torch.full((d,), torch.nan, dtype=D)
    with pytest.raises(ValueError, match="finite"):
        arms.update(bad, torch.tensor(0), torch.tensor(1.0, dtype=D))
    with pytest.raises(ValueError, match="finite"):
        arms.update(good, torch.tensor(0), torch.tensor(torch.inf, dtype=D))
    with pytest.raises(TypeError, match="reward"):
        arms.update(good, torch.tensor(0), torch.tensor(1.0))
    assert arms.policy.statistics.equal(before)
    if name != "LinUCB":
        with pytest.raises(ValueError, match="finite"), torch.no_grad():
            arms(bad)


def test_an_interrupted_write_is_undone(monkeypatch):
    arms = DisjointArms(MAKERS["auto"](D), num_arms=K)
    for t in range(12):
        arms.update(torch.randn(d, dtype=D), torch.tensor(t % K), torch.randn((), dtype=D))
    before, write = arms.policy.statistics.clone(), disjoint_fast_path._write
    calls = []

    def interrupted(*args):
        calls.append(args)
        write(*args)
        if len(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(disjoint_fast_path, "_write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        arms.update(torch.randn(d, dtype=D), torch.tensor(2), torch.tensor(1.0, dtype=D))
    assert len(calls) == 2
    assert arms.policy.statistics.equal(before)
