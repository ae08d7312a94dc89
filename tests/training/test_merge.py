"""MergeStatistics: a head inside a LightningModule learns in several processes what it learns in one."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.training.lightning_head import REQUESTS, STEPS
from torch_softucb import SoftUCBPolicy
from torch_softucb.training import MergeStatistics

SCRIPT = Path(__file__).with_name("lightning_head.py")


def _run(folder, processes):
    done = subprocess.run([sys.executable, SCRIPT, folder, str(processes)], capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    return [torch.load(folder / f"{processes}_{rank}.pt", weights_only=True) for rank in range(processes)]


@pytest.mark.long
def test_2_and_4_processes_learn_what_one_learns(tmp_path):
    (one,) = _run(tmp_path, 1)
    layout = SoftUCBPolicy(3).layout
    want = layout.unpack(one["policy.statistics"])
    assert one["policy.raw_beta"] != 1.0
    for processes in (2, 4):
        ranks = _run(tmp_path, processes)
        for name in ("policy.statistics", "parts.head.policy.statistics", "policy.raw_beta"):
            assert all(torch.equal(rank[name], ranks[0][name]) for rank in ranks), name  # bit for bit
        got = layout.unpack(ranks[0]["policy.statistics"])
        assert got.num_observations == want.num_observations == STEPS * REQUESTS
        assert layout.unpack(ranks[0]["parts.head.policy.statistics"]).num_observations == STEPS * REQUESTS
        torch.testing.assert_close(got.V, want.V, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(got.b, want.b, rtol=1e-12, atol=1e-12)
        assert abs(ranks[0]["policy.raw_beta"] - one["policy.raw_beta"]) < 1e-6


def test_bad_interval():
    with pytest.raises(ValueError, match="MergeStatistics: every_n_batches must be at least 1, got 0"):
        MergeStatistics(0)
