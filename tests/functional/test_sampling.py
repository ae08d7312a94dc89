import itertools
import math

import pytest
import torch

from torch_softucb import EpsilonGreedy, LinTS, LinUCB, SoftUCBPolicy
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


# Slates: Plackett-Luce by loops, in law and in gradient.


def _literal(probs, slate):
    left, logs = 1.0, []
    for arm in slate:
        logs.append(math.log(probs[arm] / left))
        left -= probs[arm]
    return logs


@pytest.mark.parametrize("k", [1, 2, 4])
def test_log_probs_are_plackett_luce_by_loops_and_sum_to_one_over_slates(k):
    probs = torch.tensor([0.4, 0.1, 0.3, 0.2], dtype=torch.double)
    total = 0.0
    for slate in itertools.permutations(range(4), k):
        got = F.slate_log_prob(probs.log(), torch.tensor(slate))
        torch.testing.assert_close(
            got, torch.tensor(_literal(probs.tolist(), slate), dtype=torch.double), atol=1e-12, rtol=0
        )
        total += got.sum().exp().item()
    assert abs(total - 1) < 1e-12


def test_a_probability_next_to_one_loses_no_digits():
    """1 - p cannot be had by subtraction here."""
    log_probs = torch.tensor([0.0, -40.0, -41.0], dtype=torch.double).log_softmax(-1)
    got = F.slate_log_prob(log_probs, torch.tensor([0, 1, 2]))
    assert got[1].item() == pytest.approx(-math.log1p(math.exp(-1)), abs=1e-12)
    assert got[2] == 0


def test_gradients_are_finite_under_masks_and_right(seeded):
    logits = torch.randn(3, 5, dtype=torch.double, generator=seeded(0), requires_grad=True)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 0, 1, 0, 1], [0, 0, 1, 1, 0]]).bool()
    slate = torch.tensor([[4, 0], [2, 0], [3, 2]])

    def value(logits):
        return F.slate_log_prob(logits.masked_fill(~mask, -torch.inf).log_softmax(-1), slate).sum()

    value(logits).backward()
    assert logits.grad.isfinite().all()
    assert (logits.grad[~mask] == 0).all()
    assert torch.autograd.gradcheck(value, (logits,))


def test_arms_without_probability_follow_by_index():
    """A greedy policy's slate is its best arms in order, for certain."""
    policy = LinUCB(2, beta=0.0, dtype=torch.double)
    policy.update(torch.eye(2, dtype=torch.double), torch.tensor([1.0, 0.5], dtype=torch.double))
    arms = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.5, 0.0], [2.0, 0.0]], dtype=torch.double)
    slate = policy(arms, mask=torch.tensor([True, True, True, False])).sample_topk(3)
    assert slate.arm.tolist() == [1, 0, 2] or slate.arm.tolist() == [1, 2, 0]
    assert slate.slate_log_prob == 0


def test_masked_arms_are_never_drawn_and_single_draws_agree(seeded):
    policy = EpsilonGreedy(3, epsilon=0.3)
    arms, mask = torch.randn(6, 3, generator=seeded(0)), torch.tensor([True, False, True, True, False, True])
    decision = policy(arms.expand(500, 6, 3), mask=mask)
    slate = decision.sample_topk(4, seeded(1))
    assert mask[slate.arm].all()
    assert (slate.arm.sort(-1).values.diff(dim=-1) > 0).all()
    one = decision.sample_topk(1, seeded(2))
    torch.testing.assert_close(one.log_prob[:, 0], decision.log_prob(one.arm[:, 0]))


def test_thompson_slates_have_no_probability(seeded):
    slate = LinTS(2)(torch.randn(5, 2, generator=seeded(0))).sample_topk(3, seeded(1))
    assert len(set(slate.arm.tolist())) == 3
    assert slate.log_prob is None
    assert slate.slate_log_prob is None


def test_bad_slates_are_named():
    decision = SoftUCBPolicy(2)(torch.randn(2, 4, 2), mask=torch.tensor([[True] * 4, [True, False, False, True]]))
    with pytest.raises(ValueError, match=r"k must be at most the number of allowed arms, 2 in row \(1,\), got 3"):
        decision.sample_topk(3)
    with pytest.raises(ValueError, match="k must be at most the number of arms, 4, got 5"):
        SoftUCBPolicy(2)(torch.randn(4, 2)).sample_topk(5)
    with pytest.raises(TypeError, match="k must be a whole number"):
        decision.sample_topk(0.5)
