"""The script that writes large logs: its log can be learned from, in one pass and in memory."""

import importlib.util
from pathlib import Path

import pytest
import torch

from torch_softucb.from_logs import fit_posterior, summarise_log
from torch_softucb.recommend import read_decisions


@pytest.fixture
def folder(tmp_path, capsys):
    path = Path(__file__).parents[2] / "scripts" / "make_big_log.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    arguments = ["--decisions", "3000", "--files", "2", "--group", "700", "--items", "40", "--candidates", "5"]
    found = script.main([str(tmp_path / "big"), *arguments])
    assert "3000 decisions" in capsys.readouterr().out
    return found


def test_the_log_is_what_it_claims(folder):
    log = read_decisions(folder / "0000.parquet")
    assert log.candidates.shape == (1500, 5)
    assert (log.candidates.sort(-1).values.diff(dim=-1) > 0).all()  # no item twice
    assert (1 / log.propensity).mean().item() == pytest.approx(5, abs=0.3)  # E[1 / p] = K under the propensities
    summary = summarise_log(folder, sample=500)
    assert summary.decisions == 3000
    assert len(summary.items.ids) == 40
    posterior = fit_posterior(summary)
    assert float(posterior.theta.noise_std) == pytest.approx(0.5, abs=0.03)
    assert posterior.offered.known
    assert not torch.equal(posterior.offered.rows[0], posterior.offered.rows[1])
