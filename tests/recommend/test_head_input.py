"""Bad input of the head: the error names the row, and nothing is changed."""

import numpy as np
import pytest
import torch
from torch import nn

from tests.recommend.cases import head, requests, state_of
from torch_softucb import EXP3, NumericalError, SoftUCBHead, SoftUCBPolicy

D = torch.double


BAD = {
    "nan embedding": (
        lambda h: h(torch.tensor([1]), torch.tensor([[2, 3]]), bandit=torch.tensor([1])),
        r"arms must be finite.*first at \(0, 1, 0\)",
    ),
    "no user": (lambda h: h(torch.tensor([1]), torch.tensor([[2, 3]])), "bandit must be given, a tensor"),
    "no candidates": (
        lambda h: h(torch.tensor([1]), torch.zeros(1, 0, dtype=torch.long), bandit=torch.tensor([1])),
        "at least one candidate",
    ),
    "no requests": (
        lambda h: h(torch.zeros(0).long(), torch.zeros(0, 3).long(), bandit=torch.zeros(0).long()),
        "empty list",
    ),
    "mask of none": (
        lambda h: h(
            *(torch.tensor([1, 1]), torch.ones(2, 2).long()),
            mask=torch.tensor([[True, True], [False, False]]),
            bandit=torch.tensor([1, 1]),
        ),
        r"mask must allow at least one arm in every row, got 1 rows with none, the first at \(1,\)",
    ),
    "unknown user": (
        lambda h: h(torch.tensor([1]), torch.ones(1, 2).long(), bandit=torch.tensor([20])),
        r"bandit ids must be in \[0, 20\), got 20 in row 0",
    ),
    "unknown decision": (
        lambda h: h.feedback(torch.tensor([0, 77]), torch.ones(2, dtype=D)),
        r"decision 77 \(position 1\) is unknown",
    ),
    "answered before": (
        lambda h: h.feedback(torch.tensor([0, 0]), torch.ones(2, dtype=D)),
        r"decision 0 \(position 1\) was",
    ),
    "infinite reward": (
        lambda h: h.feedback(torch.tensor([0, 1]), torch.tensor([1.0, torch.inf], dtype=D)),
        r"reward must be finite, got 1 .* the first at \(1,\)",
    ),
    "reward shape": (lambda h: h.feedback(torch.tensor([0, 1]), torch.ones(1, dtype=D)), "reward must have shape"),
    "ids as floats": (lambda h: h.feedback(torch.tensor([0.0]), torch.ones(1, dtype=D)), "id must be an int64 tensor"),
    "rewards as whole numbers": (lambda h: h.feedback(torch.tensor([0]), torch.ones(1).long()), "reward must be a floating"),
    "on_repeat": (lambda h: h.feedback(torch.tensor([0]), torch.ones(1, dtype=D), on_repeat="x"), "on_repeat must be"),
    "foreign decision": (lambda h: h.serve(h.policy(torch.ones(20, 3, 4, dtype=D))), "decision must come from this head"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_names_the_row_and_changes_nothing(name):
    ours = head(users=20)
    user, items = requests(4, 5)
    ours.serve(ours(user, items, bandit=user))
    with torch.no_grad():
        ours.encoder.items[3, 0] = torch.nan
    before = state_of(ours)
    act, match = BAD[name]
    with pytest.raises((ValueError, TypeError), match=match):
        act(ours)
    assert all(np.array_equal(v, before[k], equal_nan=True) for k, v in state_of(ours).items())


def test_policies_and_encoders_that_do_not_fit():
    with pytest.raises(ValueError, match="which EXP3 cannot take"):
        SoftUCBHead(nn.Identity(), EXP3(3, 5, exploration=0.1))
    with pytest.raises(ValueError, match="SoftUCBPolicy with coldness='lagged' cannot take"):
        SoftUCBHead(nn.Identity(), SoftUCBPolicy(3, coldness="lagged"))
    with pytest.raises(ValueError, match="policy must have dim 2 or more"):
        SoftUCBHead(nn.Identity(), SoftUCBPolicy(1), intercept=True)
    with pytest.raises(ValueError, match=r"encoder output must have shape \(K, 3\) or \(N, K, 3\), got \(5, 2\)"):
        SoftUCBHead(nn.Identity(), SoftUCBPolicy(3))(torch.zeros(5, 2))
    with pytest.raises(TypeError, match="encoder must return a tensor"):
        SoftUCBHead(nn.Identity(), SoftUCBPolicy(3))([1.0])
    with pytest.raises(TypeError, match="policy must be a BanditPolicy, got Linear"):
        SoftUCBHead(nn.Identity(), nn.Linear(2, 2))
    with pytest.raises(TypeError, match="policy must be float32 or float64"):
        SoftUCBHead(nn.Identity(), SoftUCBPolicy(3, dtype=torch.bfloat16))
    ours = head()
    decision = ours(*requests(2, 3))
    for k in (0, 4):
        with pytest.raises(ValueError, match="k must be"):
            ours.serve(decision, k=k)
    with pytest.raises(ValueError, match=r"discount must be in \(0, 1\], got 1.5"):
        SoftUCBHead(nn.Identity(), SoftUCBPolicy(3), discount=1.5)


def test_numbers_that_overflow_are_refused():
    policy = SoftUCBPolicy(2, dtype=D)
    for x, y in ((torch.full((2,), 1e3, dtype=D), 1e307), (torch.full((3, 2), 1e200, dtype=D), torch.ones(3, dtype=D))):
        with pytest.raises(NumericalError, match=r"overflow|not positive definite"):
            policy.update(x, torch.as_tensor(y, dtype=D))
    assert policy.state.num_observations == 0
