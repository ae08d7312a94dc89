"""One iteration of EM against a loop over users."""

import torch

from tests.functional.hierarchical_cases import sums_of, user_data
from torch_softucb.functional.hierarchical_em import Model, Shrinkage, evaluated, maximisation

D = torch.double


def test_one_iteration_is_the_loop_over_users(seeded):
    x, y, mean, covariance = user_data(seeded, 7, 5, 3)
    users, n, d, extra = 7, 5, 3, 1.5
    model = Model(mean + 0.3, 2 * covariance, torch.tensor(0.9, dtype=D), torch.tensor(2.5, dtype=D))
    target = 0.4 * torch.eye(d, dtype=D)
    prior = torch.linalg.inv(model.covariance)
    S, mu, evidence = [], [], 0.0
    for one, rewards in zip(x, y, strict=True):
        S.append(torch.linalg.inv(one.T @ one / model.variance + prior))
        mu.append(S[-1] @ (one.T @ (rewards - model.offset) / model.variance + prior @ model.mean))
        law = torch.distributions.MultivariateNormal(
            model.offset + one @ model.mean, one @ model.covariance @ one.T + model.variance * torch.eye(n, dtype=D)
        )
        evidence += law.log_prob(rewards)
    evidence = evidence - extra * (torch.logdet(model.covariance) + torch.trace(target @ prior)) / 2
    new_mean = torch.stack(mu).mean(0)
    new_offset = sum((rewards - one @ m).sum() for one, rewards, m in zip(x, y, mu, strict=True)) / (users * n)
    spread, error = extra * target, 0.0
    for one, rewards, m, s in zip(x, y, mu, S, strict=True):
        spread = spread + s + torch.outer(m - new_mean, m - new_mean)
        error += (rewards - new_offset - one @ m).square().sum() + torch.trace(one @ s @ one.T)
    shrinkage = Shrinkage(target, extra)
    value, found = evaluated(sums_of(x, y), model, shrinkage)
    torch.testing.assert_close(value, evidence, atol=1e-10, rtol=1e-10)
    new = maximisation(sums_of(x, y), model, found, shrinkage)
    want = Model(new_mean, spread / (users + extra), error / (users * n), new_offset)
    for got, expected in zip(new, want, strict=True):
        torch.testing.assert_close(got, expected, atol=1e-10, rtol=1e-10)
