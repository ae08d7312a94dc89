"""The contract for somebody who writes a policy: `decide` is enough."""

import pytest
import torch

from torch_softucb import BanditPolicy, Decision, LinTS, NumericalError


class Uniform(BanditPolicy):
    def decide(self, estimate, *, mask=None, bandit=None):
        probs = torch.ones_like(estimate.mu_hat) / estimate.mu_hat.shape[-1]
        return Decision(probs=probs, index=estimate.mu_hat, mu_hat=estimate.mu_hat, width=estimate.width, mask=mask)


def test_decide_is_abstract_and_enough(seeded):
    with pytest.raises(TypeError, match="abstract"):
        BanditPolicy(2)
    policy = Uniform(2, ridge_alpha=0.5)
    arms = torch.randn(5, 2, generator=seeded(0))
    assert policy(arms).probs.tolist() == pytest.approx([0.2] * 5)
    policy.update(arms[:3], torch.ones(3))
    assert policy.state.num_observations == 3
    assert repr(policy) == "Uniform(dim=2, ridge_alpha=0.5, batch_shape=())"


def test_defaults_say_that_nothing_special_is_needed():
    policy = Uniform(2)
    flags = ("carries_gamma", "needs_estimate", "remembers", "keeps_sums")
    assert [getattr(policy, flag) for flag in flags] == [False] * 4
    assert policy.normals_per_decision == 0
    assert policy.native_rule(torch.zeros(3)) is None
    assert policy.fresh_memory().shape == (0,)


def test_a_class_attribute_is_as_good_as_a_property():
    class Drawn(Uniform):
        normals_per_decision = 3

    assert Drawn(2).normals_per_decision == 3


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.filterwarnings("ignore:invalid value encountered")
def test_products_that_overflow_change_nothing():
    policy = Uniform(2, dtype=torch.double)
    before = policy.statistics.clone()
    large = torch.full((3, 2), 1e200, dtype=torch.double)
    with pytest.raises(NumericalError, match="products overflow float64; nothing was changed"):
        policy.update(large[0], torch.tensor(1.0, dtype=torch.double))
    with pytest.raises(NumericalError, match="V is not positive definite"):
        policy.update(large, torch.ones(3, dtype=torch.double))
    assert policy.statistics.equal(before)


def test_pending_must_fit():
    policy = Uniform(2)
    arms = torch.eye(2)
    with pytest.raises(ValueError, match=r"pending must have shape \(2, 2\)"):
        policy(arms, pending=torch.eye(3))
    with pytest.raises(ValueError, match="pending must be finite"):
        policy(arms, pending=torch.eye(2) / 0)


@pytest.mark.parametrize("discount", [0.0, 1.5, float("nan")])
def test_discount_must_be_a_share(discount):
    with pytest.raises(ValueError, match=r"discount must be in \(0, 1\]"):
        Uniform(2).update(torch.ones(2), torch.tensor(1.0), discount=discount)


def test_update_works_in_inference_mode_and_ignores_gradients():
    policy = Uniform(2)
    with torch.inference_mode():
        policy.update(torch.ones(3, 2), torch.ones(3))
    policy.update(torch.ones(2), torch.tensor(1.0, requires_grad=True))
    assert policy.state.num_observations == 4
    assert not policy.statistics.requires_grad
    assert not policy.statistics.is_inference()


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("some", [False, True])
def test_a_decision_draws_from_the_statistics_at_its_time(batch, some, seeded):
    policy, arms = LinTS(2), torch.eye(2)
    policy.reset(batch_shape=batch)
    bandit = torch.arange(3) if batch and some else None
    decision, z = policy(arms, bandit=bandit), torch.randn(*batch, 2, generator=seeded(0))
    before = decision.draw(z)
    policy.update(torch.ones(*batch, 2), torch.ones(batch), bandit=bandit)
    assert decision.draw(z).equal(before)
    assert not policy(arms, bandit=bandit).draw(z).equal(before)
