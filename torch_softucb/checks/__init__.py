"""Input checks that several folders share; those of one folder are in its ``_checks.py`` or in the file that calls them."""

from torch_softucb.checks.numbers import (
    check_choice,
    check_delta,
    check_divides,
    check_integer,
    check_number,
    check_range,
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
    "check_range",
    "check_same_dtype",
    "check_same_shape",
    "check_shape",
    "values_readable",
]
