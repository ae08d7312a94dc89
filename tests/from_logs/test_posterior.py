"""The posterior of a log: moments of drawn problems, several bandits, missing rewards, logs that are too short."""

import pytest
import torch

from tests.from_logs.cases import D, random_log
from torch_softucb import GaussianPrior, SoftUCBHead, SoftUCBPolicy, rollout
from torch_softucb import functional as F
from torch_softucb.from_logs.posterior import fit_posterior, radius
from torch_softucb.recommend import DecisionLog, read_decisions
from torch_softucb.recommend.log.reader import LoggedDecisions


def test_drawn_problems_have_the_posterior_s_moments(seeded):
    log, theta = random_log(300, 5, 3, seeded)
    posterior = fit_posterior(log)
    drawn = posterior.draw(4000, generator=seeded(1), dtype=D)
    assert drawn.arms.shape == (1500, 3)
    back = torch.linalg.lstsq(drawn.arms, drawn.means.mT).solution.mT  # theta of every problem
    cov = posterior.theta.root[0] @ posterior.theta.root[0].T
    torch.testing.assert_close(back.T.cov(), cov, atol=0.1 * float(cov.diagonal().max()), rtol=0)
    z = (back.mean(0) - posterior.theta.mean[0]) / (cov.diagonal() / 4000).sqrt()
    assert z.abs().max() < 4
    assert drawn.noise_std == pytest.approx(0.5, rel=0.15)
    assert (theta[0] - posterior.theta.mean[0]).norm() < 0.2
    assert drawn.arms[drawn.sets].equal(log.features)  # the sets of the log are what is offered
    fewer = posterior.draw(7, generator=seeded(1), dtype=D)
    assert fewer.means.equal(drawn.means[:7])


def test_masked_candidates_stay_masked(seeded):
    log, _ = random_log(100, 5, 3, seeded)
    closed = torch.arange(5) == ((log.arm + 1) % 5).unsqueeze(-1)
    posterior = fit_posterior(log._replace(candidates=log.candidates.masked_fill(closed, -1)))
    drawn = posterior.draw(50, generator=seeded(2))
    assert (drawn.sets >= 0).sum(-1).tolist() == [4] * 100
    assert rollout(SoftUCBPolicy(3), drawn, horizon=5, generator=seeded(0)).regret.min() >= 0


def test_a_prior_takes_part_in_the_posterior(seeded):
    """Against the rule of Gaussian conditioning, written with the covariance of all rewards."""
    log, _ = random_log(12, 5, 2, seeded, bandits=2)
    cov = torch.tensor([[0.5, 0.1], [0.1, 0.3]], dtype=D)
    prior = GaussianPrior(torch.tensor([0.4, -0.2], dtype=D), cov, noise_std=0.5, offset=3.0)
    log = log._replace(reward=log.reward + 3)
    posterior = fit_posterior(log, prior=prior)
    for b in range(2):
        x, y = log.x[log.bandit == b], log.reward[log.bandit == b]
        gain = cov @ x.T @ torch.linalg.inv(x @ cov @ x.T + 0.25 * torch.eye(len(x), dtype=D))
        torch.testing.assert_close(posterior.theta.mean[b], prior.mean + gain @ (y - 3 - x @ prior.mean), rtol=0, atol=1e-10)
        root = posterior.theta.root[b]
        torch.testing.assert_close(root @ root.T, cov - gain @ x @ cov, rtol=0, atol=1e-10)
    assert posterior.theta_of(torch.tensor([7])).squeeze(0).equal(prior.mean)
    residual = log.reward - 3 - (posterior.theta.mean[posterior.owner] * log.x).sum(-1)
    assert posterior.explained == pytest.approx(float(1 - residual.square().mean() / log.reward.var(correction=0)))
    drawn = posterior.draw(3, generator=seeded(0), dtype=D)
    theta = torch.linalg.lstsq(drawn.arms, (drawn.means - 3).mT).solution.mT
    torch.testing.assert_close(drawn.means, 3 + theta @ drawn.arms.T, rtol=0, atol=1e-10)


