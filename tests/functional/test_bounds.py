import math

import pytest
import torch

from torch_softucb import functional as F


@pytest.mark.parametrize(
    ("dim", "horizon", "printed"), [(5, 256, 2.56), (5, 512, 2.66), (5, 1024, 2.76), (10, 1024, 3.25), (15, 1024, 3.61)]
)
def test_table_1_theoretical_row(dim, horizon, printed):
    bound = F.beta_upper_bound(
        dim=dim, horizon=horizon, subgaussian_r=math.sqrt(0.1), fail_prob=0.1, ridge_alpha=1.0, theta_bound=1.0
    )
    assert math.floor(bound * 100) / 100 == printed  # the paper cuts, it does not round


def test_eq_5_by_hand():
    # R = 2, fail_prob = e^-2, d = 1, T = e - 1: 2 sqrt(4 + 1) + sqrt(4) * 3
    bound = F.beta_upper_bound(
        dim=1, horizon=math.e - 1, subgaussian_r=2.0, fail_prob=math.exp(-2), ridge_alpha=4.0, theta_bound=3.0
    )
    assert bound == pytest.approx(2 * math.sqrt(5) + 6)


def test_eq_16_by_hand():
    want = 4 * math.sqrt(2) * 0.8 * 0.99 * math.sqrt(1024 * 10 * math.log(0.5 + 102.4))
    assert F.regret_bound(beta=0.8, dim=10, horizon=1024, delta=0.99, ridge_alpha=0.5) == pytest.approx(want)


def test_a_tensor_of_rounds_gives_a_tensor_of_bounds():
    rounds = torch.tensor([1.0, 10.0, 100.0], dtype=torch.double)
    settings = {"dim": 3, "subgaussian_r": 0.5, "fail_prob": 0.01}
    for bound in (F.beta_upper_bound, F.thompson_scale):
        many = bound(horizon=rounds, **settings)
        assert many.tolist() == pytest.approx([bound(horizon=t, **settings) for t in rounds.tolist()])


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"dim": 0}, "dim"),
        ({"horizon": -1}, "horizon"),
        ({"subgaussian_r": -0.5}, "subgaussian_r"),
        ({"fail_prob": 0.0}, "fail_prob"),
        ({"fail_prob": 1.0}, "fail_prob"),
        ({"ridge_alpha": 0.0}, "ridge_alpha"),
        ({"theta_bound": math.inf}, "theta_bound"),
    ],
)
def test_bad_input(change, name):
    settings = {"dim": 5, "horizon": 10, "subgaussian_r": 0.5, "fail_prob": 0.1, "ridge_alpha": 1.0, "theta_bound": 1.0}
    with pytest.raises(ValueError, match=f"beta_upper_bound: {name}"):
        F.beta_upper_bound(**(settings | change))


def test_the_bound_before_the_first_round():
    at_0 = F.beta_upper_bound(dim=3, horizon=0, subgaussian_r=0.5, fail_prob=0.1, ridge_alpha=4.0, theta_bound=3.0)
    assert at_0 == pytest.approx(0.5 * math.sqrt(2 * math.log(10)) + 2 * 3)


def test_ridge_weight_and_length_of_theta_are_1_by_default():
    given = {"dim": 3, "horizon": 50, "subgaussian_r": 0.5, "fail_prob": 0.1}
    assert F.beta_upper_bound(**given) == F.beta_upper_bound(**given, ridge_alpha=1.0, theta_bound=1.0)
    assert F.regret_bound(beta=1.0, dim=2, horizon=9, delta=0.9) == F.regret_bound(
        beta=1.0, dim=2, horizon=9, delta=0.9, ridge_alpha=1.0
    )


def test_a_tensor_of_rounds_gives_the_bound_of_each():
    given = {"dim": 3, "subgaussian_r": 0.5, "fail_prob": 0.1}
    rounds = torch.tensor([1.0, 10.0, 100.0], dtype=torch.double)
    for bound in (F.beta_upper_bound, F.thompson_scale):
        each = [bound(**given, horizon=float(t)) for t in rounds]
        torch.testing.assert_close(bound(**given, horizon=rounds), torch.tensor(each, dtype=torch.double))
