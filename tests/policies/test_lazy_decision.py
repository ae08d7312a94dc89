"""Decisions of one bandit: tensors on first access, otherwise a decision like any other."""

import copy
import dataclasses
import pickle

import pytest
import torch

from torch_softucb import Decision, SoftUCBPolicy
from torch_softucb.policies.lazy_decision import LazyDecision

FIELDS = ("probs", "index", "mu_hat", "width", "beta", "gamma", "next_gamma")


@pytest.fixture(params=[torch.float32, torch.float64])
def decision(request, seeded):
    policy = SoftUCBPolicy(3, dtype=request.param)
    policy.update(
        torch.randn(9, 3, generator=seeded(0)).to(request.param), torch.randn(9, generator=seeded(1)).to(request.param)
    )
    with torch.no_grad():
        return policy(torch.randn(5, 3, generator=seeded(2)).to(request.param), mask=torch.tensor([True] * 4 + [False]))


def test_no_tensor_exists_before_it_is_read(decision):
    assert isinstance(decision, LazyDecision)
    decision.sample()
    assert not set(FIELDS) & set(vars(decision))
    assert decision.gamma is decision.gamma
    assert set(FIELDS) & set(vars(decision)) == {"gamma"}


def test_replace_and_fields_work_as_on_any_dataclass(decision):
    assert {field.name for field in dataclasses.fields(Decision)} <= {field.name for field in dataclasses.fields(decision)}
    other = dataclasses.replace(decision, beta=torch.tensor(9.0), mask=None)
    assert (other.beta, other.mask) == (9.0, None)
    for name in set(FIELDS) - {"beta"}:
        assert getattr(other, name).equal(getattr(decision, name))
        assert getattr(other, name).dtype == decision.dtype
    u = torch.rand((), generator=torch.Generator().manual_seed(0), dtype=decision.dtype)
    assert other.pick(u).equal(decision.pick(u))
    assert other.num_arms == 5
    moved = dataclasses.replace(decision, probs=torch.eye(5)[3])
    assert moved.sample() == 3
    assert dataclasses.replace(decision, gamma=None).gamma is None


def test_a_request_is_added_without_reading_a_tensor(decision, seeded):
    features, bandit = torch.zeros(5, 3), torch.tensor([0])
    asked = decision.with_request(features=features, bandit=bandit)
    assert not set(FIELDS) & (set(vars(decision)) | set(vars(asked)))
    assert (asked.features is features, asked.bandit is bandit, asked.mask is decision.mask) == (True, True, True)
    assert (decision.features, decision.bandit) == (None, None)
    for name in FIELDS:
        assert getattr(asked, name).equal(getattr(decision, name))
    assert asked.sample(seeded(0)).equal(decision.sample(seeded(0)))


def test_it_is_frozen_and_can_be_copied(decision):
    with pytest.raises(dataclasses.FrozenInstanceError):
        decision.probs = torch.zeros(5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        decision.price = 1
    for again in (copy.deepcopy(decision), pickle.loads(pickle.dumps(decision))):
        assert all(getattr(again, name).equal(getattr(decision, name)) for name in FIELDS)
    assert "probs=tensor" in repr(decision)
