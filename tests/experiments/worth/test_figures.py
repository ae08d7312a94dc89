"""The worth figure marks each learned beta."""

from experiments.worth import figures
from experiments.worth.study import BASELINES, BEST_FIXED


def _rows():
    policies = {BEST_FIXED: 0.5, "LinUCB": 0.5, "LinTS": 0.2, "SoftUCB, trajectory": 0.6, "SoftUCB, pretrained": ""}
    return [{"setting": "S", "policy": name, "value": value, "regret": 5.0} for name, value in policies.items()]


def test_learned_leaves_out_what_was_tuned():
    assert [row["policy"] for row in figures.learned(_rows())] == ["SoftUCB, trajectory", "SoftUCB, pretrained"]


def test_a_learned_number_is_a_marker_and_a_learned_module_a_line(monkeypatch, tmp_path):
    kept = []
    monkeypatch.setattr(figures, "save_figure", lambda figure, out: kept.append(figure))
    curves = [
        {"setting": "S", "policy": name, "value": value, "regret": 5.0}
        for name in (BEST_FIXED, *BASELINES)
        for value in (0.1, 1.0)
    ]
    figures.worth_figure(_rows(), curves, tmp_path / "x.png")
    shown, hidden = kept[0].axes
    marker, line = shown.lines[3:]
    assert (marker.get_marker(), list(marker.get_xdata())) == ("*", [0.6])
    assert (line.get_linestyle(), line.get_label()) == ("--", "pretrained  5")
    assert not hidden.get_visible()
