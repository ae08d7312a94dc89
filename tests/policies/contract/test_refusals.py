"""Contract of all policies: a wrong call is refused by an error that names class and argument, and changes nothing."""

from functools import partial

import pytest
import torch

from tests.policies.cases import state_bytes

META = torch.device("meta")


def _other(dtype):
    return torch.float32 if dtype == torch.float64 else torch.float64


def _for_others(case, arms):
    """Arms for one bandit more than there are; a single bandit answers any number of requests, but not this."""
    return arms.expand(*case.batch[:-1], case.batch[-1] + 1, 6, 4) if case.batch else arms[0, 0]


DECIDE = {  # call of the policy with (case, arms): what is wrong, the error, the words after the class
    "arms of other dim": (lambda p, c, a: p(a[..., :3]), ValueError, "arms must have shape"),
    "arms of other batch": (lambda p, c, a: p(_for_others(c, a)), ValueError, "arms must have shape"),
    "no arms": (lambda p, c, a: p(a[:0]), ValueError, "arms must have shape"),
    "arms a vector": (lambda p, c, a: p(a[0]), ValueError, "arms must have shape"),
    "arms a list": (lambda p, c, a: p(a.tolist()), TypeError, "arms must be a floating point tensor, got list"),
    "whole-number arms": (lambda p, c, a: p(a.long()), TypeError, "arms must be a floating point tensor"),
    "arms of other dtype": (lambda p, c, a: p(a.to(_other(c.dtype))), TypeError, "arms must have the policy's dtype"),
    "arms elsewhere": (lambda p, c, a: p(a.to(META)), ValueError, "arms must be on cpu"),
    "NaN arms": (lambda p, c, a: p(a * torch.nan), ValueError, "arms must be finite"),
    "infinite arms": (lambda p, c, a: p(a / 0), ValueError, "arms must be finite"),
    "mask of numbers": (lambda p, c, a: p(a, mask=torch.ones(6)), TypeError, "mask must be a bool tensor"),
    "mask of other shape": (lambda p, c, a: p(a, mask=torch.ones(5) > 0), ValueError, "mask must have shape"),
    "all masked": (lambda p, c, a: p(a, mask=torch.ones(6) < 0), ValueError, "mask must allow at least one arm"),
    "mask elsewhere": (lambda p, c, a: p(a, mask=torch.ones(6, device=META) > 0), ValueError, "mask must be on cpu"),
    "bandit of floats": (lambda p, c, a: p(a, bandit=torch.ones(1)), (TypeError, ValueError), "bandit"),
}
UPDATE = {  # call of update with (case, x, reward, decision and arm)
    "x of other dim": (lambda p, c, x, r, g: p.update(x[..., :3], r, **g), ValueError, "x must have shape"),
    "x of other dtype": (lambda p, c, x, r, g: p.update(x.to(_other(c.dtype)), r, **g), TypeError, "x must have the policy"),
    "x a list": (lambda p, c, x, r, g: p.update(x.tolist(), r, **g), TypeError, "x must be a floating point tensor"),
    "x elsewhere": (lambda p, c, x, r, g: p.update(x.to(META), r, **g), ValueError, "x must be on cpu"),
    "reward elsewhere": (lambda p, c, x, r, g: p.update(x, r.to(META), **g), ValueError, "reward must be on cpu"),
    "reward of other shape": (lambda p, c, x, r, g: p.update(x, r[..., None], **g), ValueError, "reward must have shape"),
    "whole-number reward": (lambda p, c, x, r, g: p.update(x, r.long(), **g), TypeError, "reward must be a floating"),
    "discount of 0": (lambda p, c, x, r, g: p.update(x, r, discount=0.0, **g), ValueError, "discount must be"),
    "discount above 1": (lambda p, c, x, r, g: p.update(x, r, discount=1.5, **g), ValueError, "discount must be"),
    "NaN discount": (lambda p, c, x, r, g: p.update(x, r, discount=float("nan"), **g), ValueError, "discount must be"),
}


def _refused(policy, call, error, words):
    with pytest.raises(error, match=f"^{type(policy).__name__}[^ ]*: {words}"):
        call()


def test_wrong_questions_are_refused(case):
    policy, arms = case.played(rounds=1), case.arms()
    before = state_bytes(policy)
    for call, error, words in DECIDE.values():
        for grad in (True, False):
            with torch.set_grad_enabled(grad):
                _refused(policy, partial(call, policy, case, arms), error, words)
    assert state_bytes(policy) == before


def test_wrong_updates_are_refused(case):
    policy, observed = case.played(rounds=1), case.observed()
    given = case.decided(policy)
    before = state_bytes(policy)
    for call, error, words in UPDATE.values():
        _refused(policy, partial(call, policy, case, *observed, given), error, words)
    assert state_bytes(policy) == before


def test_a_policy_over_fixed_arms_needs_the_decision_and_the_arm(case):
    if not case.fixed_arms:
        pytest.skip("keeps no statistics per arm")
    policy = case.played(rounds=1)
    given = case.decided(policy)
    before = state_bytes(policy)
    name = type(policy).__name__
    x, reward = case.observed()
    for part in ("decision", "arm"):
        with pytest.raises(ValueError, match=f"^{name}.update: decision and arm must be given"):
            policy.update(x, reward, **{part: given[part]})
    with pytest.raises(ValueError, match=rf"^{name}.update: arm must be in \[0, 6\)"):
        policy.update(x, reward, decision=given["decision"], arm=given["arm"] + 6)
    with pytest.raises(TypeError, match=f"^{name}.update: arm must be an int64 tensor"):
        policy.update(x, reward, decision=given["decision"], arm=reward)
    with pytest.raises(ValueError, match=f"^{name}: expected the 6 arms"):
        policy(case.arms()[:5])
    assert state_bytes(policy) == before


def test_wrong_batch_shapes_are_refused(case):
    policy = case.played(rounds=1)
    before = state_bytes(policy)
    for shape, error in (((0,), ValueError), ((-1,), ValueError), (3, TypeError), ((2.5,), (TypeError, ValueError))):
        _refused(policy, partial(policy.reset, batch_shape=shape), error, "batch_shape must be")
    assert state_bytes(policy) == before


def test_ids_need_one_batch_dimension(case):
    policy, ids = case.policy(), torch.tensor([0])
    words = "bandit needs a policy with one batch dimension"
    if len(case.batch) != 1:
        _refused(policy, lambda: policy(case.arms(), bandit=ids), ValueError, words)
        _refused(policy, lambda: policy.update(case.randn(1, 4), case.randn(1), bandit=ids), ValueError, words)
    else:
        for wrong in (ids + 3, ids - 1):
            _refused(policy, partial(policy, case.arms(), bandit=wrong), ValueError, r"bandit ids must be in \[0, 3\)")
