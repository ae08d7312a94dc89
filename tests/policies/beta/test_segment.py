"""One beta per segment."""

import pytest
import torch

from tests.policies.beta.modules import D, bent, needs_compiler, problem_of
from torch_softucb import SegmentBeta, SoftUCBPolicy, rollout
from torch_softucb.learning.episode import Episode
from torch_softucb.learning.estimators.finite_difference import common_random_numbers


def test_segments_share_their_beta(seeded):
    policy = SoftUCBPolicy(4, beta_init=bent(SegmentBeta(torch.tensor([0, 1, 0, 2])), seeded))
    policy.reset(batch_shape=(4,))
    arms = torch.randn(9, 4, generator=seeded(0))
    beta = policy(arms).beta
    assert beta[0] == beta[2]
    assert len(beta.unique()) == 3
    assert torch.equal(policy(arms, bandit=torch.tensor([2, 3])).beta, beta[[2, 3]])
    policy.reset(batch_shape=(5,))
    with pytest.raises(ValueError, match=r"beta has shape \(4,\), which does not fit batch_shape \(5,\)"):
        policy(arms)


def test_a_segment_for_every_bandit_named_or_not(seeded):
    policy = SoftUCBPolicy(2, beta_init=SegmentBeta(torch.tensor([0, 1, 1])))
    policy.reset(batch_shape=(5,))
    for bandit in (None, torch.tensor([0, 2]), torch.tensor([4])):
        with pytest.raises(ValueError, match=r"beta has shape \(3,\), which does not fit batch_shape \(5,\)"):
            policy(torch.eye(2), bandit=bandit)


def test_segments_of_any_integer_type():
    betas = SegmentBeta(torch.tensor([0, 1, 1, 2], dtype=torch.uint8), init=0.5)  # torch would take uint8 for a mask
    assert betas(torch.empty(0)).shape == (4,)


def test_a_module_comes_back_from_below_zero_at_once(seeded):
    """Else both ends of its differences would read as 0, and so would their slope."""
    episode = Episode(problem_of(seeded), 5, 6)
    module = SegmentBeta(torch.arange(20) % 3, init=0.0)
    policy = SoftUCBPolicy(4, beta_init=module, coldness="smooth", dtype=D)
    with torch.no_grad():
        module.raw.fill_(-2.0)
    common_random_numbers(policy, episode, horizon=30, eta=0.0, record=()).loss.backward()
    assert (module.raw == 0).all()
    assert (module.raw.grad < 0).all()  # some exploration is better than none
    number = SoftUCBPolicy(4, beta_init=0.0, coldness="smooth", dtype=D)
    common_random_numbers(number, episode, horizon=30, eta=0.0, record=()).loss.backward()
    one = SegmentBeta(torch.zeros(20, dtype=torch.long), init=0.0)
    policy = SoftUCBPolicy(4, beta_init=one, coldness="smooth", dtype=D)
    common_random_numbers(policy, episode, horizon=30, eta=0.0, record=()).loss.backward()
    torch.testing.assert_close(one.raw.grad[0], number.raw_beta.grad)


@needs_compiler
@pytest.mark.parametrize("beta", ["tensor", "segments"])
def test_the_native_kernel_takes_one_beta_a_trajectory_for_no_other(beta, seeded):
    """A batch (n, 1) played for n rounds has betas of the shape of a schedule's; a wrong number of them is refused."""
    problem = problem_of(seeded, count=16)
    tall = type(problem)(problem.arms.unsqueeze(1), problem.means.unsqueeze(1))
    values = torch.linspace(0, 3, 16).view(16, 1)
    module = SegmentBeta(torch.arange(16).view(16, 1))
    module.raw.data.copy_(values.flatten())
    policy = SoftUCBPolicy(4, beta_init=values if beta == "tensor" else module, dtype=D)
    eager, fast = (rollout(policy, tall, horizon=16, generator=seeded(1), compile=how).regret for how in (False, "native"))
    torch.testing.assert_close(fast, eager, atol=1e-10, rtol=0)
    with pytest.raises(ValueError, match="does not fit batch_shape"):
        rollout(policy, problem_of(seeded, count=40), horizon=4, compile="native")


@pytest.mark.parametrize(
    "segments", [torch.tensor([0.5]), torch.tensor([-1]), torch.tensor([True]), torch.ones(0).long(), [0]]
)
def test_wrong_segments_are_refused(segments):
    with pytest.raises(ValueError, match="segments must be integers >= 0"):
        SegmentBeta(segments)


def test_the_typical_beta_is_the_mean_over_bandits():
    module = SegmentBeta(torch.tensor([0, 1, 1]))
    with torch.no_grad():
        module.raw.copy_(torch.tensor([3.0, -1.0]))  # a raw value below 0 reads as 0 (D9)
    assert module.typical == 1.0
