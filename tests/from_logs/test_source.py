"""A log in memory and the same log in files give the same numbers."""

import pytest
import torch

from tests.from_logs.cases import random_log
from tests.from_logs.test_summary import write
from torch_softucb.from_logs.source import log_data


@pytest.mark.parametrize("per_user", [True, False])
def test_memory_and_files_agree(per_user, tmp_path, seeded):
    log, _ = random_log(200, 5, 3, seeded, bandits=3)
    write(log, tmp_path / "log")
    memory, files = (log_data(each, per_user=per_user, engine="local", seed=0) for each in (log, tmp_path / "log"))
    pairs = ((memory.summary(), files.summary()), *zip(memory.summaries(0.25), files.summaries(0.25), strict=True))
    for one, two in pairs:
        assert one.names.tolist() == two.names.tolist() == ([0, 1, 2] if per_user else [-1])
        assert one.decisions == two.decisions
        torch.testing.assert_close(one.sums.gram, two.sums.gram, rtol=0, atol=1e-10)


def test_shares_are_checked(tmp_path, seeded):
    log, _ = random_log(20, 5, 3, seeded)
    write(log, tmp_path / "log")
    for each in (log, tmp_path / "log"):
        with pytest.raises(ValueError, match="engine must be one of 'local', 'ray', got 'spark'"):
            log_data(each, per_user=True, engine="spark", seed=0)
        with pytest.raises(ValueError, match=r"share must be in \(0, 1\)"):
            log_data(each, per_user=True, engine="local", seed=0).summaries(1.0)
