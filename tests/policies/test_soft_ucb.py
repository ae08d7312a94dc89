import random

import numpy as np
import pytest
import torch

from tests import reference
from torch_softucb import ScheduleBeta, SegmentBeta, SituationBeta, SoftUCBPolicy
from torch_softucb.policies.beta.network import PRETRAINED

MODES = ["current", "lagged", "smooth"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("alpha", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("with_mask", [False, True])
def test_whole_episodes_agree_with_the_reference_to_1e_10(mode, alpha, with_mask):
    """Ten random episodes each, K from 1 to 60, d from 1 to 25, the corners among them."""
    draw = random.Random(f"{mode}{alpha}{with_mask}")
    sizes = [(1, 1), (60, 25), (1, 25), (60, 1)] + [(draw.randint(1, 60), draw.randint(1, 25)) for _ in range(6)]
    for k, d in sizes:
        rng = np.random.default_rng(draw.randint(0, 2**31))
        arms = rng.normal(size=(k, d)) / np.sqrt(d)
        allowed = rng.random(k) > 0.4 if with_mask else np.ones(k, dtype=bool)
        allowed[0] = True
        beta, delta = rng.uniform(0.05, 2), rng.uniform(0.5, 0.999)
        slow = reference.Bandit(arms, beta=beta, delta=delta, alpha=alpha, mode=mode, allowed=allowed)
        fast = SoftUCBPolicy(
            d, beta_init=beta, delta=delta, ridge_alpha=alpha, coldness=mode, refresh_every=7, dtype=torch.double
        )
        theta, x = rng.normal(size=d), torch.from_numpy(arms)
        for _ in range(40):
            slow.step()
            decision = fast(x, mask=torch.from_numpy(allowed) if with_mask else None)
            for name, want in (
                ("mu_hat", slow.mu_hat),
                ("width", slow.width),
                ("index", slow.S),
                ("probs", slow.probs),
            ):
                np.testing.assert_allclose(getattr(decision, name).detach(), want, atol=1e-10, rtol=0, err_msg=name)
            np.testing.assert_allclose(decision.gamma.detach(), slow.gamma, atol=1e-10, rtol=1e-10)
            arm = rng.choice(k, p=slow.probs)
            reward = arms[arm] @ theta + rng.normal()
            slow.pull(arm, reward)
            fast.update(x[arm], torch.tensor(reward), decision=decision)


def _learned(policy, rounds=30, k=8, seed=0):
    g = torch.Generator().manual_seed(seed)
    arms = torch.randn(k, policy.dim, generator=g, dtype=policy.dtype)
    x = torch.randn(rounds, policy.dim, generator=g, dtype=policy.dtype)
    policy.update(x, torch.randn(rounds, generator=g, dtype=policy.dtype))
    return arms


@pytest.mark.parametrize("mode", ["current", "smooth"])
def test_d3_with_gamma_differentiated_the_gradient_is_the_finite_difference(mode):
    policy = SoftUCBPolicy(3, beta_init=0.8, coldness=mode, differentiate_gamma=True, dtype=torch.double)
    arms, arm = _learned(policy), torch.tensor(2)
    (got,) = torch.autograd.grad(policy(arms).log_prob(arm), policy.raw_beta)
    values = []
    for step in (1e-6, -1e-6):
        policy.beta = 0.8 + step
        values.append(policy(arms).log_prob(arm).item())
    assert got.item() == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5)


def test_d3_by_default_gamma_is_held_constant():
    policy = SoftUCBPolicy(3, beta_init=0.8, dtype=torch.double)
    arms, arm = _learned(policy), torch.tensor(2)
    decision = policy(arms)
    assert not decision.gamma.requires_grad
    (got,) = torch.autograd.grad(decision.log_prob(arm), policy.raw_beta)
    want = decision.gamma * (decision.width[2] - (decision.probs * decision.width).sum())
    torch.testing.assert_close(got, want.detach())


def test_log_prob_and_entropy_reach_the_features_without_nan():
    policy = SoftUCBPolicy(3, beta_init=0.8, coldness="smooth", differentiate_gamma=True)
    arms = _learned(policy)
    arms[3] = 0  # a zero vector: sqrt at 0
    arms.requires_grad_()
    mask = torch.tensor([True, False, True, True, True, True, False, True])
    decision = policy(arms, mask=mask)
    (decision.log_prob(torch.tensor(2)) + decision.entropy()).backward()
    assert arms.grad.isfinite().all()
    assert arms.grad[0].abs().sum() > 0
    assert policy.raw_beta.grad.isfinite()
    assert (arms.grad[1] == 0).all()


def test_d1_beta_0_plays_uniformly_and_has_gradients():
    policy = SoftUCBPolicy(3, beta_init=0.0)
    arms = _learned(policy)
    decision = policy(arms)
    torch.testing.assert_close(decision.probs.detach(), torch.full((8,), 1 / 8))
    decision.log_prob(torch.tensor(0)).backward()
    assert policy.raw_beta.grad.isfinite()


def test_one_beta_a_bandit():
    policy = SoftUCBPolicy(2, beta_init=torch.tensor([0.0, 1.0, 2.0]))
    arms = torch.eye(2)
    with pytest.raises(ValueError, match="beta has shape"):
        policy(arms)
    policy.reset(batch_shape=(3,))
    decision = policy(arms)
    torch.testing.assert_close(decision.index[:, 0].detach(), torch.tensor([0.0, 2.0, 4.0]))
    some = policy(arms, bandit=torch.tensor([2, 2, 0, 1]))
    torch.testing.assert_close(some.index[:, 0].detach(), torch.tensor([4.0, 4.0, 0.0, 2.0]))


def test_beta_reads_and_sets_like_a_number():
    policy = SoftUCBPolicy(2)
    assert policy.beta == 1.0
    policy.beta = 0.25
    assert policy.beta == 0.25
    assert [name for name, _ in policy.named_parameters()] == ["raw_beta"]
    with pytest.raises(ValueError, match="beta must be in"):
        policy.beta = -1.0
    assert policy.beta == 0.25


def test_lagged_carries_gamma_through_update_only():
    policy = SoftUCBPolicy(2, coldness="lagged")
    arms = torch.eye(2)
    policy.update(arms[:1].repeat(40, 1).mean(0), torch.tensor(3.0), decision=policy(arms))
    for _ in range(20):
        decision = policy(arms)
        policy.update(arms[0], torch.tensor(3.0), decision=decision)
    first, second = policy(arms), policy(arms)
    assert first.gamma == second.gamma == decision.next_gamma
    assert first.gamma > 0
    with pytest.raises(ValueError, match="decision="):
        policy.update(arms[0], torch.tensor(1.0))
    with pytest.raises(ValueError, match="one gamma per bandit"):
        policy.update(arms, torch.ones(2), decision=policy(arms.expand(2, 2, 2)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fast", [False, True])
def test_a_decision_records_what_it_was_computed_from(mode, fast):
    policy = SoftUCBPolicy(3, beta_init=0.8, coldness=mode, dtype=torch.double)
    arms, mask = torch.eye(3).double(), torch.tensor([True, True, False])
    for _ in range(9):
        policy.update(arms[0], torch.tensor(2.0).double(), decision=policy(arms))
    with torch.set_grad_enabled(not fast):
        decision = policy(arms, mask=mask)
    assert decision.beta == 0.8
    assert decision.mask.equal(mask)
    # V = diag(10, 1, 1) and b = (18, 0, 0)
    torch.testing.assert_close(decision.mu_hat.detach(), torch.tensor([1.8, 0.0, 0.0]).double())
    torch.testing.assert_close(decision.width.detach(), torch.tensor([0.1**0.5, 1.0, 1.0]).double())
    assert decision.next_gamma > 0
    assert mode == "lagged" or decision.gamma == decision.next_gamma
    assert mode != "lagged" or decision.gamma == policy.state.gamma != decision.next_gamma


def test_a_decision_of_a_module_records_its_inputs():
    policy = SoftUCBPolicy(2, beta_init=ScheduleBeta(10, init=torch.tensor([1.0, 0.5])))
    policy.update(torch.eye(2), torch.ones(2))
    decision = policy(torch.eye(2))
    assert decision.situation.tolist() == [2.0]  # number of observations
    assert decision.beta.item() == pytest.approx(0.9)  # 2 / 10 of the way from 1 to 0.5


def test_the_pretrained_policy_has_the_horizon_dtype_and_delta_of_its_training():
    policy = SoftUCBPolicy.pretrained(3, horizon=77, dtype=torch.double)
    assert (policy.beta_module.horizon, policy.dtype, policy.coldness) == (77, torch.double, "smooth")
    assert float(policy.delta) == float(SituationBeta.load(PRETRAINED, horizon=77)[1]["delta"])
    assert SoftUCBPolicy.pretrained(3).beta_module.horizon == 1024


def test_the_native_rule_has_the_numbers_of_the_policy():
    rounds = torch.arange(3.0)
    rule = SoftUCBPolicy(2, beta_init=0.4, delta=0.8, coldness="smooth", smoothing=0.3).native_rule(rounds)
    assert (rule.rule, rule.scale.item(), rule.smoothing, rule.by_round) == ("soft_smooth", pytest.approx(0.4), 0.3, False)
    assert not rule.scale.requires_grad
    assert rule.odds == pytest.approx(4.0)
    rule = SoftUCBPolicy(2, beta_init=ScheduleBeta(2, init=torch.tensor([1.0, 0.5]))).native_rule(rounds)
    assert rule.by_round
    torch.testing.assert_close(rule.scale, torch.tensor([[1.0], [0.75], [0.5]]))
    assert not rule.scale.requires_grad
    rule = SoftUCBPolicy(2, beta_init=SegmentBeta(torch.tensor([0, 1, 1, 0]), init=0.6)).native_rule(rounds)
    assert not rule.by_round
    torch.testing.assert_close(rule.scale, torch.full((4,), 0.6))
    rule = SoftUCBPolicy(2, beta_init=SituationBeta(horizon=9)).native_rule(rounds)
    assert (rule.scale.item(), rule.by_round) == (0.0, False)  # beta depends on the estimates of each round


def test_the_repr_has_beta_delta_and_coldness():
    sizes = "dim=2, ridge_alpha=1.0, batch_shape=()"
    assert repr(SoftUCBPolicy(2, beta_init=0.25)) == f"SoftUCBPolicy({sizes}, beta=0.25, delta=0.99, coldness='current')"
    several = SoftUCBPolicy(2, beta_init=torch.ones(3), delta=0.9, coldness="lagged")
    assert several.extra_repr() == f"{sizes}, beta=tensor(3,), delta=0.9, coldness='lagged'"
    assert SoftUCBPolicy(2, device="meta").extra_repr() == f"{sizes}, beta=tensor(), delta=0.99, coldness='current'"
    assert "beta=module" in SoftUCBPolicy(2, beta_init=ScheduleBeta(5)).extra_repr()
