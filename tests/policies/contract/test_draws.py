"""Contract of all policies: probabilities, masks and draws."""

import torch

from tests.policies.cases import play

MASK = torch.tensor([False, True, True, False, True, False])


def _draws(decision, count=60):
    g = torch.Generator().manual_seed(0)
    return torch.stack([decision.sample(g) for _ in range(count)])  # (count, *B)


def test_probabilities_sum_to_one(case):
    case.skip_without_probs()
    probs = case.played()(case.arms()).probs
    assert probs.dtype == case.dtype
    assert ((probs >= 0) & (probs <= 1)).all()
    tolerance = 1e-12 if case.dtype == torch.float64 else 1e-6
    torch.testing.assert_close(probs.sum(-1), torch.ones(case.batch, dtype=case.dtype), atol=tolerance, rtol=0)


def test_log_probabilities_and_entropy_agree_with_the_probabilities(case):
    case.skip_without_probs()
    decision = case.played()(case.arms(), mask=MASK)
    probs = decision.probs.double()
    torch.testing.assert_close(decision.log_probs.exp(), decision.probs, atol=1e-6, rtol=1e-5)
    want = -torch.where(probs > 0, probs * probs.clamp(min=1e-300).log(), 0.0).sum(-1)
    torch.testing.assert_close(decision.entropy().double(), want, atol=1e-5, rtol=1e-5)
    arm = torch.full(case.batch, 2)
    assert decision.log_prob(arm).equal(decision.log_probs[..., 2])


def test_masked_arms_have_probability_exactly_zero(case):
    case.skip_without_probs()
    policy = case.played()
    own = torch.stack([MASK.roll(i) for i in range(case.num_bandits)]).view(*case.batch, 6)
    for mask in (MASK, own):
        for grad in (True, False):
            with torch.set_grad_enabled(grad):
                decision = policy(case.arms(), mask=mask)
                assert decision.probs.masked_select(~mask.expand_as(decision.probs)).eq(0).all()
                assert decision.log_probs.masked_select(~mask.expand_as(decision.probs)).isneginf().all()


def test_masked_arms_do_not_matter(case):
    """Masking arms is leaving them out."""
    case.skip_without_probs()
    case.skip_fixed_arms()
    policy, arms = case.played(), case.arms()
    masked, left = policy(arms, mask=MASK), policy(arms[MASK])
    torch.testing.assert_close(masked.probs[..., MASK], left.probs, atol=100 * case.tolerance, rtol=0)
    wild = arms.masked_fill(~MASK.unsqueeze(-1), 1e3)
    torch.testing.assert_close(policy(wild, mask=MASK).probs, masked.probs, atol=100 * case.tolerance, rtol=0)


def test_a_mask_that_allows_all_arms_changes_nothing(case):
    policy = case.played()
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            case.same(policy(case.arms(), mask=torch.ones(6, dtype=torch.bool)), policy(case.arms()))


def test_a_sample_is_an_allowed_arm_per_bandit(case):
    policy = case.played()
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            arm = _draws(policy(case.arms(), mask=MASK))
        assert (arm.shape, arm.dtype) == ((60, *case.batch), torch.int64)
        assert set(arm.flatten().tolist()) <= {1, 2, 4}


def test_the_only_allowed_arm_is_drawn(case):
    only = torch.arange(6) == 3
    assert _draws(case.played()(case.arms(), mask=only), 5).eq(3).all()


def test_an_arm_of_probability_zero_is_not_drawn(case):
    case.skip_without_probs()
    decision = case.played()(case.arms())
    drawn = _draws(decision)
    assert (decision.probs.expand(60, *case.batch, 6).gather(-1, drawn.unsqueeze(-1)) > 0).all()


def test_the_same_seed_draws_the_same_arms(case):
    policy = case.played()
    assert _draws(policy(case.arms())).equal(_draws(policy(case.arms())))


def test_draws_use_the_generator_and_nothing_else(case):
    decision = case.played()(case.arms())
    g = torch.Generator().manual_seed(7)
    before, torch_before = g.get_state(), torch.get_rng_state()
    decision.sample(g)
    decision.sample_topk(2, g)
    assert not g.get_state().equal(before)
    assert torch.get_rng_state().equal(torch_before)


def test_draws_without_a_generator_use_torchs(case):
    decision = case.played()(case.arms())
    with torch.random.fork_rng():
        torch.manual_seed(3)
        first = decision.sample()
        torch.manual_seed(3)
        assert decision.sample().equal(first)


def test_a_slate_has_different_allowed_arms(case):
    policy, g = case.played(), torch.Generator().manual_seed(0)
    for _ in range(5):
        slate = policy(case.arms(), mask=MASK).sample_topk(3, g)
        assert slate.arm.sort(-1).values.eq(torch.tensor([1, 2, 4])).all()
        if not case.sampled:
            assert (slate.log_prob <= 1e-6).all()
            torch.testing.assert_close(slate.slate_log_prob, slate.log_prob.sum(-1))


def test_the_first_of_a_slate_has_its_own_probability(case):
    case.skip_without_probs()
    decision = case.played()(case.arms())
    slate = decision.sample_topk(2, torch.Generator().manual_seed(0))
    torch.testing.assert_close(slate.log_prob[..., 0], decision.log_prob(slate.arm[..., 0]), atol=1e-5, rtol=1e-5)


def test_the_random_numbers_decide_alone(case):
    """``pick`` of the same numbers is the same arm, with gradients and without."""
    policy = case.policy()
    play(policy, case.arms(), rounds=2)
    if case.sampled:
        z = case.randn(*case.batch, policy.normals_per_decision)
    else:
        z = torch.rand(case.batch, generator=torch.Generator().manual_seed(0), dtype=case.dtype)
    with torch.no_grad():
        quick = policy(case.arms()).pick(z)
    assert quick.equal(policy(case.arms()).pick(z))
