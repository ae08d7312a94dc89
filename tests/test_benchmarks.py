"""The benchmarks run at small sizes; ratios and exponents, worked out by hand."""

import json

import pytest

from benchmarks.__main__ import main
from benchmarks.measure import Limit, interleaved, ratio
from benchmarks.scaling import exponent


@pytest.mark.long
def test_every_part_runs_and_leaves_its_figures(tmp_path, capsys):
    none = str(tmp_path / "none")
    main(["--quick", "--repeats", "1", "--batch", "32", "--limit", none, "--peers", none, "--out", str(tmp_path)])
    result = json.loads((tmp_path / "bench.json").read_text())
    assert {"rollout", "prior", "decision", "recommend", "scaling", "threads"} <= set(result)
    assert (tmp_path / "scaling.png").stat().st_size > 10_000
    said = capsys.readouterr().out
    assert "No ratio to C" in said
    assert "No ratio to JAX" in said
    assert "A trajectory-round" in said


def test_exponent_is_that_of_a_power_law():
    assert exponent([1, 2, 4, 8], [3.0, 6.0, 12.0, 24.0]) == pytest.approx(1.0)
    assert exponent([10, 20, 40], [5.0, 20.0, 80.0]) == pytest.approx(2.0)


def test_jobs_are_interleaved_after_a_warm_up_and_missing_ones_are_left_out():
    calls = []
    jobs = {name: lambda name=name: calls.append(name) or float(len(calls)) for name in ("one", "two")}
    times = interleaved({**jobs, "none": lambda: None}, 2, "title")
    assert calls == ["one", "two"] * 3
    assert times == {"one": [3.0, 5.0], "two": [4.0, 6.0]}


def test_ratio_is_the_median_over_the_repeats():
    times = {"slow": [2.0, 9.0, 8.0], "fast": [1.0, 1.0, 2.0]}
    assert ratio(times, "slow", "fast") == 4.0  # of 2, 9, 4
    assert ratio(times, "slow", "none") is None


def test_without_a_c_program_there_is_no_limit(tmp_path):
    for source in (None, tmp_path / "none.c"):
        assert Limit(source, tmp_path)() is None
