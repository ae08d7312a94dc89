"""Contract of all policies: decisions and what they may depend on."""

import numpy as np
import pytest
import torch

from tests import reference
from tests.policies.cases import Case, state_bytes


def test_shapes_and_dtypes(case):
    decision = case.played()(case.arms())
    for value in (decision.index, decision.mu_hat, decision.width):
        assert (value.shape, value.dtype) == ((*case.batch, 6), case.dtype)
    assert (decision.batch_shape, decision.num_arms) == (case.batch, 6)


def test_estimates_are_those_of_ridge_regression(case):
    case.skip_estimated_ridge()
    policy = case.played(ridge_alpha=0.4)
    decision = policy(case.arms())
    V, b = policy.state.V.reshape(-1, 4, 4), policy.state.b.reshape(-1, 4)
    for row in range(case.num_bandits):
        mu_hat, width = reference.estimates(case.arms().double().numpy(), V[row].numpy(), b[row].numpy())
        got = [getattr(decision, field).reshape(-1, 6)[row].double().detach().numpy() for field in ("mu_hat", "width")]
        np.testing.assert_allclose(got, [mu_hat, width], atol=case.tolerance, rtol=case.tolerance)


def test_forward_changes_nothing(case):
    policy = case.played()
    before = state_bytes(policy)
    policy(case.arms()).sample()
    with torch.no_grad():
        policy(case.arms(), mask=torch.arange(6) < 4).sample()
    assert state_bytes(policy) == before


def test_forward_leaves_its_inputs_alone(case):
    policy, arms, mask = case.played(), case.arms(own=True), torch.arange(6) % 2 == 0
    kept = arms.clone(), mask.clone()
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            policy(arms, mask=mask).sample()
    assert arms.equal(kept[0])
    assert mask.equal(kept[1])


def test_the_same_question_has_the_same_answer(case):
    policy = case.played()
    case.same(policy(case.arms()), policy(case.arms()), 0)


def test_grad_mode_does_not_change_the_answer(case):
    """Without gradients one bandit is decided on in numpy, many arms in blocks."""
    policy = case.played()
    with torch.no_grad():
        quick = policy(case.arms())
    case.same(quick, policy(case.arms()))


def test_inference_mode_does_not_change_the_answer(case):
    policy = case.played()
    with torch.inference_mode():
        decision = policy(case.arms())
        decision.sample()
    case.same(decision, policy(case.arms()))


def test_arms_permuted_permute_the_answer(case):
    case.skip_fixed_arms()
    policy, arms = case.played(), case.arms()
    arms[1] = arms[0]  # a tie
    p = torch.randperm(6, generator=torch.Generator().manual_seed(1))
    a, b = policy(arms), policy(arms[p])
    for field in ("mu_hat", "width", "index") + (() if case.sampled else ("probs",)):
        value = getattr(a, field)[..., p]
        torch.testing.assert_close(value, getattr(b, field), atol=100 * case.tolerance, rtol=0)


def test_tied_arms_are_treated_alike(case):
    case.skip_without_probs()
    case.skip_fixed_arms()
    arms = case.arms()
    arms[4] = arms[2]
    probs = case.played()(arms).probs
    torch.testing.assert_close(probs[..., 4], probs[..., 2], atol=100 * case.tolerance, rtol=0)


def test_one_arm_is_certain(case):
    policy = case.policy(num_arms=1)
    decision = policy(case.arms(num_arms=1))
    assert decision.sample().eq(0).all()
    if not case.sampled:
        assert decision.probs.eq(1).all()


def test_one_arm_with_one_feature(name, dtype, batch):
    case = Case(name, dtype, batch, dim=1)
    policy = case.policy(num_arms=1)
    policy.update(*case.observed(), decision=policy(case.arms(num_arms=1)), arm=torch.zeros(batch, dtype=torch.int64))
    assert policy(case.arms(num_arms=1)).sample().eq(0).all()


def test_strides_of_the_arms_do_not_matter(case):
    policy, arms = case.played(), case.arms(own=True)
    transposed = arms.mT.contiguous().mT
    every_second = torch.stack((arms, -arms), dim=-3).flatten(-3, -2)[..., :6, :].repeat_interleave(2, dim=-2)[..., ::2, :]
    assert not transposed.is_contiguous()
    case.same(policy(transposed), policy(arms))
    case.same(policy(every_second), policy(arms))


