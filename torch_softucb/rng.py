"""Random numbers that depend on *whose* they are, not on how the work was cut into batches.

Each of the three streams of a simulation (which problem, which reward noise, which action draws) starts as a
``torch.Generator``. :func:`stream_key` takes one 64-bit key from it; the n-th number of trajectory ``id`` is then the
n-th output of a SplitMix64 generator [1] seeded by (key, id). So 64 trajectories in one batch, in two batches or one by
one meet the same problems, the same noise and the same draws, and a stream can be resumed at any n.

[1] G. L. Steele, D. Lea, C. H. Flood: Fast splittable pseudorandom number generators, OOPSLA 2014.
"""

import math

import torch
from torch import Tensor

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as int64; int64 products wrap modulo 2**64
_MIX_1 = -4658895280553007687  # 0xBF58476D1CE4E5B9
_MIX_2 = -7723592293110705685  # 0x94D049BB133111EB


def _xor_shift_(z: Tensor, bits: int, space: Tensor) -> Tensor:
    torch.bitwise_right_shift(z, bits, out=space)
    return z.bitwise_xor_(space.bitwise_and_((1 << (64 - bits)) - 1))  # logical shift: >> of an int64 copies the sign


def _mix(z: Tensor) -> Tensor:
    """Writes over ``z``: memory asked for anew would cost more than the arithmetic."""
    space = torch.empty_like(z)
    z = _xor_shift_(z, 30, space).mul_(_MIX_1)
    z = _xor_shift_(z, 27, space).mul_(_MIX_2)
    return _xor_shift_(z, 31, space)


def split_mix(
    seed: Tensor,  # (*B,) int64
    start: int,
    count: int,
) -> Tensor:
    """Outputs ``start .. start + count - 1`` of SplitMix64 from each seed, as int64 ``(count, *B)``."""
    step = torch.arange(start + 1, start + count + 1, device=seed.device) * _GOLDEN
    return _mix(seed + step.view(-1, *[1] * seed.dim()))


STREAMS = ("problem", "noise", "action")


def stream_key(generator: torch.Generator | None, stream: str, device: torch.device) -> Tensor:
    """One 64-bit key, the only thing that a stream takes from ``generator`` (None: torch's own generator).

    Streams of different names are independent even when their generators were seeded alike.
    """
    place = device if generator is None else generator.device
    drawn = torch.randint(-(2**63), 2**63 - 1, (), generator=generator, device=place).to(device)
    return _mix(drawn + torch.full_like(drawn, STREAMS.index(stream) + 1) * _GOLDEN)


def mixed_seed(*numbers: int) -> int:
    """One seed from several numbers; torch's CPU generator reads only its low 32 bits, so those are mixed well."""
    seed = torch.zeros((), dtype=torch.int64)
    for number in numbers:
        seed = _mix(seed + torch.full_like(seed, number + 1) * _GOLDEN)
    return int(seed) & (2**32 - 1)


def _bits(key: Tensor, ids: Tensor, start: int, count: int, dtype: torch.dtype) -> tuple[Tensor, int]:
    digits = 53 if dtype == torch.float64 else 24  # what the dtype's mantissa holds
    seed = _mix(key + _mix(ids * _GOLDEN))
    top = split_mix(seed, start, count).bitwise_right_shift_(64 - digits).bitwise_and_((1 << digits) - 1)
    return top, digits


def uniforms(
    key: Tensor,  # ()
    ids: Tensor,  # (*B,) int64
    *,
    start: int,
    count: int,
    dtype: torch.dtype,
) -> Tensor:  # (count, *B)
    """Uniform numbers in [0, 1): never 1, in either dtype; float32 is float64 cut to 24 bits."""
    top, digits = _bits(key, ids, start, count, dtype)
    return top.to(dtype).mul_(2.0**-digits)


def normals(
    key: Tensor,  # ()
    ids: Tensor,  # (*B,) int64
    *,
    start: int,
    count: int,
    dtype: torch.dtype,
) -> Tensor:  # (count, *B)
    """Standard normal numbers by the inverse distribution function; always finite."""
    top, digits = _bits(key, ids, start, count, dtype)
    odd = top.mul_(2).add_(1 - 2**digits)  # over 2**digits: in (-1, 1), never at the ends
    return odd.to(dtype).mul_(2.0**-digits).erfinv_().mul_(math.sqrt(2.0))
