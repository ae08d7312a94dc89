"""Every argument of every function that has a shape or a range: a wrong one is refused, with its name."""

import math
import re

import pytest
import torch

from torch_softucb import functional as F

K, D, N = 3, 2, 5
_GENERATOR = torch.Generator().manual_seed(0)


def R(*shape):
    return torch.rand(shape, generator=_GENERATOR)


def _spd(*batch):
    return torch.eye(D).expand(*batch, D, D).clone()


VALID = {  # function: arguments that it accepts
    "coldness": {"index": R(4, K), "delta": 0.9, "mask": None},
    "smooth_coldness": {"index": R(4, K), "delta": 0.9, "smoothing": 0.1, "mask": None},
    "arm_probabilities": {"index": R(4, K), "gamma": R(4), "mask": None},
    "greedy_probabilities": {"index": R(4, K), "mask": None},
    "soft_ucb_index": {"mu_hat": R(4, K), "width": R(4, K), "beta": R(4), "mask": None},
    "expected_reward": {"beta": R(4), "mu_hat": R(4, K), "width": R(4, K), "gamma": R(4), "mask": None},
    "reward_and_gradient": {"probs": R(4, K), "mu_hat": R(4, K), "width": R(4, K), "gamma": R(4)},
    "coverage": {"means": R(4, K), "mu_hat": R(4, K), "width": R(4, K), "beta": R(4), "mask": None},
    "num_suboptimal": {"index": R(4, K), "mask": None},
    "expected_regret": {"probs": R(4, K), "means": R(4, K), "mask": None},
    "sum_width": {"width": R(4, K), "mask": None},
    "offline_objective": {
        "beta": R(4), "mu_hat": R(N, 4, K), "width": R(N, 4, K), "gamma": R(N, 4), "eta": 0.1, "mask": None
    },
    "online_objective": {"value": R(4), "past": R(4), "t": 2, "horizon": 3},
    "online_gradient": {"gradient": R(4), "past": R(4), "widths": R(4), "t": 2, "horizon": 3, "eta": 0.1},
    "logit_slope": {
        "mu_hat": R(4, K), "width": R(4, K), "beta": R(4), "index": R(4, K), "gamma": R(4), "delta": 0.9, "smoothing": 0.1,
        "mask": None,
    },
    "delta_slope": {"index": R(4, K), "delta": 0.9, "smoothing": 0.1, "mask": None},
    "trajectory_score": {"probs": R(4, K), "slope": R(4, K), "means": R(4, K), "arm": torch.tensor([0, 1, 2, 0])},
    "reward_to_go": {"reward": R(4)},
    "draw_arm": {"probs": R(4, K), "uniform": R(4)},
    "draw_slate": {"log_probs": R(4, K).log(), "index": R(4, K), "uniform": R(4, K).double(), "k": 2, "mask": None},
    "slate_log_prob": {"log_probs": R(4, K).log(), "slate": torch.tensor([[0, 1]] * 4)},
    "ridge_root": {"V": _spd(4)},
    "ridge_root_update": {"root": _spd(4), "x": R(4, D)},
    "ridge_cache_error": {"V": _spd(4), "root": _spd(4)},
    "ridge_estimate": {"arms": R(4, K, D), "root": _spd(4), "b": R(4, D)},
    "ridge_estimate_blocks": {"arms": R(K, D), "root": _spd(), "b": R(D)},
    "residual_sum": {"squares": R(4), "root": _spd(4), "b": R(4, D)},
    "leave_one_out": {"values": R(2, 3, 4)},
    "linear_prediction": {"state": R(2, 3, 4, 2), "target": R(2, 3, 4)},
    "g_optimal_design": {"arms": R(4, K, D), "mask": None},
    "direct_method": {"target_probs": R(N, K).softmax(-1), "reward_hat": R(N, K)},
    "doubly_robust": {
        "reward": R(N), "arm": torch.zeros(N, dtype=torch.int64), "propensity": R(N) / 2 + 0.5,
        "target_probs": R(N, K).softmax(-1), "reward_hat": R(N, K),
    },
    "self_normalised": {
        "reward": R(N), "arm": torch.zeros(N, dtype=torch.int64), "propensity": R(N) / 2 + 0.5,
        "target_probs": R(N, K).softmax(-1),
    },
    "cross_fitted_rewards": {
        "features": R(N, K, D), "arm": torch.zeros(N, dtype=torch.int64), "reward": R(N), "folds": 2, "ridge_alpha": 1.0
    },
    "beta_upper_bound": {"dim": 3, "horizon": 10, "subgaussian_r": 0.5, "fail_prob": 0.1, "ridge_alpha": 1,
        "theta_bound": 1},
    "regret_bound": {"beta": 1.0, "dim": 3, "horizon": 10, "delta": 0.9, "ridge_alpha": 1.0},
    "thompson_scale": {"dim": 3, "horizon": 10, "subgaussian_r": 0.5, "fail_prob": 0.1},
    "bayesian_ridge": {
        "gram": 10 * _spd(), "moment": torch.full((D,), 5.0), "energy": torch.tensor(9.0), "count": torch.tensor(9.0)
    },
}  # fmt: skip
NOT_SHAPED = {  # tensors of any shape, and those whose shape another argument sets
    ("online_objective", "value"), ("online_objective", "past"),
    ("online_gradient", "gradient"), ("online_gradient", "past"), ("online_gradient", "widths"),
    ("reward_to_go", "reward"), ("offline_objective", "width"), ("offline_objective", "gamma"),
}  # fmt: skip
NUMBERS = {  # value just outside the range of a number
    "delta": [0.49, 1.0], "smoothing": [0.0], "eta": [-0.1], "t": [0, 4], "dim": [0], "subgaussian_r": [-0.1],
    "fail_prob": [0.0, 1.0], "ridge_alpha": [0.0], "theta_bound": [-0.1], "beta": [-0.1], "k": [0],
}  # fmt: skip


