"""Workers killed at random under torchrun: the run ends as if nothing had happened."""

import pytest

from experiments.trust.restarts import restarts


@pytest.mark.long
def test_a_run_whose_workers_are_killed_ends_bit_identical():
    measured = restarts(4, 0)
    assert measured["kills"] == 4
    assert measured["identical"]
    assert measured["longest_wait"] < 60  # 30 s on an idle machine; this one may be busy with other tests
