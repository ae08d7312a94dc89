"""The fast path for one bandit is the same policy: decisions, draws and statistics agree with the general path."""

import copy

import pytest
import torch

from tests.policies.cases import ALL, POLICIES, SAMPLED, build
from torch_softucb import SoftUCBPolicy
from torch_softucb.policies import fast_path

FIELDS = ("probs", "index", "mu_hat", "width", "beta", "gamma", "next_gamma")


def _play(policy, seeded, rounds=30, dtype=torch.double):
    """Both paths decide in every round; the bandit learns by the short cut, its twin in a batch of one."""
    g = seeded(0)
    twin = copy.deepcopy(policy)
    twin.reset(batch_shape=(1,))
    for _ in range(rounds):
        arms = torch.randn(12, 4, generator=g).to(dtype)
        mask = torch.rand(12, generator=g) > 0.4
        mask[3] = mask[5] = True
        yield arms, mask, twin
        reward = torch.randn((), generator=g).to(dtype)
        with torch.no_grad():
            decision, other = policy(arms, mask=mask), twin(arms, mask=mask)
        policy.update(arms[3], reward, decision=decision, arm=torch.tensor(3))
        twin.update(arms[3:4], reward[None], decision=other, arm=torch.tensor([3]))


@pytest.mark.parametrize("name", [name for name in ALL if name not in ("soft_ucb_tensor", "soft_ucb_segment")])
def test_statistics_agree_with_a_batch_of_one(name, seeded):
    policy = build(name, 4, num_arms=12, ridge_alpha=0.3, refresh_every=7, dtype=torch.double)
    for _, _, twin in _play(policy, seeded):
        torch.testing.assert_close(policy.statistics, twin.statistics[0], atol=1e-10, rtol=0)
    assert policy.state.num_observations == 30


@pytest.mark.parametrize("dtype", [torch.double, torch.float32])
@pytest.mark.parametrize("coldness", ["current", "lagged", "smooth"])
@pytest.mark.parametrize("masked", [False, True])
def test_decisions_agree_with_the_general_path(coldness, masked, dtype, seeded):
    policy = SoftUCBPolicy(4, beta_init=0.7, coldness=coldness, ridge_alpha=0.3, dtype=dtype)
    tolerance = 1e-10 if dtype == torch.double else 2e-6  # the short cut computes in float64, the other in float32
    for arms, mask, _ in _play(policy, seeded, dtype=dtype):
        mask = mask if masked else None
        with torch.no_grad():
            assert fast_path.applies(policy.statistics, arms, dims=2)
            got = policy(arms, mask=mask)
        want = policy(arms, mask=mask)
        assert want.probs.requires_grad
        assert not got.probs.requires_grad
        for field in FIELDS:
            one, other = getattr(got, field), getattr(want, field)
            assert one.dtype == dtype
            scale = max(1.0, other.abs().max().item()) if field in ("gamma", "next_gamma") else 1.0
            torch.testing.assert_close(one, other.detach(), atol=tolerance * scale, rtol=0)
        u = torch.rand((), generator=seeded(1)).to(dtype)
        assert got.pick(u).equal(want.pick(u))


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_edges(beta):
    policy = SoftUCBPolicy(2, beta_init=beta, dtype=torch.double)
    with torch.no_grad():
        assert policy(torch.zeros(3, 2).double()).probs.tolist() == pytest.approx([1 / 3] * 3)  # width 0: nothing in L
        assert policy(torch.ones(1, 2).double()).probs.tolist() == [1.0]
        policy.beta = 0.0
        policy.raw_beta.sub_(0.1)  # an optimiser may take it below 0: reads as 0 (D9)
        assert policy(torch.ones(1, 2).double()).beta == 0


def test_a_decision_outlives_updates(seeded):
    policy = SoftUCBPolicy(3)
    arms = torch.randn(5, 3, generator=seeded(0))
    with torch.no_grad():
        decision = policy(arms)
        before = decision.probs.clone(), decision.mu_hat.clone(), decision.beta.clone()
        policy.update(arms[0], torch.tensor(1.0))
        policy.beta = 3.0
    assert decision.probs.equal(before[0])
    assert decision.mu_hat.equal(before[1])
    assert decision.beta.equal(before[2])


@pytest.mark.parametrize("name", [name for name in POLICIES if name not in SAMPLED])
def test_bad_input_changes_nothing(name):
    policy = POLICIES[name](3)
    before = policy.statistics.clone()
    with torch.no_grad(), pytest.raises(ValueError, match="arms must be finite"):
        policy(torch.tensor([[1.0, float("nan"), 0.0]]))
    for x, reward, match in [([1.0, float("inf"), 0.0], 1.0, "x must be finite"), ([1.0, 0.0, 0.0], float("nan"), "reward")]:
        decision = policy(torch.ones(1, 3))
        with pytest.raises(ValueError, match=match):
            policy.update(torch.tensor(x), torch.tensor(reward), decision=decision)
    assert policy.statistics.equal(before)


def test_large_sets_of_arms_go_the_general_way():
    policy = SoftUCBPolicy(8)
    assert not fast_path.applies(policy.statistics, torch.zeros(4096, 8), dims=2)
    assert not fast_path.applies(policy.statistics, torch.zeros(2, 5, 8), dims=2)
    with torch.no_grad():
        assert policy(torch.zeros(4096, 8)).probs.shape == (4096,)


def test_a_decisions_tensors_are_made_when_asked_for(seeded):
    policy, arms = SoftUCBPolicy(3, dtype=torch.double), torch.randn(5, 3, generator=seeded(0)).double()
    with torch.no_grad():
        decision = policy(arms)
    assert decision.probs is decision.probs
    assert decision.gamma is decision.gamma
    assert (decision.batch_shape, decision.num_arms) == (torch.Size(()), 5)
    again = copy.deepcopy(decision)
    assert again.probs.equal(decision.probs)
    assert again.log_prob(torch.tensor(2)).item() == pytest.approx(decision.probs[2].log().item())
    assert decision.sample(seeded(1)).equal(policy(arms).sample(seeded(1)))
    with pytest.raises(AttributeError, match="no attribute 'price'"):
        _ = decision.price


@pytest.mark.parametrize("coldness", ["smooth", "current", "lagged"])
@pytest.mark.parametrize("fast", [True, False])
def test_the_smallest_beta_gives_a_finite_coldness(coldness, fast, seeded):
    """A subnormal largest index counts as 0; 1 divided by it would be infinite."""
    policy = SoftUCBPolicy(3, beta_init=5e-324, delta=0.5, coldness=coldness, dtype=torch.double)
    arms = torch.randn(1, 3, generator=seeded(0), dtype=torch.double)
    with torch.set_grad_enabled(not fast):
        decision = policy(arms)
    assert decision.gamma.isfinite().all()
    assert decision.probs.tolist() == [1.0]
    assert int(decision.sample()) == 0
