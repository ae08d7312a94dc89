import torch

from torch_softucb import functional as F


def test_never_an_arm_of_probability_0():
    probs = torch.tensor([0.0, 0.0, 0.3, 0.0, 0.7, 0.0])
    edge = torch.tensor([0.0, 0.3, 1 - 2**-24, 0.2999999])
    for dtype in (torch.float32, torch.float64):
        arm = F.draw_arm(probs.to(dtype).expand(4, 6), edge.to(dtype))
        assert set(arm.tolist()) <= {2, 4}
        assert arm[0] == 2
        assert arm[2] == 4


def test_the_largest_uniform_stays_inside_whatever_the_rounding():
    g = torch.Generator().manual_seed(0)
    for dtype, digits in ((torch.float32, 24), (torch.float64, 53)):
        probs = torch.rand(20_000, 9, generator=g, dtype=dtype)
        probs = probs / probs.sum(-1, keepdim=True)
        arm = F.draw_arm(probs, torch.full((20_000,), 1 - 2.0**-digits, dtype=dtype))
        assert arm.max() <= 8


def test_frequencies():
    probs = torch.tensor([0.5, 0.2, 0.0, 0.3])
    uniform = (torch.arange(10_000) + 0.5) / 10_000
    arm = F.draw_arm(probs.expand(10_000, 4), uniform)
    torch.testing.assert_close(torch.bincount(arm, minlength=4) / 10_000, probs, atol=2e-4, rtol=0)


def test_layout_does_not_matter():
    probs = torch.rand(6, 50).softmax(-1)
    uniform = torch.rand(6)
    assert F.draw_arm(probs.t().contiguous().t(), uniform).equal(F.draw_arm(probs, uniform))
