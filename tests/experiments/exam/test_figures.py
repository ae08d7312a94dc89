"""The exam's figure."""

from experiments.exam.figures import exam_figure
from tests.experiments.exam.test_report import _rows


def test_the_figure_is_written(tmp_path):
    exam_figure(_rows(), tmp_path / "exam.png")
    assert (tmp_path / "exam.png").read_bytes().startswith(b"\x89PNG")
