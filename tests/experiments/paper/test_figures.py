"""Figures of the paper's studies show the rows they are given."""

import pytest

from experiments.paper import figures


@pytest.fixture
def drawn(monkeypatch):
    """Figures in the order in which they would have been saved."""
    kept = []
    monkeypatch.setattr(figures, "save_figure", lambda figure, out: kept.append(figure))
    return kept


def _points(line):
    return [(float(x), float(y)) for x, y in zip(*line.get_data(), strict=True)]


def test_learning_curves_have_a_panel_per_column(drawn, tmp_path):
    rows = [{"d": d, "T": 8, "trajectories": t, "beta": d + t, "regret": 0.0} for d in (2, 3) for t in (0, 4)]
    figures.learning_curves(rows, tmp_path / "x.png")
    (figure,) = drawn
    assert [ax.get_title() for ax in figure.axes] == ["d = 2, T = 8", "d = 3, T = 8"]
    assert _points(figure.axes[1].lines[0]) == [(0.0, 3.0), (4.0, 7.0)]


def test_figure_1_has_beta_and_regret_of_both_algorithms(drawn, tmp_path):
    rows = [
        {"algorithm": name, "at": at, "beta": 1.0, "beta_low": 0.5, "beta_high": 2.0, "regret": 10.0 * at}
        for name in ("offline", "online")
        for at in (1, 2)
    ]
    figures.figure_1(rows, tmp_path / "x.png")
    titles = [ax.get_title() for ax in drawn[0].axes]
    assert titles == ["beta (offline)", "regret (offline)", "beta (online), mean and 10% to 90%", "regret (online)"]
    assert _points(drawn[0].axes[3].lines[0]) == [(1.0, 10.0), (2.0, 20.0)]


def test_figure_2_names_policies_by_their_final_regret(drawn, tmp_path):
    rows = [
        {"panel": "P", "variant": "paper", "policy": policy, "t": t, "regret": factor * t, "band": 0.1}
        for policy, factor in (("LinUCB", 7.0), ("SoftUCB offline", 2.0))
        for t in (1, 2)
    ]
    figures.figure_2([*rows, {**rows[0], "panel": "Q"}], "paper", tmp_path / "x.png")
    labels = [text.get_text() for text in drawn[0].axes[0].get_legend().get_texts()]
    assert labels == ["SoftUCB offline  4", "LinUCB  14"]


def test_eta_0_is_drawn_at_the_left_edge(drawn, tmp_path):
    rows = [{"panel": "P", "eta": eta, "beta": 0.5, "regret": 3.0} for eta in (0.0, 0.01)]
    figures.eta_sensitivity(rows, tmp_path / "x.png")
    assert _points(drawn[0].axes[0].lines[0])[0] == (1e-4, 0.5)


def test_the_learned_beta_has_a_star(drawn, tmp_path):
    rows = [
        {"panel": "P", "policy": policy, "beta": 0.5, "learned": learned, "regret": 3.0, "error": 0.1}
        for policy, learned in (("SoftUCB, fixed beta", False), ("LinUCB", False), ("SoftUCB, fixed beta", True))
    ]
    figures.beta_curve([*rows, *({**row, "panel": "Q"} for row in rows)], tmp_path / "x.png")
    (star,) = [line for line in drawn[0].axes[0].lines if line.get_marker() == "*"]
    assert _points(star) == [(0.5, 3.0)]
