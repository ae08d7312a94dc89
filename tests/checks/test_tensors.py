"""Checks of tensors: what passes, what is refused, and what is skipped where values cannot be read."""

import math

import pytest
import torch

from torch_softucb.checks import (
    check_arm_axis,
    check_arm_ids,
    check_batch,
    check_finite,
    check_float_tensor,
    check_mask,
    check_not_negative,
    check_same_dtype,
    check_same_shape,
    check_shape,
    values_readable,
)


def test_float_tensors():
    x = torch.zeros(2)
    check_float_tensor("f", "x", x, dtype=torch.float32, device=x.device)
    for wrong, got in (([1.0], "list"), (torch.zeros(2, dtype=torch.long), "dtype torch.int64")):
        with pytest.raises(TypeError, match=f"f: x must be a floating point tensor, got {got}"):
            check_float_tensor("f", "x", wrong)
    with pytest.raises(TypeError, match=r"must have the policy's dtype torch.float64, .*use x.to\(torch.float64\)"):
        check_float_tensor("f", "x", x, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"f: x must be on meta, got cpu; use x.to\('meta'\)"):
        check_float_tensor("f", "x", x, device=torch.device("meta"))
    with pytest.raises(TypeError, match=r"f: x must have the arms' dtype torch.float64, got torch.float32"):
        check_same_dtype("f", "x", x, "the arms'", torch.float64)


def test_shapes():
    check_shape("f", "x", (2, 3), True, "anything")
    with pytest.raises(ValueError, match=r"f: x must have shape \(3,\), got \(2, 3\)"):
        check_shape("f", "x", torch.Size((2, 3)), False, "(3,)")
    check_same_shape("f", "x", torch.zeros(2, 3), "y", torch.zeros(2, 3))
    with pytest.raises(ValueError, match=r"f: x must have shape \(3,\), as y has, got \(2, 3\)"):
        check_same_shape("f", "x", torch.zeros(2, 3), "y", torch.zeros(3))
    check_arm_axis("f", "x", torch.zeros(2, 1))
    for shape in ((), (0,), (3, 0)):
        with pytest.raises(ValueError, match=r"f: x must have shape \(\*B, K\) with K >= 1, got"):
            check_arm_axis("f", "x", torch.zeros(shape))


def test_one_value_for_all_or_one_per_bandit():
    batch = torch.Size((2, 3))
    for shape in ((), (2, 3)):
        check_batch("f", "beta", torch.zeros(shape), batch)
    for shape in ((3,), (2, 1), (1,), (3, 2)):
        with pytest.raises(ValueError, match=r"f: beta must have shape \(\) or \(2, 3\), got"):
            check_batch("f", "beta", torch.zeros(shape), batch)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite(bad):
    x = torch.zeros(2, 3)
    x[1, 2] = bad
    with pytest.raises(ValueError, match=r"f: x must be finite, got 1 NaN or infinite of 6 values, the first at \(1, 2\)"):
        check_finite("f", "x", x)
    with pytest.raises(ValueError, match="f: x must be finite"):
        check_not_negative("f", "x", x)


def test_a_sum_that_overflows_is_no_infinite_value():
    check_finite("f", "x", torch.full((4,), torch.finfo(torch.float32).max))
    check_finite("f", "x", torch.zeros(0))


def test_negative_values():
    check_not_negative("f", "x", torch.zeros(2))
    check_not_negative("f", "x", torch.zeros(0))
    with pytest.raises(ValueError, match=r"f: x must be at least 0, got -2\.0"):
        check_not_negative("f", "x", torch.tensor([1.0, -2.0]))


def test_masks():
    rows = torch.tensor([[True, False], [False, True]])
    check_mask("f", None, (2, 2))
    check_mask("f", rows, (2, 2))
    check_mask("f", rows[0], (2, 2), device=rows.device)
    for wrong, got in (([True], "list"), (rows.long(), "dtype torch.int64")):
        with pytest.raises(TypeError, match=f"f: mask must be a bool tensor, True = allowed, got {got}"):
            check_mask("f", wrong, (2, 2))
    with pytest.raises(ValueError, match=r"f: mask must have shape \(2, 2\) or \(2,\), got \(1, 2\)"):
        check_mask("f", rows[:1], (2, 2))
    with pytest.raises(ValueError, match="f: mask must be on meta"):
        check_mask("f", rows, (2, 2), device=torch.device("meta"))
    rows[1, 1] = False
    with pytest.raises(ValueError, match=r"allow at least one arm in every row, got 1 rows with none, the first at \(1,\)"):
        check_mask("f", rows, (2, 2))


def test_arm_numbers():
    check_arm_ids("f", torch.tensor([0, 2]), torch.Size((2,)), 3)
    check_arm_ids("f", torch.zeros(0, dtype=torch.long), torch.Size((0,)), 3)
    for wrong, got in ((1, "int"), (torch.tensor([0.0, 1.0]), "dtype torch.float32")):
        with pytest.raises(TypeError, match=f"f: arm must be an int64 tensor of arm numbers, got {got}"):
            check_arm_ids("f", wrong, torch.Size((2,)), 3)
    with pytest.raises(ValueError, match=r"f: arm must have shape \(2,\), got \(1,\)"):
        check_arm_ids("f", torch.tensor([0]), torch.Size((2,)), 3)
    for arm, got in (([0, 3], 3), ([-1, 0], -1), ([-1, 9], -1)):
        with pytest.raises(ValueError, match=rf"f: arm must be in \[0, 3\), got {got}$"):
            check_arm_ids("f", torch.tensor(arm), torch.Size((2,)), 3)


def test_values_are_not_read_under_vmap():
    seen = []

    def f(x):
        seen.append(values_readable(x))
        check_finite("f", "x", x)
        return x

    bad = torch.tensor([math.nan, 1.0])
    torch.func.vmap(f)(bad)
    assert seen == [False]
    assert values_readable(bad)
