import torch

from torch_softucb import LinUCB
from torch_softucb import functional as F


def test_radius_with_the_horizon_and_with_the_running_round():
    kind = {"subgaussian_r": 0.5, "fail_prob": 0.01, "ridge_alpha": 2.0, "theta_bound": 1.5}
    fixed = LinUCB.theoretical(3, horizon=100, **kind)
    running = LinUCB.theoretical(3, **kind)
    for rounds in range(3):
        for policy, t in ((fixed, 100), (running, rounds + 1)):
            want = F.beta_upper_bound(dim=3, horizon=t, **kind)
            torch.testing.assert_close(policy(torch.eye(3)).beta, torch.tensor(want))
            policy.update(torch.ones(3), torch.tensor(0.0))


def test_plays_the_largest_upper_bound():
    g = torch.Generator().manual_seed(0)
    policy = LinUCB(4, beta=0.5, dtype=torch.double)
    policy.update(torch.randn(9, 4, generator=g).double(), torch.randn(9, generator=g).double())
    arms = torch.randn(30, 4, generator=g).double()
    V, b = policy.state.V, policy.state.b
    inverse = torch.linalg.inv(V)
    ucb = [float(x @ inverse @ b + 0.5 * (x @ inverse @ x).sqrt()) for x in arms]
    assert policy(arms).sample() == max(range(30), key=ucb.__getitem__)
