import pytest
import torch

from tests.statistics_checks import every_seed, mean_bound, mean_power
from torch_softucb import LinTS


@every_seed
def test_draws_have_the_posteriors_mean_and_covariance(seed):
    """200,000 draws against N(theta_hat, scale^2 V^-1): 9 numbers, false alarms 1e-6 in all; an error of 3% is flagged."""
    g = torch.Generator().manual_seed(seed)
    policy = LinTS(3, scale=0.7, ridge_alpha=0.5, dtype=torch.double)
    policy.update(torch.randn(6, 3, generator=g).double(), torch.randn(6, generator=g).double())
    n = 200_000
    decision = policy(torch.eye(3).double().expand(n, 3, 3))
    sampled = decision.draw(torch.randn(n, 3, generator=g).double())
    want = 0.49 * torch.linalg.inv(policy.state.V)
    torch.testing.assert_close(
        sampled.mean(0), decision.mu_hat[0], atol=mean_bound((want.max().item() / n) ** 0.5, 9), rtol=0
    )
    torch.testing.assert_close(sampled.T.cov(), want, atol=mean_bound(want.max().item() * (2 / n) ** 0.5, 9), rtol=0)
    assert mean_power(0.03, (2 / n) ** 0.5, 9) > 0.999


def test_it_has_no_probabilities_and_says_so():
    decision = LinTS(2)(torch.eye(2))
    assert decision.probs is None
    with pytest.raises(TypeError, match="no closed form"):
        decision.log_prob(torch.tensor(0))
    with pytest.raises(TypeError, match="no closed form"):
        decision.entropy()


def test_a_draw_is_exact_in_float64():
    policy = LinTS(2, scale=0.3, dtype=torch.double)
    z = torch.tensor([1.0, -2.0], dtype=torch.double)
    torch.testing.assert_close(policy(torch.eye(2).double()).draw(z), 0.3 * z, atol=1e-15, rtol=0)  # V = I, mean 0
    assert policy.native_rule(z).scale.dtype == torch.double
