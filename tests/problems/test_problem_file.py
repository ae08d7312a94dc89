"""Problems from files: both formats give the same problem, and every fault names the file."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from torch_softucb.checked_files import save_tensors
from torch_softucb.errors import DataError
from torch_softucb.problems import load_problem

RNG = np.random.default_rng(0)
ARMS, MEANS = RNG.normal(size=(5, 4, 3)), RNG.normal(size=(5, 4))
MASK = MEANS.max(-1, keepdims=True) > MEANS


def _tensors(**arrays):
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}


def test_all_formats_hold_the_same_problem(tmp_path):
    arrays = {"arms": ARMS, "means": MEANS, "mask": MASK}
    np.savez(tmp_path / "a.npz", **arrays)
    save_file(_tensors(**arrays), tmp_path / "b.safetensors")
    save_file(_tensors(**arrays), tmp_path / "c.safetensors", metadata={"made": "elsewhere"})
    save_tensors(tmp_path / "d.safetensors", _tensors(**arrays), {})
    for name in ("a.npz", "b.safetensors", "c.safetensors", "d.safetensors"):
        problem = load_problem(tmp_path / name, noise_std=0.3)
        assert problem.arms.dtype == torch.float32
        assert np.array_equal(problem.arms.numpy(), ARMS.astype(np.float32))
        assert np.array_equal(problem.means.numpy(), MEANS.astype(np.float32))
        assert np.array_equal(problem.mask.numpy(), MASK)
        assert problem.noise_std == 0.3


@pytest.mark.parametrize(("arms", "means", "batch"), [(ARMS[0], MEANS[0], ()), (ARMS[0], MEANS, (5,)), (ARMS, MEANS, (5,))])
def test_arms_and_means_may_be_shared(arms, means, batch, tmp_path):
    np.savez(tmp_path / "a.npz", arms=arms, means=means)
    problem = load_problem(str(tmp_path / "a.npz"), noise_std=0.0)
    assert problem.batch_shape == batch
    assert (problem.num_arms, problem.dim) == (4, 3)


def test_whole_numbers_are_numbers(tmp_path):
    np.savez(tmp_path / "a.npz", arms=np.eye(2, dtype=np.int32), means=np.array([0, 1], dtype=np.uint64))
    assert load_problem(tmp_path / "a.npz", noise_std=1.0).best_mean == 1.0


def _faulty(**changes):
    return {"arms": ARMS, "means": MEANS} | changes


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({"arms": ARMS}, "must have the arrays arms and means, and optionally mask, got arms; use numpy.savez"),
        (_faulty(theta=MEANS), "got arms, means, theta"),
        ({}, "got none"),
        (_faulty(means=MEANS[:, :2]), "arms"),
        (_faulty(means=np.where(MASK, MEANS, np.nan)), "means"),
        (_faulty(arms=np.full_like(ARMS, np.inf)), "arms"),
        (_faulty(mask=np.zeros_like(MASK)), "mask"),
        (_faulty(mask=MEANS), "mask"),
    ],
)
def test_arrays_of_no_problem(arrays, match, tmp_path):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=rf"load_problem: .*a\.npz.*{match}"):
        load_problem(tmp_path / "a.npz", noise_std=0.3)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.npz cannot be read \(.*No such file.*check the path"):
        load_problem(tmp_path / "nowhere.npz", noise_std=0.3)
    with pytest.raises(DataError, match=r"nowhere\.safetensors cannot be read \(.*No such file"):
        load_problem(tmp_path / "nowhere.safetensors", noise_std=0.3)
    with pytest.raises(DataError, match=r"path must end in .npz or .safetensors, got .*a\.pkl"):
        load_problem(tmp_path / "a.pkl", noise_std=0.3)
    save_tensors(tmp_path / "a.safetensors", _tensors(arms=ARMS, means=MEANS), {})
    whole = bytearray((tmp_path / "a.safetensors").read_bytes())
    whole[-1] ^= 1
    (tmp_path / "a.safetensors").write_bytes(whole)
    with pytest.raises(DataError, match="sha256 does not match"):
        load_problem(tmp_path / "a.safetensors", noise_std=0.3)
    np.savez(tmp_path / "a.npz", arms=ARMS, means=MEANS)
    with pytest.raises(DataError, match=r"a\.npz: BanditProblem: noise_std"):
        load_problem(tmp_path / "a.npz", noise_std=-1.0)
