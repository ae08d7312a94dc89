import json

import pytest

from benchmarks.__main__ import main
from benchmarks.scaling import exponent


@pytest.mark.long
def test_every_part_runs_and_leaves_its_figures(tmp_path, capsys):
    none = str(tmp_path / "none")
    main(["--quick", "--repeats", "1", "--batch", "32", "--limit", none, "--peers", none, "--out", str(tmp_path)])
    result = json.loads((tmp_path / "bench.json").read_text())
    assert {"rollout", "decision", "recommend", "scaling", "threads"} <= set(result)
    assert (tmp_path / "scaling.png").stat().st_size > 10_000
    said = capsys.readouterr().out
    assert "No ratio to C" in said
    assert "No ratio to JAX" in said
    assert "A trajectory-round" in said


def test_exponent_is_that_of_a_power_law():
    assert exponent([1, 2, 4, 8], [3.0, 6.0, 12.0, 24.0]) == pytest.approx(1.0)
    assert exponent([10, 20, 40], [5.0, 20.0, 80.0]) == pytest.approx(2.0)
