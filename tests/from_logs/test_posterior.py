"""The posterior of a log: moments of drawn problems, several bandits, missing rewards, logs that are too short."""

import pytest
import torch

from tests.from_logs.cases import D, random_log
from torch_softucb import SoftUCBHead, SoftUCBPolicy, rollout
from torch_softucb import functional as F
from torch_softucb.from_logs.posterior import fit_posterior, radius
from torch_softucb.recommend import DecisionLog, read_decisions
from torch_softucb.recommend.log.reader import LoggedDecisions


def test_drawn_problems_have_the_posterior_s_moments(seeded):
    log, theta = random_log(300, 5, 3, seeded)
    posterior = fit_posterior(log)
    drawn = posterior.draw(4000, generator=seeded(1), dtype=D)
    assert drawn.arms.shape == (4000, 5, 3)
    back = torch.linalg.lstsq(drawn.arms, drawn.means.unsqueeze(-1)).solution.squeeze(-1)  # theta of every problem
    cov = posterior.theta.root[0] @ posterior.theta.root[0].T
    torch.testing.assert_close(back.T.cov(), cov, atol=0.1 * float(cov.diagonal().max()), rtol=0)
    z = (back.mean(0) - posterior.theta.mean[0]) / (cov.diagonal() / 4000).sqrt()
    assert z.abs().max() < 4
    assert drawn.noise_std == pytest.approx(0.5, rel=0.15)
    assert (theta[0] - posterior.theta.mean[0]).norm() < 0.2
    assert (drawn.arms[:, None, 0] == log.features[None, :, 0]).all(-1).any(1).all()  # arms are sets of the log
    fewer = posterior.draw(7, generator=seeded(1), dtype=D)
    assert fewer.means.equal(drawn.means[:7])


def test_masked_candidates_stay_masked(seeded):
    log, _ = random_log(100, 5, 3, seeded)
    closed = torch.arange(5) == ((log.arm + 1) % 5).unsqueeze(-1)
    posterior = fit_posterior(log._replace(candidates=log.candidates.masked_fill(closed, -1)))
    drawn = posterior.draw(50, generator=seeded(2))
    assert drawn.mask.sum(-1).tolist() == [4] * 50
    assert rollout(SoftUCBPolicy(3), drawn, horizon=5, generator=seeded(0)).regret.min() >= 0


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
