"""Records as bytes: the format stays readable, and what goes in comes out."""

import hashlib

import numpy as np
import pytest
import torch

from torch_softucb.recommend import JournalError, Served
from torch_softucb.recommend.log.codec import SCALAR_COLUMNS, Entry, decode, encode_columns, encode_decisions, encode_rewards

SLATES = Entry(
    Served(
        id=torch.tensor([[7, 8], [9, 10]]),
        arm=torch.tensor([[2, 0], [1, 2]]),
        propensity=torch.tensor([[0.5, 0.25], [1.0, 0.125]]),
        x=torch.arange(8.0).view(2, 2, 2),
        beta=torch.tensor(0.5),
        bandit=torch.tensor([3, 4]),
        mask=None,
        k=2,
        num_arms=3,
    ),
    version=6,
    context=torch.tensor([100, 101]),
    candidates=torch.tensor([40, -1, 42]),
    features=torch.arange(12.0).view(2, 3, 2),
)
SINGLE = Entry(
    Served(
        id=torch.tensor([5]),
        arm=torch.tensor([1]),
        propensity=torch.tensor([0.5], dtype=torch.double),
        x=torch.tensor([[1.0, 2.0]], dtype=torch.double),
        beta=None,
        bandit=None,
        mask=None,
        k=None,
        num_arms=3,
    ),
    version=0,
    context=None,
    candidates=None,
    features=None,
)


def test_the_bytes_are_those_of_the_first_release():
    """Recorded once. If this fails, logs that exist cannot be read: give the new format another first byte."""
    assert encode_decisions([SINGLE]).hex() == (
        "44"  # D
        "0000000000000000" "0100000000000000" "0000000000000000" "0200000000000000" "38"  # version, rows, K, d, float64
        "0500000000000000" "ffffffffffffffff" "ffffffffffffffff" "0100000000000000" "0000000000000000"  # id .. position
        "000000000000e03f" "000000000000f87f"  # propensity, beta
        "000000000000f03f" "0000000000000040"  # x
    )  # fmt: skip
    slates = encode_decisions([SLATES, SLATES])
    assert len(slates) == 930
    assert hashlib.sha256(slates).hexdigest() == "6ab875829d250de86a8db9bb17273b4801e60f5ef7fd7a0638c61445813c3ef2"
    assert encode_rewards(torch.tensor([5, 7]), torch.tensor([1.0, torch.nan])).hex() == (
        "52" "0200000000000000" "0500000000000000" "0700000000000000" "000000000000f03f" "000000000000f87f"
    )  # fmt: skip


def test_decisions_come_back_with_values_of_a_request_repeated_for_its_items():
    record_type, columns = decode(encode_decisions([SLATES, SLATES]))
    assert record_type == "decisions"
    assert columns["id"].tolist() == [7, 8, 9, 10] * 2
    assert columns["bandit"].tolist() == [3, 3, 4, 4] * 2
    assert columns["context"].tolist() == [100, 100, 101, 101] * 2
    assert columns["arm"].tolist() == [2, 0, 1, 2] * 2
    assert columns["position"].tolist() == [0, 1] * 4
    assert columns["propensity"].tolist() == [0.5, 0.25, 1.0, 0.125] * 2
    assert columns["beta"].tolist() == [0.5] * 8
    assert columns["version"].tolist() == [6] * 8
    assert columns["x"].dtype == np.float32
    assert columns["x"][:4].tolist() == SLATES.served.x.view(4, 2).tolist()
    assert columns["candidates"].tolist() == [[40, -1, 42]] * 8
    assert columns["features"].shape == (8, 3, 2)
    assert columns["features"][3].tolist() == SLATES.features[1].tolist()


def test_absent_values_have_their_marks():
    _, columns = decode(encode_decisions([SINGLE]))
    assert (columns["bandit"].item(), columns["context"].item()) == (-1, -1)
    assert np.isnan(columns["beta"].item())
    assert columns["x"].dtype == np.float64
    assert (columns["candidates"].shape, columns["features"].shape) == ((1, 0), (1, 0, 2))
    assert list(columns) == [*SCALAR_COLUMNS, "version", "x", "candidates", "features"]


def test_rewards_come_back_flat():
    record_type, columns = decode(encode_rewards(torch.tensor([[1, 2], [3, 4]]), torch.tensor([[0.5, -1.0], [2.0, 3.0]])))
    assert record_type == "rewards"
    assert columns["id"].tolist() == [1, 2, 3, 4]
    assert columns["reward"].tolist() == [0.5, -1.0, 2.0, 3.0]


def test_only_entries_of_one_layout_share_a_record():
    assert SLATES.layout == SLATES._replace(context=torch.tensor([1, 2])).layout
    changes = [{"version": 7}, {"context": None}, {"candidates": None}, {"features": None}]
    changes += [{"served": SLATES.served._replace(bandit=None)}, {"served": SLATES.served._replace(beta=None)}]
    for change in changes:
        assert SLATES._replace(**change).layout != SLATES.layout


@pytest.mark.parametrize("record", [encode_decisions([SINGLE]), encode_rewards(torch.tensor([5]), torch.tensor([1.0]))])
def test_a_record_that_is_longer_or_shorter_than_it_declares_is_refused(record):
    decode(record)
    for wrong in (record + b"\0", record[:-1]):
        with pytest.raises(JournalError, match=f"a record of {len(wrong)} bytes does not have the contents"):
            decode(wrong)


def test_a_record_of_no_rows_is_only_its_header():
    no_rows = {name: values[:0] for name, values in decode(encode_decisions([SINGLE]))[1].items()}
    record_type, columns = decode(encode_columns("decisions", no_rows))
    assert record_type == "decisions"
    assert columns["x"].shape == (0, 2)
    record_type, columns = decode(encode_rewards(torch.zeros(0, dtype=torch.int64), torch.zeros(0)))
    assert (record_type, len(columns["id"])) == ("rewards", 0)


def test_features_that_require_a_gradient_are_written_as_numbers():
    served = SINGLE.served._replace(x=SINGLE.served.x.clone().requires_grad_())
    assert encode_decisions([SINGLE._replace(served=served)]) == encode_decisions([SINGLE])
    reward = torch.tensor([1.5], requires_grad=True)
    assert encode_rewards(torch.tensor([5]), reward) == encode_rewards(torch.tensor([5]), reward.detach())
