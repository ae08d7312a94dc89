"""Forgetting: the ridge stays, and drifting rewards are followed."""

import pytest
import torch

from torch_softucb import LinUCB, SoftUCBPolicy

D = torch.double


@pytest.mark.long
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_v_never_loses_its_ridge(dtype):
    """100,000 rounds at 0.98, pulls 90/5/5: plain forgetting would wind up and fail to factorise."""
    alpha = 0.7
    policy = SoftUCBPolicy(3, ridge_alpha=alpha, dtype=dtype)
    arms = torch.tensor([[1.0, 0.2, 0.0], [0.0, 1.0, 0.1], [0.3, 0.0, 1.0]], dtype=dtype)
    draws = torch.multinomial(torch.tensor([0.9, 0.05, 0.05]), 100_000, True, generator=torch.Generator().manual_seed(0))
    smallest = torch.inf
    for t, arm in enumerate(draws.tolist()):
        policy.update(arms[arm], arms[arm, 0], discount=0.98)
        if t % 500 == 0:
            smallest = min(smallest, float(torch.linalg.eigvalsh(policy.state.V)[0]))
    print(f"{dtype}: smallest eigenvalue {smallest / alpha:.4f} alpha")
    assert smallest >= 0.99 * alpha
    assert policy.cache_error() < 1e-10


@pytest.mark.parametrize("ids", [None, [1, 3], [3, 1, 3, 3], [3] * 9])
def test_one_step_a_call_by_hand(ids, seeded):
    g = seeded(0)
    n = 2 if ids is None else len(ids)
    policy = SoftUCBPolicy(2, ridge_alpha=0.5, dtype=D)
    policy.reset(batch_shape=(5,) if ids else ())
    bandit = torch.tensor(ids) if ids else None
    if ids:
        policy.update(torch.randn(5, 2, dtype=D, generator=g), torch.randn(5, dtype=D, generator=g))
    else:
        policy.update(torch.randn(2, dtype=D, generator=g), torch.randn((), dtype=D, generator=g))
    V, b = policy.state.V.clone(), policy.state.b.clone()
    x, y = torch.randn(n, 2, dtype=D, generator=g), torch.randn(n, dtype=D, generator=g)
    policy.update(x, y, bandit=bandit, discount=0.9)
    ridge = 0.1 * 0.5 * torch.eye(2, dtype=D)
    if ids is None:
        V, b = 0.9 * V + ridge + x.T @ x, 0.9 * b + x.T @ y
    else:
        for i in set(ids):
            mine = bandit == i
            V[i] = 0.9 * V[i] + ridge + x[mine].T @ x[mine]
            b[i] = 0.9 * b[i] + x[mine].T @ y[mine]
    torch.testing.assert_close(policy.state.V, V, atol=1e-12, rtol=0)
    torch.testing.assert_close(policy.state.b, b, atol=1e-12, rtol=0)
    inverse = policy.state.root @ policy.state.root.mT
    torch.testing.assert_close(inverse @ V, torch.eye(2, dtype=D).expand(V.shape), atol=1e-10, rtol=0)


def test_a_discount_out_of_range_changes_nothing():
    policy = SoftUCBPolicy(2)
    for discount in (0.0, 1.1, -1.0, float("nan")):
        with pytest.raises(ValueError, match=r"discount must be in \(0, 1\]"):
            policy.update(torch.ones(2), torch.tensor(1.0), discount=discount)
    assert policy.state.num_observations == 0


@pytest.mark.parametrize("make", [lambda: SoftUCBPolicy(4, beta_init=0.6), lambda: LinUCB(4, beta=0.6)])
def test_drifting_rewards_are_followed(make, seeded):
    """theta turns by a right angle every 300 rounds; 64 bandits, the same problems and noise with and without."""
    g = seeded(0)
    arms = torch.nn.functional.normalize(torch.randn(64, 12, 4, generator=g), dim=-1)
    thetas = torch.nn.functional.normalize(torch.randn(4, 64, 4, generator=g), dim=-1)
    noise = 0.3 * torch.randn(1200, 64, generator=g)
    draws = torch.rand(1200, 64, generator=g)
    regret = {}
    for discount in (1.0, 0.98):
        policy = make()
        policy.reset(batch_shape=(64,))
        total = torch.zeros(64)
        for t in range(1200):
            means = (arms @ thetas[t // 300].unsqueeze(-1)).squeeze(-1)
            with torch.no_grad():
                arm = policy(arms).pick(draws[t])
            got = means.gather(1, arm[:, None])[:, 0]
            total += means.amax(1) - got
            policy.update(arms[torch.arange(64), arm], got + noise[t], discount=discount)
        regret[discount] = total.mean().item()
    print(f"regret without forgetting {regret[1.0]:.0f}, with {regret[0.98]:.0f}")
    assert regret[0.98] < 0.8 * regret[1.0]