def test_noise_and_delays_of_the_worlds(seeded):
    log, _ = random_log(300, 5, 3, seeded)
    posterior = fit_posterior(log)
    drawn = posterior.draw(3, generator=seeded(0), dtype=D, noise="empirical", delay=2)
    assert drawn.reward == "empirical"
    assert drawn.residuals.equal(posterior.residuals)
    assert posterior.residuals.mean().abs() < 1e-12
    assert posterior.residuals.std().item() == pytest.approx(0.5, rel=0.15)
    assert drawn.fixed_delay == 2
    with pytest.raises(ValueError, match="noise must be"):
        posterior.draw(3, noise="cauchy")


def test_bandits_have_a_theta_each(seeded):
    log, theta = random_log(6000, 5, 3, seeded, bandits=20)
    posterior = fit_posterior(log._replace(bandit=2 * log.bandit))
    assert posterior.names.tolist() == list(range(0, 40, 2))
    assert (posterior.theta.mean - theta).norm(dim=-1).max() < 0.25
    assert posterior.theta.noise_std.item() == pytest.approx(0.5, rel=0.05)
    torch.testing.assert_close(posterior.theta_of(torch.tensor([2, 4])), posterior.theta.mean[1:3])
    torch.testing.assert_close(posterior.theta_of(torch.tensor([3, 99])), posterior.theta.mean.mean(0).expand(2, -1))


def test_who_logged_and_what_is_missing_do_not_matter(tmp_path, seeded):
    """A head with several users logs slates, half of it unanswered: the posterior is that of its answered items."""
    policy = SoftUCBPolicy(3, dtype=D)
    policy.reset(batch_shape=(4,))
    head = SoftUCBHead(torch.nn.Identity(), policy)
    g = seeded(0)
    theta = torch.randn(4, 3, dtype=D, generator=g)
    with DecisionLog(tmp_path) as log:
        for _ in range(100):
            users, arms = torch.arange(4), torch.randn(4, 6, 3, dtype=D, generator=g)
            served = head.serve(head(arms, bandit=users), k=2)
            log.decisions(served, features=arms)
            ids = served.id[::2].reshape(-1)
            reward = (served.x * theta.unsqueeze(1)).sum(-1)[::2].reshape(-1)
            reward = reward + 0.1 * torch.randn(len(reward), dtype=D, generator=g)
            head.feedback(ids, reward)
            log.rewards(ids, reward)
    posterior = fit_posterior(read_decisions(tmp_path))
    assert posterior.names.tolist() == [0, 2]
    assert len(posterior.owner) == 400
    torch.testing.assert_close(posterior.theta.mean, theta[::2], atol=0.05, rtol=0)


def test_the_explained_share_is_that_of_the_truth(seeded):
    """x . theta has variance |theta|^2, the noise 0.25."""
    log, theta = random_log(20_000, 5, 3, seeded)
    signal = theta.square().sum().item()
    assert fit_posterior(log).explained == pytest.approx(signal / (signal + 0.25), abs=0.02)


def test_the_radius_is_eq_5_with_the_estimated_noise_and_length(seeded):
    log, theta = random_log(20_000, 5, 3, seeded)
    sizes = {"dim": 3, "horizon": 500, "fail_prob": 0.01, "ridge_alpha": 2.0}
    want = F.beta_upper_bound(**sizes, subgaussian_r=0.5, theta_bound=theta.norm().item())
    assert radius(fit_posterior(log), horizon=500, ridge_alpha=2.0) == pytest.approx(want, rel=0.02)


def test_logs_that_show_nothing_are_named(seeded):
    log, _ = random_log(20, 4, 3, seeded)
    with pytest.raises(ValueError, match="the number of rewards must be above the number of features, 3, got 2"):
        fit_posterior(LoggedDecisions(*(column[:2] for column in log)))
    with pytest.raises(ValueError, match="rewards must differ, got 1 in all 20 decisions"):
        fit_posterior(log._replace(reward=torch.ones_like(log.reward)))