def test_expanded_arms_are_one_set_for_all(case):
    policy, arms = case.played(), case.arms()
    case.same(policy(arms.expand(*case.batch, 6, 4)), policy(arms))
    same_arm = case.arms()[:1].expand(6, 4)  # stride 0 along the arms
    case.same(policy(same_arm), policy(same_arm.clone()))


def test_arms_of_zeros_are_harmless(case):
    policy = case.policy()
    arms = torch.zeros(6, 4, dtype=case.dtype)
    policy.update(torch.zeros(*case.batch, 4, dtype=case.dtype), case.observed()[1], **case.decided(policy))
    decision = policy(arms)
    assert decision.width.eq(decision.width[..., :1]).all()  # 0, or what the uncertainty of the offset leaves
    assert decision.width.isfinite().all()
    assert decision.index.isfinite().all()
    decision.sample()


def test_a_batch_is_a_stack_of_singles(case):
    policy = case.policy(ridge_alpha=0.3)
    arms = case.arms(own=True)
    history = []
    for t in range(3):
        x, reward = case.observed(seed=10 + t)
        arm = torch.full(case.batch, t)
        policy.update(x, reward, decision=policy(arms), arm=arm)
        history.append((x.reshape(-1, 4), reward.reshape(-1)))
    whole = policy(arms)
    for row in range(case.num_bandits):
        single = Case(case.name, case.dtype, ()).policy(ridge_alpha=0.3)
        if case.name in ("soft_ucb_tensor", "soft_ucb_segment"):
            single = single.with_beta(whole.beta.expand(case.batch).flatten()[row].item())
        own = arms.reshape(-1, 6, 4)[row]
        for t, (x, reward) in enumerate(history):
            single.update(x[row], reward[row], decision=single(own), arm=torch.tensor(t))
        alone = single(own)
        for field in ("mu_hat", "width", "index") + (() if case.sampled else ("probs",)):
            got = getattr(whole, field).reshape(-1, 6)[row]
            torch.testing.assert_close(got, getattr(alone, field), atol=100 * case.tolerance, rtol=0)


def test_pending_pulls_narrow_the_width_and_leave_the_mean(case):
    policy, x = case.played(), case.observed()[0].double()
    plain = policy(case.arms())
    narrowed = policy(case.arms(), pending=x.unsqueeze(-1) * x.unsqueeze(-2))
    assert (narrowed.width <= plain.width + case.tolerance).all()
    torch.testing.assert_close(narrowed.mu_hat, plain.mu_hat, atol=case.tolerance, rtol=case.tolerance)


def test_a_decision_outlives_the_update_that_follows_it(case):
    """Decide, update, then backward or draw: neither sees what the update wrote."""
    policy, arms = case.played(), case.arms().requires_grad_()
    decision = policy(arms)
    z = case.randn(*case.batch, max(policy.normals_per_decision, 1))
    before = decision.draw(z).detach().clone() if case.sampled else None
    case.learn(policy)
    if case.sampled:
        assert decision.draw(z).equal(before)
        decision.draw(z).sum().backward()
    else:
        decision.mu_hat.sum().backward(retain_graph=True)
        decision.width.sum().backward(retain_graph=True)
        if decision.gamma is not None:
            decision.log_prob(torch.zeros(case.batch, dtype=torch.int64)).sum().backward()
    assert arms.grad.isfinite().all()


def test_vmap_over_sets_of_arms(case):
    policy = case.played()
    many = torch.stack([case.arms(seed=s) for s in range(3)])
    mapped = torch.func.vmap(lambda arms: policy(arms).index)(many)
    each = torch.stack([policy(arms).index for arms in many])
    torch.testing.assert_close(mapped, each, atol=case.tolerance, rtol=case.tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["soft_ucb", "lin_ucb", "epsilon_greedy", "exp3", "soft_ucb_situation"])
@pytest.mark.parametrize(("dtype", "batch"), [(torch.float32, (3,)), (torch.float64, ())])
def test_compiled_forward_gives_the_same_answer(name, dtype, batch):
    torch._dynamo.reset()  # each case is a new function; torch limits the number of versions of one
    case = Case(name, dtype, batch)
    policy = case.played()
    compiled = torch.compile(lambda arms: policy(arms).probs, fullgraph=True, dynamic=False)
    torch.testing.assert_close(compiled(case.arms()), policy(case.arms()).probs, atol=100 * case.tolerance, rtol=0)
