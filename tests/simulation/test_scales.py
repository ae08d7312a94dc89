"""When the scales of a simulation are estimated, and their rows."""

import torch

from torch_softucb.policies.scales import fresh_memory as fresh
from torch_softucb.policies.scales import next_due, unpack_memory
from torch_softucb.simulation.scales import NUM_SCALES, Schedule, fresh_scales, noise_unit


def test_the_schedule_is_the_one_of_the_policy():
    for discount in (1.0, 0.97):
        count, weight, due, times = 0, 0.0, 1.0, []
        while count < 3000:
            count, weight = count + 1, discount * weight + 1
            if count >= due:
                times.append(count)
                due = float(next_due(torch.tensor(float(count)), torch.tensor(weight, dtype=torch.double)))
        schedule = Schedule(discount)
        assert [t for t in range(3001) if schedule.due(t)] == times
        assert [t for t in reversed(range(3001)) if schedule.due(t)] == times[::-1]


def test_fresh_scales_are_those_of_a_fresh_policy():
    scales, memory = fresh_scales((3,), torch.device("cpu")), unpack_memory(fresh(4))
    assert scales.shape == (NUM_SCALES, 3)
    own = (memory.anchor, memory.offset, memory.noise_std, memory.rho, *memory.summary)
    assert scales[:, 0].tolist() == [float(value) for value in own]
    assert noise_unit(scales).tolist() == [1.0, 1.0, 1.0]