def _call(name, **changed):
    return getattr(F, name)(**{**VALID[name], **changed})


@pytest.mark.parametrize("name", VALID)
def test_valid_arguments_are_accepted(name):
    _call(name)


SHAPED = [
    (name, key)
    for name, arguments in VALID.items()
    for key, value in arguments.items()
    if isinstance(value, torch.Tensor) and (name, key) not in NOT_SHAPED
]


@pytest.mark.parametrize(("name", "key"), SHAPED)
def test_one_more_dimension_is_refused_by_name(name, key):
    value = VALID[name][key]
    alone = {  # the argument that sets the batch: here the others do not fit
        other for other, given in VALID[name].items() if other != key and isinstance(given, torch.Tensor)
    }
    names = "|".join([key, *alone]) if alone else key
    wrong = value.expand(7, 6, *value.shape)
    if (name, key) in (("ridge_root", "V"), ("ridge_estimate_blocks", "arms")):  # any leading dimensions are fine
        wrong = value[..., 1:]
    elif not alone and key != "values":
        wrong = value.new_zeros(())
    with pytest.raises((ValueError, TypeError), match=rf"^{name}: ({names}) must"):
        _call(name, **{key: wrong})


@pytest.mark.parametrize("name", [name for name, arguments in VALID.items() if "mask" in arguments])
def test_a_mask_that_does_not_fit_is_refused(name):
    with pytest.raises(ValueError, match=rf"^{name}: mask must"):
        _call(name, mask=torch.ones(K + 1, dtype=torch.bool))
    with pytest.raises(ValueError, match=rf"^{name}: mask must allow at least one arm"):
        _call(name, mask=torch.zeros(K, dtype=torch.bool))
    with pytest.raises(TypeError, match=rf"^{name}: mask must be a bool tensor"):
        _call(name, mask=torch.ones(K))


@pytest.mark.parametrize(
    ("name", "key"),
    [
        (n, k)
        for n, a in VALID.items()
        for k in ("index", "probs", "log_probs")
        if k in a and (n, k) != ("draw_slate", "index")
    ],
)
def test_no_arms_are_refused(name, key):
    empty = {k: v[..., :0] for k, v in VALID[name].items() if isinstance(v, torch.Tensor) and v.shape[-1:] == (K,)}
    with pytest.raises(ValueError, match=rf"^{name}: {key} must .*K >= 1"):
        _call(name, **empty)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        (name, key, value)
        for name, arguments in VALID.items()
        for key, given in arguments.items()
        if not isinstance(given, torch.Tensor)
        for value in NUMBERS.get(key, [])
        if (name, key) != ("cross_fitted_rewards", "ridge_alpha")  # may be 0
    ],
)
def test_numbers_just_outside_their_range_are_refused(name, key, value):
    with pytest.raises((ValueError, TypeError), match=rf"^{name}: .*{key}"):
        _call(name, **{key: value})


