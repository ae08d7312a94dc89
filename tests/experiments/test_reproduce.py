import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def _run(out, *arguments, data=True):
    env = dict(os.environ)
    if not data:
        env.pop("SOFTUCB_DATA", None)
    command = [sys.executable, str(ROOT / "scripts" / "reproduce.py"), *arguments, "--out", str(out)]
    return subprocess.run(command, capture_output=True, text=True, env=env)


@pytest.mark.long
def test_everything_runs_and_repeats_itself(tmp_path):
    """The quick version, with real data where it is; twice, and every table is the same to the last digit."""
    for folder in ("one", "two"):
        done = _run(tmp_path / folder, "all", "--quick")
        assert done.returncode == 0, done.stderr
    one, two = tmp_path / "one", tmp_path / "two"
    tables = sorted(path.name for path in one.glob("*.csv"))
    assert {"table1.csv", "figure1.csv", "figure2.csv", "appendix_f.csv", "beta_curve.csv", "eta.csv", "cost.csv"} <= set(
        tables
    )
    for name in tables:
        assert (one / name).read_text() == (two / name).read_text()
    report = (one / "REPORT.md").read_text()
    pictures = [line.split("(")[1].split(")")[0] for line in report.splitlines() if line.startswith("![")]
    assert len(pictures) == 6
    assert all((one / name).stat().st_size > 10_000 for name in pictures)
    assert ("Jester" in report) == ("SOFTUCB_DATA" in os.environ)


def test_without_data_it_says_what_it_leaves_out(tmp_path):
    done = _run(tmp_path, "figure1", "--quick", data=False)
    assert done.returncode == 0
    assert "MovieLens and Jester are left out" in done.stdout


def test_a_report_without_tables_says_what_is_missing(tmp_path):
    done = _run(tmp_path, "report")
    assert done.returncode == 1
    assert "table1.csv is not there; run the part that makes it" in done.stderr
