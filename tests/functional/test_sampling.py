import itertools
import math

import pytest
import torch

from torch_softucb import EpsilonGreedy, LinTS, LinUCB, SoftUCBPolicy
from torch_softucb import functional as F
from torch_softucb.errors import NumericalError


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


def test_a_sum_below_1_still_gives_an_arm():
    probs = torch.tensor([0.25, 0.25])
    for shape in ((), (1,)):
        arm = F.draw_arm(probs.expand(*shape, 2), torch.full(shape, 0.6))
        assert arm.flatten().tolist() == [1]  # 0.6 of the total


def test_one_decision_with_a_graph_is_drawn_like_one_without():
    probs = torch.tensor([0.2, 0.3, 0.5])
    for uniform in torch.linspace(0, 0.99, 12):
        assert F.draw_arm(probs.clone().requires_grad_(), uniform).equal(F.draw_arm(probs, uniform))


def test_the_first_item_of_a_slate_follows_the_probabilities(seeded):
    probs = torch.tensor([0.6, 0.1, 0.3], dtype=torch.double)
    uniform = torch.rand(40_000, 3, generator=seeded(0), dtype=torch.double)
    slate = F.draw_slate(probs.log().expand(40_000, 3), torch.zeros(40_000, 3), uniform, k=2)
    counts = torch.bincount(slate[:, 0], minlength=3)
    # 6 standard errors: false alarms below 1e-8; probabilities off by 0.03 are 12 of them
    assert ((counts / 40_000 - probs).abs() < 6 * (probs * (1 - probs) / 40_000).sqrt()).all()


def test_many_arms_of_probability_0_come_last_by_index(seeded):
    index = torch.randn(2, 3, 200, generator=seeded(0))
    index[..., 50:60] = index[..., :1]  # ties
    log_probs = torch.full((2, 3, 200), -math.inf)
    log_probs[..., 7] = 0.0
    slate = F.draw_slate(log_probs, index, torch.rand(2, 3, 200, generator=seeded(1), dtype=torch.double), k=200)
    assert (slate[..., 0] == 7).all()
    rest = index.gather(-1, slate[..., 1:])
    assert (rest.diff(dim=-1) <= 0).all()
    tied = rest.diff(dim=-1) == 0
    assert (slate[..., 1:].diff(dim=-1)[tied] > 0).all()  # in the order of the arms


def test_slates_of_a_grid_are_those_of_each_row(seeded):
    log_probs = torch.randn(2, 3, 6, generator=seeded(0)).log_softmax(-1)
    index, uniform = torch.randn(2, 3, 6, generator=seeded(1)), torch.rand(2, 3, 6, generator=seeded(2), dtype=torch.double)
    slate = F.draw_slate(log_probs, index, uniform, k=4)
    logp = F.slate_log_prob(log_probs, slate)
    for i, j in itertools.product(range(2), range(3)):
        one = F.draw_slate(log_probs[i, j], index[i, j], uniform[i, j], k=4)
        assert slate[i, j].equal(one)
        torch.testing.assert_close(logp[i, j], F.slate_log_prob(log_probs[i, j], one))


# --- the law of the draw in every dtype, and what cannot be drawn from


def _law(probs):
    """Probability with which each arm is drawn, from the thresholds between arms, found by bisection in float64."""
    K = probs.shape[-1]
    low, high = torch.zeros(K - 1, dtype=torch.double), torch.ones(K - 1, dtype=torch.double)
    arms = torch.arange(K - 1)
    for _ in range(60):
        middle = (low + high) / 2
        above = F.draw_arm(probs.expand(K - 1, K), middle) > arms
        low, high = torch.where(above, low, middle), torch.where(above, middle, high)
    return torch.cat((high, torch.ones(1).double())).diff(prepend=torch.zeros(1).double())


@pytest.mark.parametrize(("dtype", "num_arms"), [(torch.bfloat16, 50), (torch.float16, 1000), (torch.float32, 1000)])
def test_the_stated_probability_is_the_law_of_the_draw_in_every_dtype(dtype, num_arms, seeded):
    """Total variation at most 1e-9 against the stated numbers, normalised in float64."""
    probs = (3 * torch.randn(num_arms, generator=seeded(0))).softmax(-1).to(dtype)
    stated = probs.double() / probs.double().sum()
    assert (_law(probs) - stated).abs().sum() / 2 <= 1e-9


def test_every_arm_of_a_hundred_thousand_can_be_drawn(seeded):
    """In float32 sums 3,000 of these arms could not be drawn; the middle of each arm's interval must give that arm."""
    probs = (2 * torch.randn(100_000, generator=seeded(1))).softmax(-1)
    stated = probs.double() / probs.double().sum()
    middle = stated.cumsum(0) - stated / 2
    some = torch.arange(0, 100_000, 97)
    assert F.draw_arm(probs.expand(len(some), -1), middle[some]).equal(some)
    assert [int(F.draw_arm(probs, middle[i])) for i in some[::100]] == some[::100].tolist()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 0.0])
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
def test_probabilities_that_are_not_a_law_raise_and_never_give_arm_k(bad, batch):
    probs = torch.full((*batch, 4), 0.25)
    probs.view(-1, 4)[-1] = bad
    with pytest.raises(NumericalError, match=r"draw_arm: probs must be finite with a sum above 0.*beta or the statistics"):
        F.draw_arm(probs, torch.full(batch, 0.3))
    with pytest.raises(NumericalError):
        F.draw_slate(probs.log(), probs, torch.full(probs.shape, 0.5).double(), k=2)


def test_the_row_without_a_law_is_named():
    probs = torch.tensor([[0.5, 0.5], [0.0, 0.0], [1.0, 0.0]])
    with pytest.raises(NumericalError, match=r"0 NaN of 6 probabilities in 1 rows, the first at \(1,\)"):
        F.draw_arm(probs, torch.full((3,), 0.5))


def test_arms_without_values_have_a_shape():
    arm = F.draw_arm(torch.empty(3, 4, device="meta"), torch.empty(3, device="meta"))
    assert arm.shape == (3,)
    assert arm.dtype == torch.int64
