"""Coverage estimated from rewards alone."""

import math
import random

import pytest
import torch

from torch_softucb import SoftUCBPolicy, synthetic_problem
from torch_softucb import functional as F

D = torch.double


def test_the_running_sums_are_the_formula_by_loops():
    """kappa^2 = (k0^2 + sum w^2 r^2 / (1 + w^2)) / (1 + sum w^2), k0 = beta_0 over the target's normal quantile."""
    rng, rounds, trajectories = random.Random(0), 30, 3
    mu_hat, width, reward = ([[rng.random() for _ in range(trajectories)] for _ in range(rounds)] for _ in range(3))
    beta = [0.4, 1.0, 2.5]
    seen = F.no_residuals(torch.tensor(beta, dtype=D), 0.9)
    for t in range(rounds):
        seen = F.add_residuals(seen, *(torch.tensor(v[t], dtype=D) for v in (mu_hat, width, reward)))
    kappa = F.error_scale(seen)
    at_once = F.add_residuals(
        F.no_residuals(torch.tensor(beta, dtype=D), 0.9), *(torch.tensor(v, dtype=D).T for v in (mu_hat, width, reward))
    )
    for i in range(trajectories):
        up, down = (beta[i] / 1.6448536269514722) ** 2, 1.0  # Phi(1.6449) = 0.95
        for t in range(rounds):
            w, r = width[t][i], reward[t][i] - mu_hat[t][i]
            up, down = up + w * w * r * r / (1 + w * w), down + w * w
        assert kappa[i].item() == pytest.approx(math.sqrt(up / down), abs=1e-10)
        assert F.error_scale(at_once)[i].item() == pytest.approx(math.sqrt(up / down), abs=1e-10)
        want = 2 * (0.5 * (1 + math.erf(beta[i] / math.sqrt(up / down) / math.sqrt(2)))) - 1
        got = F.estimated_coverage(torch.tensor(beta[i], dtype=D), kappa[i]).item()
        assert got == pytest.approx(want, abs=1e-10)


def test_rewards_of_another_scale_scale_kappa():
    g = torch.Generator().manual_seed(0)
    mu_hat, width, reward = torch.rand(3, 4, 20, dtype=D, generator=g)
    beta = torch.ones(4, dtype=D)
    one = F.error_scale(F.add_residuals(F.no_residuals(beta, 0.85), mu_hat, width, reward))
    ten = F.error_scale(F.add_residuals(F.no_residuals(10 * beta, 0.85), 10 * mu_hat, width, 10 * reward))
    torch.testing.assert_close(ten, 10 * one)


def test_degenerate_cases_are_defined():
    """beta 0: no coverage, whatever kappa; no error at all: full coverage."""
    zero, one = torch.zeros(()), torch.ones(())
    assert F.estimated_coverage(zero, zero) == 0
    assert F.estimated_coverage(zero, one) == 0
    assert F.estimated_coverage(one, zero) == 1
    assert F.error_scale(F.no_residuals(zero, 0.85)) == 0
    with pytest.raises(ValueError, match=r"target must be in \(0, 1\), got 1"):
        F.no_residuals(one, 1.0)


@pytest.mark.parametrize("noise", [0.2, 1.0])
def test_a_matched_prior_is_estimated_without_bias(noise):
    """theta ~ N(0, noise^2 / alpha), uniform play: kappa is the noise; 512 trajectories of 200 rounds, within 3%."""
    g = torch.Generator().manual_seed(0)
    problem = synthetic_problem(num_problems=512, num_arms=20, dim=5, noise_std=noise, generator=g, dtype=D)
    theta = noise * torch.randn(512, 5, dtype=D, generator=g)
    means = (problem.arms @ theta.unsqueeze(-1)).squeeze(-1)
    policy = SoftUCBPolicy(5, dtype=D)
    policy.reset(batch_shape=(512,))
    seen = F.no_residuals(torch.full((512,), 1.4395 * noise, dtype=D), 0.85)
    covered = []
    for _ in range(200):
        decision = policy(problem.arms)
        arm = torch.randint(20, (512, 1), generator=g)
        mu_hat, width, mean = (v.detach().gather(-1, arm).squeeze(-1) for v in (decision.mu_hat, decision.width, means))
        reward = mean + noise * torch.randn(512, dtype=D, generator=g)
        seen = F.add_residuals(seen, mu_hat, width, reward)
        covered.append(F.coverage(means, decision.mu_hat, decision.width, torch.tensor(noise, dtype=D)).mean())
        policy.update(problem.arms[torch.arange(512), arm.squeeze(-1)], reward)
    kappa = F.error_scale(seen)
    assert float(kappa.mean()) == pytest.approx(noise, rel=0.03)
    estimated = F.estimated_coverage(torch.tensor(noise, dtype=D), kappa).mean()
    assert float(estimated) == pytest.approx(float(torch.stack(covered).mean()), abs=0.02)


@pytest.mark.parametrize("start", [0.0, 0.3, 20.0])
@pytest.mark.parametrize("kappa", [0.01, 5.0])
def test_beta_rests_at_the_targets_quantile_whatever_the_reward_part_does(start, kappa):
    """Reward parts of random sign and size, a fifth of them 0, from far below and far above: kappa times 1.2816 for 0.8."""
    g = torch.Generator().manual_seed(0)
    beta, log_eta = torch.full((64,), start * kappa, dtype=D), torch.zeros(64, dtype=D)
    late = []
    for t in range(400):
        reward = 0.1 * torch.randn(64, dtype=D, generator=g) * (torch.rand(64, generator=g) > 0.2)
        scale = torch.full_like(beta, kappa)
        gradient, log_eta = F.online_dual_step(beta, scale, reward, torch.ones_like(beta), log_eta, target=0.8)
        beta = (beta + 0.1 * gradient).clamp(min=0)
        if t >= 200:
            late.append(beta)
    assert float(torch.stack(late).mean()) == pytest.approx(1.2816 * kappa, rel=0.03)
    assert float(torch.stack(late).max()) < 2.5 * kappa


@pytest.mark.parametrize("name", ["mu_hat", "width", "reward"])
def test_residuals_of_another_shape_are_refused_by_name(name):
    """One width or reward for several rounds would be broadcast without notice."""
    given = {"mu_hat": torch.rand(2, 3), "width": torch.rand(2, 3), "reward": torch.rand(2, 3)}
    F.add_residuals(F.no_residuals(torch.ones(2), 0.9), **given)
    wrong = torch.rand(3, 3) if name == "mu_hat" else torch.rand(2, 1)
    with pytest.raises(ValueError, match=f"^add_residuals: {name} must"):
        F.add_residuals(F.no_residuals(torch.ones(2), 0.9), **{**given, name: wrong})
