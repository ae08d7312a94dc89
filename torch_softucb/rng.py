"""Random numbers keyed by trajectory, independent of how trajectories are grouped into batches.

A simulation uses three streams: which problem, which reward noise, which action draws. Each starts as a
``torch.Generator``, from which :func:`stream_key` takes one 64-bit key. Candidates and delays are part of the world like the
noise, so their keys are derived from its key (:func:`derived_key`). The n-th number of trajectory ``id`` is then the
n-th output of a SplitMix64 generator [1] seeded by (key, id). Hence 64 trajectories get the same problems, noise and draws
in one batch, in two batches or one by one, and a stream can be resumed at any n.

[1] G. L. Steele, D. Lea, C. H. Flood: Fast splittable pseudorandom number generators, OOPSLA 2014.
"""

import math

import torch
from torch import Tensor

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as int64; int64 products wrap modulo 2**64
_MIX_1 = -4658895280553007687  # 0xBF58476D1CE4E5B9
_MIX_2 = -7723592293110705685  # 0x94D049BB133111EB

STREAMS = ("problem", "noise", "action")
DERIVED = ("candidates", "delay")


def _xor_shift_(z: Tensor, bits: int, buffer: Tensor) -> Tensor:
    torch.bitwise_right_shift(z, bits, out=buffer)
    return z.bitwise_xor_(buffer.bitwise_and_((1 << (64 - bits)) - 1))  # logical shift: >> of an int64 copies the sign


def _mix_(z: Tensor) -> Tensor:
    """Apply SplitMix64's output function to ``z`` in place; allocating new tensors would cost more than the arithmetic."""
    buffer = torch.empty_like(z)
    z = _xor_shift_(z, 30, buffer).mul_(_MIX_1)
    z = _xor_shift_(z, 27, buffer).mul_(_MIX_2)
    return _xor_shift_(z, 31, buffer)


def split_mix(
    seed: Tensor,  # (*B,) int64
    start: int,
    count: int,
) -> Tensor:  # (count, *B) int64
    """Return outputs ``start`` to ``start + count - 1`` of SplitMix64 for each seed."""
    step = torch.arange(start + 1, start + count + 1, device=seed.device) * _GOLDEN
    return _mix_(seed + step.view(-1, *[1] * seed.dim()))


def stream_key(generator: torch.Generator | None, stream: str, device: torch.device) -> Tensor:  # ()
    """Draw the 64-bit key of a stream, the only number that a stream takes from its generator.

    Streams with different names are independent even when their generators have the same seed.

    Args:
        generator: source of the key; None uses torch's default generator.
        stream: one of ``STREAMS``.
        device: device of the key and of all numbers derived from it.
    """
    source = device if generator is None else generator.device
    drawn = torch.randint(-(2**63), 2**63 - 1, (), generator=generator, device=source).to(device)
    return _mix_(drawn + torch.full_like(drawn, STREAMS.index(stream) + 1) * _GOLDEN)


def derived_key(key: Tensor, stream: str) -> Tensor:  # () -> ()
    """Return the key of another stream that goes with ``key``: the streams named in ``DERIVED`` are independent of it."""
    return _mix_(key + torch.full_like(key, len(STREAMS) + DERIVED.index(stream) + 1) * _GOLDEN)


def mixed_seed(*numbers: int) -> int:
    """Combine several numbers into one seed below 2**32.

    torch's CPU generator uses only the low 32 bits of its seed, so the numbers are mixed into those.
    """
    seed = torch.zeros((), dtype=torch.int64)
    for number in numbers:
        seed = _mix_(seed + torch.full_like(seed, number + 1) * _GOLDEN)
    return int(seed) & (2**32 - 1)


def trajectory_seed(key: Tensor, ids: Tensor) -> Tensor:  # (), (*B,) -> (*B,) int64
    """Return the seed of SplitMix64 of each trajectory."""
    return _mix_(key + _mix_(ids * _GOLDEN))


def _top_bits(key: Tensor, ids: Tensor, start: int, count: int, dtype: torch.dtype) -> tuple[Tensor, int]:
    """Return the top bits of each output as integers ``(count, *B)``, and how many bits they have."""
    digits = 53 if dtype == torch.float64 else 24  # as many as the mantissa holds
    top = (
        split_mix(trajectory_seed(key, ids), start, count).bitwise_right_shift_(64 - digits).bitwise_and_((1 << digits) - 1)
    )
    return top, digits


def uniforms(
    key: Tensor,  # ()
    ids: Tensor,  # (*B,) int64
    *,
    start: int,
    count: int,
    dtype: torch.dtype,
) -> Tensor:  # (count, *B)
    """Return uniform numbers in [0, 1).

    A float32 number is the float64 number truncated to 24 bits; neither can be 1.

    Args:
        key: from :func:`stream_key`.
        ids: trajectories.
        start: position in the stream of the first number.
        count: numbers per trajectory.
        dtype: float32 or float64.
    """
    top, digits = _top_bits(key, ids, start, count, dtype)
    return top.to(dtype).mul_(2.0**-digits)


def normals(key: Tensor, ids: Tensor, *, start: int, count: int, dtype: torch.dtype) -> Tensor:  # (), (*B,) -> (count, *B)
    """Return standard normal numbers by inversion of the distribution function; all are finite.

    The arguments are those of :func:`uniforms`.
    """
    top, digits = _top_bits(key, ids, start, count, dtype)
    odd = top.mul_(2).add_(1 - 2**digits)  # odd / 2**digits is in (-1, 1), without the ends
    return odd.to(dtype).mul_(2.0**-digits).erfinv_().mul_(math.sqrt(2.0))