@pytest.mark.parametrize("name", ["direct_method", "doubly_robust"])
def test_a_single_decision_is_refused(name):
    one = {key: value[:1] for key, value in VALID[name].items()}
    with pytest.raises(ValueError, match=rf"^{name}: target_probs must .*n >= 2"):
        _call(name, **one)
    _call(name, **{key: value[:2] for key, value in VALID[name].items()})


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("direct_method", "reward_hat", math.nan),
        ("doubly_robust", "reward", math.inf),
        ("doubly_robust", "propensity", math.nan),
        ("self_normalised", "target_probs", math.nan),
        ("cross_fitted_rewards", "features", math.nan),
        ("cross_fitted_rewards", "reward", math.nan),
        ("bayesian_ridge", "gram", math.nan),
        ("bayesian_ridge", "moment", math.nan),
    ],
)
def test_nan_in_a_log_is_refused_by_name(name, key, value):
    with pytest.raises(ValueError, match=rf"^{name}: {key} must be finite"):
        _call(name, **{key: torch.full_like(VALID[name][key], value)})


@pytest.mark.parametrize(("value", "row"), [(0.0, 3), (1.001, 1)])
def test_the_row_of_a_bad_propensity_is_named(value, row):
    propensity = torch.full((N,), 1.0)
    propensity[row] = value
    with pytest.raises(ValueError, match=rf"propensity must be in \(0, 1\], got {re.escape(f'{value:.3g}')}.* in row {row}"):
        _call("doubly_robust", propensity=propensity)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"count": torch.tensor(1.9)}, "count must be at least 2"),
        ({"energy": torch.tensor(0.0)}, "energy must be above 0"),
        ({"gram": torch.zeros(D, D)}, "gram must be X"),
        ({"gram": torch.tensor([[1.0, 1e-3], [0.0, 1.0]])}, "asymmetry"),
        ({"gram": torch.tensor([[1.0, 0.0], [0.0, -1e-3]])}, "eigenvalues from -0.001"),
    ],
)
def test_impossible_regression_sums_are_refused(changed, reason):
    with pytest.raises(ValueError, match=rf"^bayesian_ridge: .*{reason}"):
        _call("bayesian_ridge", **changed)


def test_two_observations_are_enough():
    sums = {"gram": torch.tensor([[2.0]]), "moment": torch.tensor([1.9]), "energy": torch.tensor(1.9)}  # x 1, 1; y 0.5, 1.4
    F.bayesian_ridge(**sums, count=torch.tensor(2.0))


def test_counts_below_0_are_refused_even_if_their_sum_is_enough():
    arguments = {key: value.expand(2, *value.shape) for key, value in VALID["bayesian_ridge"].items()}
    with pytest.raises(ValueError, match="count must"):
        F.bayesian_ridge(**{**arguments, "count": torch.tensor([9.0, -1.0])})
    F.bayesian_ridge(**{**arguments, "count": torch.tensor([9.0, 0.0])})


def test_a_propensity_of_exactly_1_and_the_last_round_are_accepted():
    _call("doubly_robust", propensity=torch.ones(N))
    _call("online_objective", t=3, horizon=3)
    _call("online_gradient", t=3, horizon=3)


@pytest.mark.parametrize("row", [0, 3])
def test_the_first_row_of_probabilities_that_do_not_sum_to_1_is_named(row):
    probs = torch.full((N, K), 1 / K)
    probs[row] *= 0.9
    with pytest.raises(ValueError, match=rf"target_probs must sum to 1 in every row, got 0.9 in row {row}$"):
        _call("direct_method", target_probs=probs)


def test_a_target_that_never_takes_a_logged_action_is_refused():
    never = torch.tensor([0.0, 0.5, 0.5]).expand(N, K)  # the log took arm 0
    with pytest.raises(ValueError, match="no logged action has a weight above 0"):
        _call("self_normalised", target_probs=never)


@pytest.mark.parametrize("confidence", [0.0, 1.0])
@pytest.mark.parametrize("name", ["direct_method", "doubly_robust", "self_normalised"])
def test_a_confidence_of_0_or_1_is_refused(name, confidence):
    with pytest.raises(ValueError, match="confidence must be in"):
        _call(name, confidence=confidence)


@pytest.mark.parametrize("name", ["online_objective", "online_gradient", "regret_bound"])
def test_a_horizon_is_a_whole_number_of_rounds(name):
    with pytest.raises((TypeError, ValueError), match=rf"^{name}: horizon must"):
        _call(name, horizon=3.5)


def test_an_eigenvalue_at_the_limit_of_rounding_and_small_features_are_accepted():
    F.bayesian_ridge(
        gram=torch.diag(torch.tensor([1.0, -1e-6], dtype=torch.double)),  # just not refused
        moment=torch.tensor([0.9, 0.0], dtype=torch.double),
        energy=torch.tensor(1.0, dtype=torch.double),
        count=torch.tensor(9.0, dtype=torch.double),
    )


def test_expected_shapes_are_spelled_out():
    with pytest.raises(ValueError, match=re.escape("(2,) or (2, n)")):
        F.add_residuals(F.no_residuals(torch.ones(2), 0.9), *[torch.rand(3, 3)] * 3)
