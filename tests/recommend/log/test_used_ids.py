"""The ids of a log, against a set."""

from hypothesis import given
from hypothesis import strategies as st

from torch_softucb.recommend.log.used_ids import UsedIds

IDS = st.lists(st.lists(st.integers(0, 60) | st.integers((1 << 34) - 5, (1 << 34) + 5), max_size=6), max_size=12)


@given(IDS, st.lists(st.integers(0, 60), max_size=4))
def test_it_is_a_set(calls, asked):
    used, model = UsedIds(), set()
    for ids in calls:
        used.add(ids)
        model.update(ids)
    assert {id for first, after in used.ranges for id in range(first, after)} == model
    assert used.ranges == sorted(used.ranges)
    assert all(a[1] <= b[0] for a, b in zip(used.ranges, used.ranges[1:], strict=False))
    assert [id in used for id in asked] == [id in model for id in asked]
    expected = next((id for at, id in enumerate(asked) if id in model or id in asked[:at]), None)
    assert used.first_used(asked) == expected
    assert UsedIds(used.ranges).ranges == used.ranges


def test_consecutive_ids_take_one_range_whatever_their_order():
    used = UsedIds()
    for start in (0, 64, 32, 96):  # threads
        used.add(list(range(start, start + 32)))
    assert used.ranges == [(0, 128)]
    assert used.first_used(list(range(128, 160))) is None
    assert used.first_used(list(range(127, 160))) == 127
    assert used.first_used([200, 201, 200]) == 200


def test_ids_of_two_replicas_never_share_a_range():
    used = UsedIds()
    used.add([(1 << 34) - 1])
    used.add([1 << 34])
    assert len(used.ranges) == 2


def test_memory_is_bounded_though_every_other_id_is_missing():
    used = UsedIds(limit=100)
    for id in range(0, 100_000, 2):
        used.add([id])
        assert len(used.ranges) <= 100
    assert 99_998 in used
    assert 99_997 not in used  # new gaps stay gaps
    assert 1 in used  # old ones do not
    assert all(id in used for id in range(0, 100_000, 2))
