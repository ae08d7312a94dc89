"""Plot and TensorBoard runs of the comparison."""

import torch

from experiments.recommender.show import draw, write_runs

RESULTS = {"greedy": (torch.ones(3, 4), None), "greedy, prior": (torch.full((3, 4), 0.5), 0.1)}


def test_panels_are_drawn(tmp_path):
    draw({"one": RESULTS, "two": RESULTS}, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000


def test_each_policy_is_a_run_with_the_same_tag(tmp_path):
    written = {}

    class Writer:
        def __init__(self, folder):
            self.values = written[folder.rsplit("/", 1)[1]] = []

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def add_scalar(self, tag, value, step):
            self.values.append((tag, value, step))

    write_runs(RESULTS, tmp_path, Writer)
    assert [*written] == ["greedy", "greedy_prior"]
    assert written["greedy_prior"] == [("recommend/regret", 0.5 * (t + 1), t) for t in range(3)]
