"""Laws of the keyed random numbers: each is a function of key, id and position, and of nothing else."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import SEEDS
from torch_softucb.rng import STREAMS, mixed_seed, normals, split_mix, stream_key, uniforms

CPU = torch.device("cpu")
IDS = st.lists(st.integers(0, 2**62), min_size=1, max_size=6)
STARTS = st.integers(0, 10**6)
KINDS = st.sampled_from([uniforms, normals])
WORD = (1 << 64) - 1


def _key(seed, stream="action"):
    return stream_key(torch.Generator().manual_seed(seed), stream, CPU)


def _split_mix(seed, n):
    """Output n of SplitMix64, as published, in Python's integers."""
    z = (seed + (n + 1) * 0x9E3779B97F4A7C15) & WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


@given(st.integers(-(2**63), 2**63 - 1), STARTS)
def test_split_mix_is_the_published_generator(seed, start):
    got = split_mix(torch.tensor(seed), start, 3)
    assert [value & WORD for value in got.tolist()] == [_split_mix(seed & WORD, start + i) for i in range(3)]


@given(KINDS, SEEDS, IDS, STARTS, st.integers(1, 9))
def test_a_stream_may_be_read_in_parts(kind, seed, ids, start, count):
    key, ids = _key(seed), torch.tensor(ids)
    whole = kind(key, ids, start=start, count=count + 3, dtype=torch.double)
    first = kind(key, ids, start=start, count=count, dtype=torch.double)
    rest = kind(key, ids, start=start + count, count=3, dtype=torch.double)
    assert torch.cat((first, rest)).equal(whole)


@given(KINDS, SEEDS, IDS, STARTS)
def test_a_trajectory_has_its_numbers_in_any_batch(kind, seed, ids, start):
    key = _key(seed)
    whole = kind(key, torch.tensor(ids), start=start, count=4, dtype=torch.double)
    for i, one in enumerate(ids):
        assert kind(key, torch.tensor(one), start=start, count=4, dtype=torch.double).equal(whole[:, i])


@given(SEEDS, IDS, STARTS)
def test_uniforms_are_in_range_and_float32_is_float64_cut_off(seed, ids, start):
    key, ids = _key(seed), torch.tensor(ids)
    long = uniforms(key, ids, start=start, count=50, dtype=torch.float64)
    short = uniforms(key, ids, start=start, count=50, dtype=torch.float32)
    assert ((long >= 0) & (long < 1)).all()
    assert (short < 1).all()
    assert short.double().equal((long * 2**24).floor() / 2**24)


@given(SEEDS, IDS, STARTS, st.sampled_from([torch.float32, torch.float64]))
def test_normals_are_finite_and_grow_with_the_uniforms(seed, ids, start, dtype):
    key, ids = _key(seed), torch.tensor(ids)
    z = normals(key, ids, start=start, count=50, dtype=dtype)
    u = uniforms(key, ids, start=start, count=50, dtype=dtype)
    assert z.isfinite().all()
    order = u.flatten().argsort()
    assert (z.flatten()[order].diff() >= 0).all()
    assert ((z > 0) == (u >= 0.5)).all()


@given(SEEDS)
def test_streams_of_one_seed_differ(seed):
    assert len({_key(seed, stream).item() for stream in STREAMS}) == len(STREAMS)


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=4), st.integers(1, 5))
def test_a_mixed_seed_depends_on_every_number_and_its_place(numbers, change):
    seed = mixed_seed(*numbers)
    assert 0 <= seed < 2**32
    assert seed == mixed_seed(*numbers)
    for i in range(len(numbers)):
        assert mixed_seed(*numbers[:i], numbers[i] + change, *numbers[i + 1 :]) != seed
