"""Figures are made without touching the caller's matplotlib."""

import subprocess
import sys
from pathlib import Path

from experiments.plots import new_figure, save_figure

ROOT = Path(__file__).parents[2]


def test_importing_the_experiments_leaves_the_backend_alone():
    script = (
        "import sys, matplotlib; matplotlib.use('svg');"
        "import experiments.paper.figures, experiments.worth.figures;"
        "assert 'matplotlib.pyplot' not in sys.modules; assert matplotlib.get_backend() == 'svg'"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_a_figure_is_saved_as_png_without_the_outer_spines(tmp_path):
    figure = new_figure(2, 1)
    ax = figure.subplots()
    save_figure(figure, tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    assert [name for name, spine in ax.spines.items() if spine.get_visible()] == ["left", "bottom"]
