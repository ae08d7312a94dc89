"""SoftElim against its formula, by loops."""

import math

import numpy as np
import torch

from tests.policies.history import D, K
from torch_softucb import SoftElim


def test_soft_elim_by_loops_and_its_rate_learns(seeded):
    policy = SoftElim(D, rate_init=0.7, dtype=torch.double)
    g = seeded(0)
    arms = torch.randn(K, D, dtype=torch.double, generator=g)
    policy.update(torch.randn(9, D, dtype=torch.double, generator=g), torch.randn(9, dtype=torch.double, generator=g))
    decision = policy(arms)
    m, w = decision.mu_hat.tolist(), decision.width.tolist()
    mass = [math.exp(-2 * 0.7 * ((max(m) - a) / b) ** 2) for a, b in zip(m, w, strict=True)]
    np.testing.assert_allclose(decision.probs.detach(), [v / sum(mass) for v in mass], atol=1e-12)
    decision.log_prob(torch.tensor(2)).backward()
    assert policy.raw_rate.grad.isfinite()
    assert policy.raw_rate.grad != 0
    assert SoftElim(2)(torch.zeros(3, 2)).probs.isfinite().all()  # width 0


def test_the_rate_is_1_by_default_as_in_the_paper():
    assert SoftElim(2).raw_rate == 1.0
