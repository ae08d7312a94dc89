"""Identities of the off-policy estimators: their exact mean over all actions of the logging policy."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import NUMBERS
from torch_softucb import functional as F

SIZES = {"n": st.integers(2, 8), "k": st.integers(1, 5)}


def _log(numbers, n, k):
    logging = numbers.uniform(n, k) + 0.1
    logging = logging / logging.sum(-1, keepdim=True)
    arm = F.draw_arm(logging, numbers.uniform(n))
    return logging, arm, logging.gather(-1, arm.unsqueeze(-1)).squeeze(-1)


def _target(numbers, n, k):
    """Every arm has a positive probability, so that the log always overlaps with the target."""
    target = numbers.uniform(n, k) + 0.05
    return target / target.sum(-1, keepdim=True)


@given(numbers=NUMBERS, **SIZES, biased=st.booleans())
def test_ips_and_dr_have_the_true_value_as_their_mean(numbers, n, k, biased):
    """The mean of an estimate over the logged action of each row, by the logging policy, whatever the model says."""
    logging, _, _ = _log(numbers, n, k)
    target, means = _target(numbers, n, k), numbers.normal(n, k)
    model = numbers.normal(n, k) if biased else means
    truth = (target * means).sum(-1).mean().item()
    ips = dr = 0.0
    for action in range(k):
        # all rows log this action; each row's share of the estimate is linear in its own term
        arm = torch.full((n,), action)
        weight = logging[:, action]
        for row in range(n):
            one = slice(row, row + 1)
            log = [means[one, action].repeat(2), arm[one].repeat(2), weight[one].repeat(2), target[one].repeat(2, 1)]
            ips += weight[row].item() * F.inverse_propensity(*log).value.item() / n
            dr += weight[row].item() * F.doubly_robust(*log, model[one].repeat(2, 1)).value.item() / n
    assert ips == pytest.approx(truth, abs=1e-9)
    assert dr == pytest.approx(truth, abs=1e-9)


@given(numbers=NUMBERS, **SIZES, level=st.floats(-20, 20))
def test_snips_and_dr_move_with_the_level_of_the_rewards(numbers, n, k, level):
    _, arm, propensity = _log(numbers, n, k)
    target, reward, model = _target(numbers, n, k), numbers.normal(n), numbers.normal(n, k)
    log = arm, propensity, target
    one, other = (F.self_normalised(r, *log).value.item() for r in (reward, reward + level))
    assert other == pytest.approx(one + level, abs=1e-9)
    one, other = (F.doubly_robust(reward + a, *log, model + a).value.item() for a in (0.0, level))
    assert other == pytest.approx(one + level, abs=1e-9)


@given(numbers=NUMBERS, **SIZES)
def test_snips_stays_within_the_rewards(numbers, n, k):
    _, arm, propensity = _log(numbers, n, k)
    reward = numbers.normal(n)
    value = F.self_normalised(reward, arm, propensity, _target(numbers, n, k)).value.item()
    assert reward.min().item() - 1e-9 <= value <= reward.max().item() + 1e-9


@given(numbers=NUMBERS, **SIZES)
def test_a_log_evaluates_its_own_policy_by_the_mean_reward(numbers, n, k):
    logging, arm, propensity = _log(numbers, n, k)
    reward = numbers.normal(n)
    for estimator in (F.inverse_propensity, F.self_normalised):
        found = estimator(reward, arm, propensity, logging)
        assert found.value.item() == pytest.approx(reward.mean().item(), abs=1e-12)
        assert found.effective_sample_size.item() == pytest.approx(n)


@given(numbers=NUMBERS, **SIZES)
def test_switching_joins_the_direct_method_and_dr(numbers, n, k):
    _, arm, propensity = _log(numbers, n, k)
    target, reward, model = _target(numbers, n, k), numbers.normal(n), numbers.normal(n, k)
    log = reward, arm, propensity, target, model
    assert F.switch_doubly_robust(*log, threshold=0.0).value.item() == pytest.approx(
        F.direct_method(target, model).value.item(), abs=1e-12
    )
    assert F.switch_doubly_robust(*log, threshold=1e9).value.equal(F.doubly_robust(*log).value)


@given(numbers=NUMBERS, **SIZES, confidence=st.floats(0.5, 0.99))
def test_the_order_of_the_log_does_not_matter(numbers, n, k, confidence):
    _, arm, propensity = _log(numbers, n, k)
    log = [numbers.normal(n), arm, propensity, _target(numbers, n, k), numbers.normal(n, k)]
    order = numbers.permutation(n)
    one = F.doubly_robust(*log, confidence=confidence)
    other = F.doubly_robust(*(column[order] for column in log), confidence=confidence)
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=1e-9)
    assert one.low <= one.value <= one.high
