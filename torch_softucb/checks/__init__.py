"""Input checks that modules of several folders share; other checks live next to their caller."""

from torch_softucb.checks.numbers import (
    check_choice,
    check_delta,
    check_divides,
    check_integer,
    check_number,
)
from torch_softucb.checks.tensors import (
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

__all__ = [
    "check_arm_axis",
    "check_arm_ids",
    "check_batch",
    "check_choice",
    "check_delta",
    "check_divides",
    "check_finite",
    "check_float_tensor",
    "check_integer",
    "check_mask",
    "check_not_negative",
    "check_number",
    "check_same_dtype",
    "check_same_shape",
    "check_shape",
    "values_readable",
]
