"""Vowpal Wabbit's part, with a stand-in for the library: a learner that counts which class was right."""

import sys
import types

import numpy as np

from experiments.exam import vowpal


class _Workspace:
    """Greedy on the costs seen so far, whatever the features."""

    def __init__(self, arguments):
        self.classes = int(arguments.split()[1])
        self.costs = np.zeros(self.classes)

    def predict(self, example):
        assert example.startswith("| ")
        probs = np.zeros(self.classes)
        probs[self.costs.argmin()] = 1
        return probs.tolist()

    def learn(self, example):
        arm, cost, prob = example.split(" | ")[0].split(":")
        assert float(prob) == 1.0
        self.costs[int(arm) - 1] += float(cost)

    def finish(self):
        self.costs = None


def test_mistakes_of_a_learner_that_tries_until_it_is_right(monkeypatch):
    monkeypatch.setitem(sys.modules, "vowpalwabbit", types.SimpleNamespace(Workspace=_Workspace))
    contexts, label = np.eye(4), np.array([2, 2, 2, 2])
    assert vowpal.mistakes("greedy", contexts, label, 3, np.arange(4), 0) == 2  # classes 0 and 1 first


def test_every_option_prints_a_line(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "vowpalwabbit", types.SimpleNamespace(Workspace=_Workspace))
    path = tmp_path / "shuffles.npz"
    np.savez(path, contexts=np.eye(4), label=np.zeros(4, dtype=int), classes=3, orders=np.array([[0, 1], [2, 3]]))
    vowpal.main(str(path))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(vowpal.OPTIONS)
    assert all('"mistakes": [0, 0]' in line for line in lines)
