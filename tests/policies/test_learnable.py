"""Learnable beta and delta: ranges, projection, other betas with the same settings."""

import pytest
import torch

from torch_softucb import ScheduleBeta, SegmentBeta, SituationBeta, SoftUCBPolicy
from torch_softucb import functional as F


def test_delta_is_learned_within_its_range():
    policy = SoftUCBPolicy(4, delta=0.9, learn_delta=True)
    assert float(policy.delta) == pytest.approx(0.9)
    with torch.no_grad():
        policy.raw_delta.fill_(-3.0)
    assert float(policy.delta) == 0.5  # D2
    policy.project_()
    assert float(policy.raw_delta) == 0.0
    with torch.no_grad():
        policy.raw_delta.fill_(50.0)
    policy.project_()
    assert float(policy.delta) < 1
    index = torch.tensor([0.2, -0.7])
    assert F.coldness(index, 0.9) == pytest.approx(10.9861, abs=1e-4)


@pytest.mark.parametrize("raw", [50.0, -50.0])
def test_delta_needs_no_projection(raw):
    policy = SoftUCBPolicy(2, learn_delta=True)
    policy.update(torch.eye(2).repeat(50, 1), torch.tensor([1.0, 0.0]).repeat(50))
    with torch.no_grad():
        policy.raw_delta.fill_(raw)
    assert policy(torch.eye(2)).probs.isfinite().all()
    assert 0.5 <= policy.delta < 1
    policy.delta.backward(torch.tensor(raw))  # downhill leads back, and no further away
    assert policy.raw_delta.grad * raw > 0
    policy.raw_delta.grad = None
    policy.delta.backward(torch.tensor(-raw))
    assert policy.raw_delta.grad == 0


def test_a_fixed_delta_has_no_logit():
    with pytest.raises(ValueError, match=r"delta_logit: delta is fixed at 0.9; build the policy with learn_delta=True"):
        _ = SoftUCBPolicy(2, delta=0.9).delta_logit


def test_projection_only_moves_what_is_out_of_range():
    policy = SoftUCBPolicy(2, beta_init=torch.tensor([0.5, 1.0]), learn_delta=True)
    with torch.no_grad():
        policy.raw_beta[0] = -3.0
    assert policy.beta.tolist() == [0.0, 1.0]
    before = policy.raw_delta.clone()
    policy.project_()
    assert policy.raw_beta.tolist() == [0.0, 1.0]
    assert policy.raw_delta.equal(before)


def test_another_beta_keeps_settings_and_statistics(seeded):
    policy = SoftUCBPolicy(3, beta_init=1.0, delta=0.9, learn_delta=True, coldness="smooth", smoothing=0.2, refresh_every=7)
    policy.update(torch.randn(5, 3, generator=seeded(0)), torch.randn(5, generator=seeded(1)))
    with torch.no_grad():
        policy.raw_delta.add_(0.1)
    other = policy.with_beta(0.4)
    assert other.settings == policy.settings
    assert other.beta == 0.4
    assert policy.beta == 1.0
    assert other.raw_delta.equal(policy.raw_delta)
    assert other.statistics.equal(policy.statistics)
    assert other.statistics is not policy.statistics
    assert policy.with_beta(0.4, dim=5).state.num_observations == 0


def test_beta_along_a_trajectory_needs_the_recorded_inputs():
    policy = SoftUCBPolicy(2, beta_init=ScheduleBeta(10))
    with pytest.raises(ValueError, match="situation must be given where beta is a module, got None"):
        policy.beta_along(None, 2)
    assert policy.beta_along(torch.arange(4.0).unsqueeze(-1), 3).shape == (4, 1, 1)


def test_settings_raise_no_warning_about_gradients(recwarn):
    _ = SoftUCBPolicy(2, learn_delta=True).settings
    assert not recwarn.list


def test_with_beta_keeps_statistics_and_batch_between_numbers_and_modules(seeded):
    sums = SituationBeta(horizon=9)  # needs running sums of the rewards
    plain, summed = SoftUCBPolicy(3, dtype=torch.double), SoftUCBPolicy(3, beta_init=sums, dtype=torch.double)
    for policy in (plain, summed):
        policy.reset(batch_shape=(2,))
    assert plain.with_beta(SituationBeta(horizon=9)).batch_shape == (2,)  # nothing observed yet
    x, reward = torch.randn(2, 5, 3, generator=seeded(0)).double(), torch.randn(2, 5, generator=seeded(1)).double()
    for policy in (plain, summed):
        policy.update(x, reward)
    number, schedule = summed.with_beta(0.5), plain.with_beta(ScheduleBeta(9))
    for other in (number, schedule):
        assert other.state.num_observations.tolist() == [5, 5]
        assert other.state.V.equal(plain.state.V)
        assert other.state.b.equal(plain.state.b)
    assert plain.with_beta(0.5, dim=4).batch_shape == (2,)
    with pytest.raises(ValueError, match="SituationBeta needs running sums of the rewards, which this policy has not kept"):
        plain.with_beta(sums)


def test_with_beta_works_in_inference_mode_and_after_it():
    with torch.inference_mode():
        other = SoftUCBPolicy(3).with_beta(0.5)
    other.update(torch.ones(2, 3), torch.ones(2))
    assert other.state.num_observations == 2


def test_another_beta_keeps_the_learned_delta():
    policy = SoftUCBPolicy(2, delta=0.9, learn_delta=True)
    with torch.no_grad():
        policy.raw_delta.fill_(-3.0)  # outside its range: delta alone does not determine it
    with torch.no_grad():
        other = policy.with_beta(0.4)
    assert float(other.raw_delta) == -3.0
    assert SoftUCBPolicy(2, delta=0.9).with_beta(0.4).raw_delta is None


def test_a_state_must_have_all_entries_unless_strict_is_off():
    policy = SoftUCBPolicy(2)
    state = policy.state_dict()
    policy.check_state(state)
    del state["raw_beta"]
    policy.check_state(state, strict=False)
    with pytest.raises(ValueError, match=r"got without \['raw_beta'\]"):
        policy.check_state(state)


def test_beta_along_a_trajectory_is_beta_itself_if_it_is_a_number():
    policy = SoftUCBPolicy(2, beta_init=0.7)
    assert policy.beta_along(None, 2) == policy.beta
    assert policy.beta_along(None, 2).requires_grad


def test_betas_of_a_module_must_fit_the_batch():
    policy = SoftUCBPolicy(2, beta_init=SegmentBeta(torch.tensor([0, 1, 1])))
    with pytest.raises(ValueError, match=r"beta has shape \(3,\), which does not fit batch_shape \(\)"):
        policy(torch.eye(2))
    policy.reset(batch_shape=(4,))
    for bandit in (None, torch.tensor([0, 1])):
        with pytest.raises(ValueError, match=r"does not fit batch_shape \(4,\)"):
            policy(torch.eye(2), bandit=bandit)
    policy.reset(batch_shape=(3,))
    assert policy(torch.eye(2), bandit=torch.tensor([0, 1])).beta.shape == (2,)
