"""Every policy of the exam plays a table."""

from experiments.exam.settings import AUTO, policies
from experiments.exam.study import play_set
from tests.experiments.exam.test_play import _data


def test_every_policy_plays():
    rows = play_set(_data(rows=40), "made up", policies(), 20, seeds=(0, 1))
    assert len(rows) == 2 * len(policies())
    assert {row["policy"] for row in rows} == set(policies())
    assert all(0 <= row["mistakes"] <= 20 and row["rounds"] == 20 for row in rows)
    assert rows[0]["policy"] == AUTO
