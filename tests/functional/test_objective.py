import pytest
import torch

from tests import reference
from torch_softucb import functional as F

T, B, K = 6, 3, 5
MASK = torch.tensor([True, True, False, True, False])


def _episode():
    g = torch.Generator().manual_seed(0)
    mu_hat = torch.randn(T, B, K, generator=g, dtype=torch.double)
    width = torch.rand(T, B, K, generator=g, dtype=torch.double)
    gamma = torch.rand(T, B, generator=g, dtype=torch.double) * 3
    beta = torch.rand(B, generator=g, dtype=torch.double) + 0.1
    return beta, mu_hat, width, gamma


def _gradients(beta, mu_hat, width, gamma, allowed):
    """Reward part of Eq. 13 for every round and trajectory, by loops."""
    table = torch.zeros(T, B, dtype=torch.double)
    for t in range(T):
        for r in range(B):
            m, w, bt = mu_hat[t, r].tolist(), width[t, r].tolist(), beta[r].item()
            S = reference.index(m, w, bt, allowed)
            table[t, r] = reference.reward_gradient(S, m, w, gamma[t, r].item(), bt, allowed)
    return table


@pytest.mark.parametrize("mask", [None, MASK])
def test_offline_gradient_is_eq_13_by_parts(mask):
    beta, mu_hat, width, gamma = _episode()
    beta.requires_grad_()
    parts = F.offline_objective(beta, mu_hat, width, gamma, eta=0.3, mask=mask)
    allowed = [True] * K if mask is None else mask.tolist()
    (reward,) = torch.autograd.grad(parts.reward.sum(), beta)
    (penalty,) = torch.autograd.grad(parts.penalty.sum(), beta)
    want = _gradients(beta.detach(), mu_hat, width, gamma, allowed).sum(0) / T
    torch.testing.assert_close(reward, want, atol=1e-12, rtol=0)
    torch.testing.assert_close(penalty, 0.3 * width[..., allowed].sum((0, 2)) / T, atol=1e-12, rtol=0)


def test_offline_penalty_with_known_means_is_eq_11():
    beta, mu_hat, width, gamma = _episode()
    means = torch.randn(B, K, dtype=torch.double)
    parts = F.offline_objective(beta, mu_hat, width, gamma, eta=0.3, means=means)
    want = torch.zeros(B, dtype=torch.double)
    for t in range(T):
        for r in range(B):
            for i in range(K):
                want[r] -= 0.3 * (abs(means[r, i] - mu_hat[t, r, i]) - beta[r] * width[t, r, i]) / T
    torch.testing.assert_close(parts.penalty, want, atol=1e-12, rtol=0)


@pytest.mark.parametrize("mask", [None, MASK])
def test_online_gradient_is_eq_15_at_every_round(mask):
    beta, mu_hat, width, gamma = _episode()
    allowed = [True] * K if mask is None else mask.tolist()
    each = _gradients(beta, mu_hat, width, gamma, allowed)
    past = torch.zeros(B, dtype=torch.double)
    for t in range(1, T + 1):
        got, past = F.online_gradient(each[t - 1], past, F.sum_width(width[t - 1], mask=mask), t=t, horizon=T, eta=0.7)
        for r in range(B):
            total = sum(each[s, r].item() for s in range(t))
            total += (T - t) * each[t - 1, r].item()
            total += 0.7 * sum(w for w, ok in zip(width[t - 1, r].tolist(), allowed, strict=True) if ok)
            assert got[r].item() == pytest.approx(total / T, abs=1e-12)


def test_online_objective_at_the_horizon_is_the_offline_reward():
    beta, mu_hat, width, gamma = _episode()
    value = F.expected_reward(beta.expand(T, B), mu_hat, width, gamma)
    last = F.online_objective(value[-1], value.sum(0), t=T, horizon=T)
    torch.testing.assert_close(last, F.offline_objective(beta, mu_hat, width, gamma, eta=0.0).reward)


@pytest.mark.parametrize(
    ("kind", "match"),
    [
        ({"t": 0}, "t must be at least 1"),
        ({"t": 7}, "t must be in"),
        ({"horizon": 0}, "horizon"),
        ({"eta": -1.0}, "eta"),
    ],
)
def test_bad_input(kind, match):
    settings = {"t": 1, "horizon": 6, "eta": 0.1} | kind
    with pytest.raises(ValueError, match=match):
        F.online_gradient(torch.zeros(()), torch.zeros(()), torch.rand(()), **settings)
