import pytest
import torch

from torch_softucb import functional as F


def test_eq_2_with_loops():
    probs = torch.rand(4, 6, dtype=torch.double).softmax(-1)
    means = torch.randn(4, 6, dtype=torch.double)
    got = F.expected_regret(probs, means)
    for r in range(4):
        want = max(means[r].tolist()) - sum(p * m for p, m in zip(probs[r].tolist(), means[r].tolist(), strict=True))
        assert got[r].item() == pytest.approx(want, abs=1e-12)


def test_the_best_allowed_arm_is_the_yardstick():
    mask = torch.tensor([False, True, True])
    regret = F.expected_regret(torch.tensor([0.0, 1.0, 0.0]), torch.tensor([9.0, 2.0, 1.0]), mask=mask)
    assert regret == 0


def test_bad_input():
    with pytest.raises(ValueError, match="means must have shape"):
        F.expected_regret(torch.rand(3), torch.rand(4))
