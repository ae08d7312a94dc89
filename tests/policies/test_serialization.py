"""A policy as a file: the same decisions after loading, no code in it, errors that name the file."""

import pytest
import torch
from safetensors.torch import save_file

from torch_softucb import LinUCB, SoftUCBPolicy
from torch_softucb.policies.serialization import load_policy, save_policy


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("batch_shape", [(), (3,)])
def test_a_loaded_policy_decides_the_same(dtype, batch_shape, tmp_path, seeded):
    beta = 0.3 if not batch_shape else torch.tensor([0.1, 0.2, 0.3])
    kind = {"delta": 0.9, "ridge_alpha": 0.7, "coldness": "smooth", "smoothing": 0.2}
    policy = SoftUCBPolicy(4, beta_init=beta, dtype=dtype, **kind)
    policy.reset(batch_shape=batch_shape)
    g = seeded(0)
    policy.update(
        torch.randn(*batch_shape, 6, 4, dtype=dtype, generator=g), torch.randn(*batch_shape, 6, dtype=dtype, generator=g)
    )
    save_policy(tmp_path / "a.safetensors", policy)
    save_policy(tmp_path / "a.safetensors", policy, notes={"horizon": 5})  # over the old one
    again = load_policy(tmp_path / "a.safetensors")
    arms = torch.randn(5, 4, dtype=dtype, generator=g)
    assert again(arms).probs.equal(policy(arms).probs)
    assert str(again) == str(policy)
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]


def test_what_is_no_policy_is_named(tmp_path):
    (tmp_path / "text").write_text("no policy")
    torch.save(SoftUCBPolicy(2).state_dict(), tmp_path / "pickle.pt")
    save_file({"beta": torch.ones(())}, tmp_path / "other")
    for name in ("text", "pickle.pt", "nothing"):
        with pytest.raises(ValueError, match=f"{name}: cannot be read"):
            load_policy(tmp_path / name)
    with pytest.raises(ValueError, match=r"is not one of a SoftUCBPolicy: delta, .*, statistics is not in it"):
        load_policy(tmp_path / "other")
    with pytest.raises(TypeError, match="policy must be a SoftUCBPolicy, got LinUCB"):
        save_policy(tmp_path / "lin", LinUCB(2))
