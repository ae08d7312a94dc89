"""fit_prior: a log, sums and a table of ratings lead to the same prior; what cannot be fitted is refused."""

import warnings

import pytest
import torch

from tests.from_logs.cases import make_log
from torch_softucb import EpsilonGreedy, GaussianPrior, fit_prior
from torch_softucb.from_logs.sums import user_sums

D = torch.double
USERS, ROWS, DIM = 80, 1600, 3


def _table(seeded, *, offset=4.0, seed=0):
    g = seeded(seed)
    mean, scale = torch.tensor([1.0, -0.5, 0.2], dtype=D), torch.tensor([0.6, 0.3, 0.1], dtype=D)
    theta = mean + scale * torch.randn(USERS, DIM, generator=g, dtype=D)
    user, x = torch.arange(ROWS) % USERS, torch.randn(ROWS, DIM, generator=g, dtype=D)
    reward = offset + (x * theta[user]).sum(-1) + 0.4 * torch.randn(ROWS, generator=g, dtype=D)
    return x, reward, user, theta


def _same(a, b):
    for name in ("mean", "covariance"):
        torch.testing.assert_close(getattr(a, name), getattr(b, name), atol=1e-8, rtol=1e-8)
    assert a.noise_std == pytest.approx(b.noise_std, rel=1e-8)
    assert a.offset == pytest.approx(b.offset, rel=1e-8)


def test_log_sums_and_table_are_one_prior(seeded):
    x, reward, user, _ = _table(seeded)
    prior = fit_prior(x, reward, user)
    assert isinstance(prior, GaussianPrior)
    _same(fit_prior(user_sums(x, reward, user, num_users=USERS)), prior)
    _same(fit_prior(x, reward, user * 1000 + 7), prior)  # ids are names
    waiting = torch.full((5,), torch.nan, dtype=D)
    log = make_log(
        torch.cat((x, x[:5])),
        torch.zeros(ROWS + 5, dtype=torch.int64),
        torch.cat((reward, waiting)),
        bandit=torch.cat((user, user[:5])),
    )
    _same(fit_prior(log), prior)
    _same(fit_prior(x.float(), reward.float(), user), fit_prior(x.float().double(), reward.float().double(), user))


def test_a_large_offset_costs_no_digits(seeded):
    x, reward, user, _ = _table(seeded)
    plain, far = fit_prior(x, reward, user), fit_prior(x, reward + 1e8, user)
    torch.testing.assert_close(far.covariance, plain.covariance, atol=1e-6, rtol=1e-6)
    assert far.offset == pytest.approx(plain.offset + 1e8, rel=1e-12)


def test_new_users_are_served_better_from_the_first_decision_on(seeded):
    """Mean regret of 10 greedy rounds on 80 users that the prior has not seen: below half of that without a prior."""
    prior = fit_prior(*_table(seeded)[:3])
    theta = _table(seeded, seed=1)[3]
    total = {}
    for name, given in (("with", prior), ("without", None)):
        policy, g, regret = EpsilonGreedy(DIM, epsilon=0.0, prior=given, dtype=D), seeded(2), 0.0
        policy.reset(batch_shape=(USERS,))
        for _ in range(10):
            arms = torch.randn(USERS, 8, DIM, generator=g, dtype=D)
            means = 4 + (arms @ theta.unsqueeze(-1)).squeeze(-1)
            arm = policy(arms).sample(g)
            at = torch.arange(USERS), arm
            regret += float((means.amax(-1) - means[at]).mean())
            policy.update(arms[at], means[at] + 0.4 * torch.randn(USERS, generator=g, dtype=D))
        total[name] = regret
    assert total["with"] < 0.5 * total["without"]


def test_what_cannot_be_fitted_is_refused(seeded):
    x, reward, user, _ = _table(seeded)
    nan = reward.clone()
    nan[17] = torch.nan
    with pytest.raises(ValueError, match=r"fit_prior: reward must be finite.*the first at \(17,\)"):
        fit_prior(x, nan, user)
    negative = user.clone()
    negative[9] = -3
    with pytest.raises(ValueError, match="fit_prior: user ids must be at least 0, got -3 in row 9"):
        fit_prior(x, reward, negative)
    with pytest.raises(ValueError, match=r"at least two users are needed.*got 1; .* use GaussianPrior\.from_linear"):
        fit_prior(x, reward, torch.zeros_like(user))
    with pytest.raises(ValueError, match="at least two users are needed"):
        fit_prior(make_log(x, torch.zeros_like(user), reward))  # statistics that all users share
    with pytest.raises(ValueError, match="at least two users are needed"):
        fit_prior(user_sums(x, reward, torch.zeros_like(user), num_users=1))
    with pytest.raises(TypeError, match="features must come with rewards and users"):
        fit_prior(x)
    with pytest.raises(TypeError, match="expected LoggedDecisions, RegressionSums or features, got str"):
        fit_prior("ratings.csv")
    with pytest.raises(TypeError, match=r"user must be an int64 tensor of user ids, got dtype torch\.float64"):
        fit_prior(x, reward, user.double())
    with pytest.raises(ValueError, match=r"reward must have shape \(1600,\)"):
        fit_prior(x, reward[:5], user)
    with pytest.raises(ValueError, match="rewards must differ"):
        fit_prior(x, torch.ones_like(reward), user)


def test_few_observations_for_the_features_are_warned_of(seeded):
    x, reward, user, _ = _table(seeded)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_prior(x, reward, user)
    with pytest.warns(UserWarning, match="3 features are many for 2 observations per user; the noise, .*underestimated"):
        fit_prior(x[:160], reward[:160], user[:160])
