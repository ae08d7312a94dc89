import math

import numpy as np
import torch

from tests.statistics_checks import (
    FALSE_ALARM,
    assert_frequencies,
    every_seed,
    frequency_p,
    frequency_power,
    mean_bound,
    mean_power,
)
from torch_softucb.rng import DERIVED, STREAMS, derived_key, mixed_seed, normals, split_mix, stream_key, uniforms


def test_split_mix_gives_the_published_outputs():
    """First outputs of SplitMix64 from seed 1234567, as published with the reference implementation."""
    want = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    got = split_mix(torch.tensor(1234567), 0, 5).tolist()
    assert [v % 2**64 for v in got] == want


def test_a_stream_can_be_entered_anywhere_and_depends_on_the_id_alone():
    key, ids = torch.tensor(42), torch.arange(10)
    whole = uniforms(key, ids, start=0, count=20, dtype=torch.float64)
    assert uniforms(key, ids, start=7, count=5, dtype=torch.float64).equal(whole[7:12])
    assert uniforms(key, ids[3:5], start=0, count=20, dtype=torch.float64).equal(whole[:, 3:5])
    assert uniforms(key, ids.view(2, 5), start=0, count=20, dtype=torch.float64).equal(whole.view(20, 2, 5))


def test_float32_is_float64_cut_short():
    key, ids = torch.tensor(1), torch.arange(1000)
    short = uniforms(key, ids, start=0, count=10, dtype=torch.float32)
    long = uniforms(key, ids, start=0, count=10, dtype=torch.float64)
    gap = long - short.double()
    assert (gap >= 0).all()
    assert (gap < 2**-24).all()


@every_seed
def test_uniforms_are_uniform_and_uncorrelated(seed):
    """100 bins, 10^6 numbers by chi-square; neighbours in time and in id uncorrelated. False alarms: 1e-6 each."""
    u = uniforms(torch.tensor(7 + seed), torch.arange(1000), start=0, count=1000, dtype=torch.float64)
    assert_frequencies(torch.histc(u, 100, 0, 1).tolist(), [0.01] * 100)
    for a, b in ((u[1:], u[:-1]), (u[:, 1:], u[:, :-1])):
        correlation = torch.corrcoef(torch.stack((a.flatten(), b.flatten())))[0, 1].item()
        assert abs(correlation) < mean_bound(1e-3)
    assert mean_power(0.01, 1e-3) > 0.999
    bent = u.pow(1.02)  # power: a density that is off by 2% at most over most of the range
    law = np.diff(np.linspace(0, 1, 101) ** (1 / 1.02))
    assert frequency_power([0.01] * 100, law, 10**6) > 1 - 1e-6
    assert frequency_p(torch.histc(bent, 100, 0, 1).tolist(), [0.01] * 100) < FALSE_ALARM


@every_seed
def test_normals_are_normal_and_finite(seed):
    """The first four moments of 10^6 numbers; false alarms 1e-6 each. A scale that is off by 1% is flagged."""
    for dtype in (torch.float32, torch.float64):
        z = normals(torch.tensor(7 + seed), torch.arange(1000), start=0, count=1000, dtype=dtype).double()
        assert z.isfinite().all()
        moments = [z.pow(p).mean().item() for p in (1, 2, 3, 4)]
        for got, want, spread in zip(moments, (0, 1, 0, 3), (1, 2, 15, 96), strict=True):
            assert abs(got - want) < mean_bound(math.sqrt(spread / 1e6))
        assert abs((1.01 * z).square().mean().item() - 1) > mean_bound(math.sqrt(2 / 1e6))


def test_different_keys_different_numbers(seeded):
    g, cpu = seeded(0), torch.device("cpu")
    keys = [stream_key(g, "noise", cpu), stream_key(g, "noise", cpu), stream_key(seeded(0), "action", cpu)]
    assert len({int(k) for k in keys}) == 3
    assert stream_key(seeded(0), "noise", cpu) == keys[0]
    draws = [uniforms(k, torch.arange(100), start=0, count=1, dtype=torch.float64) for k in keys]
    assert (draws[0] != draws[1]).all()
    assert (draws[0] != draws[2]).all()


@every_seed
def test_streams_are_independent_even_when_seeded_alike(seed, seeded):
    """A problem and its noise from generators of the same seed: uncorrelated features and noise. False alarms: 1e-6."""
    cpu, ids = torch.device("cpu"), torch.arange(1000)
    u, v = (
        uniforms(stream_key(seeded(5 + seed), s, cpu), ids, start=0, count=1000, dtype=torch.float64)
        for s in ("problem", "noise")
    )
    assert abs(torch.corrcoef(torch.stack((u.flatten(), v.flatten())))[0, 1]) < mean_bound(1e-3)


def test_mixed_seeds_differ_in_the_bits_that_torch_reads():
    seeds = {mixed_seed(a, b, c) & 0xFFFFFFFF for a in range(3) for b in range(3) for c in range(300)}
    assert len(seeds) == 2700


def test_derived_keys_differ_from_each_other_and_from_all_streams(seeded):
    cpu = torch.device("cpu")
    noise = stream_key(seeded(0), "noise", cpu)
    keys = [*(stream_key(seeded(0), stream, cpu) for stream in STREAMS), *(derived_key(noise, name) for name in DERIVED)]
    assert len({int(key) for key in keys}) == len(STREAMS) + len(DERIVED)
    assert derived_key(noise, "delay") == keys[-1]  # a function of the key alone, which is not changed
    assert noise == keys[STREAMS.index("noise")]


@every_seed
def test_derived_streams_are_independent_of_the_noise(seed, seeded):
    """Candidates, delays and noise of the same trajectories: uncorrelated. False alarms: 1e-6 over the three pairs."""
    noise = stream_key(seeded(5 + seed), "noise", torch.device("cpu"))
    keys = [noise, *(derived_key(noise, name) for name in DERIVED)]
    u = torch.stack([uniforms(key, torch.arange(1000), start=0, count=1000, dtype=torch.float64).flatten() for key in keys])
    correlations = torch.corrcoef(u)[[0, 0, 1], [1, 2, 2]]
    assert correlations.abs().max() < mean_bound(1e-3, comparisons=3)
