"""A table as a bandit: mistakes by a plain loop, units, and what is learned."""

import torch

from experiments.exam.play import alone, mistakes, orders
from experiments.exam.settings import UNITS
from torch_softucb import AutoSoftUCB, DisjointArms, LinUCB
from torch_softucb.problems.classification import ClassificationData

D = torch.double


def _data(rows=300, classes=3, dim=4):
    g = torch.Generator().manual_seed(0)
    contexts = torch.randn(rows, dim, dtype=D, generator=g)
    label = (contexts @ torch.randn(dim, classes, dtype=D, generator=g)).argmax(-1)
    return ClassificationData(contexts, label, tuple("abc"[:classes]))


def test_mistakes_by_a_plain_loop():
    data = _data(rows=40)
    order = orders(40, 30, (5,))
    assert order.shape == (1, 30)
    assert len(order[0].unique()) == 30
    got = mistakes(LinUCB(4, beta=0.3, dtype=D), data, order, UNITS[0])
    arms, g, wrong = DisjointArms(LinUCB(4, beta=0.3, dtype=D), num_arms=3), torch.Generator().manual_seed(0), 0
    for row in order[0]:
        arm = arms(data.contexts[row]).pick(torch.rand((), dtype=D, generator=g))
        wrong += int(arm != data.label[row])
        arms.update(data.contexts[row], arm, (arm == data.label[row]).double())
    assert got.tolist() == [wrong]


def test_one_bandit_alone_makes_the_mistakes_of_a_batch_of_one():
    data = _data(rows=80)
    order = orders(80, 70, (5,))
    for make in (lambda: LinUCB(4, beta=0.3, dtype=D), lambda: AutoSoftUCB(4, dtype=D)):
        assert alone(make(), data, order[0]) == mistakes(make(), data, order, UNITS[0]).item()


def test_auto_makes_the_same_mistakes_in_every_unit_and_learns():
    data = _data()
    order = orders(300, 250, (0, 1))
    counts = [mistakes(AutoSoftUCB(4, dtype=D), data, order, unit).tolist() for unit in UNITS]
    assert all(count == counts[0] for count in counts)
    assert max(counts[0]) < 110  # chance: 167
