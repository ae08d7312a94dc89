"""A policy as a file: decisions and updates equal bit by bit, no code in it, errors that name the file."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from tests.policies.cases import ALL, build, play, random_numbers
from torch_softucb import (
    EXP3,
    LinTS,
    LinUCB,
    ScheduleBeta,
    SegmentBeta,
    SituationBeta,
    SoftElim,
    SoftUCBPolicy,
    load_policy,
    save_policy,
)
from torch_softucb.checked_files import save_tensors

DIM, K = 4, 6
FIELDS = ("probs", "index", "mu_hat", "width", "beta", "gamma", "next_gamma", "situation")


def assert_same(a, b):
    for field in FIELDS:
        one, other = getattr(a, field), getattr(b, field)
        assert (one is None) == (other is None)
        assert one is None or one.equal(other)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_saved_policy_goes_on_bit_by_bit(name, batch, dtype, tmp_path):
    policy = build(name, DIM, ridge_alpha=0.3, refresh_every=7, dtype=dtype, batch=batch)
    arms = torch.randn(K, DIM, dtype=dtype)
    play(policy, arms, rounds=9)
    save_policy(tmp_path / "policy", policy)
    state = torch.get_rng_state()
    again = load_policy(tmp_path / "policy")
    assert torch.get_rng_state().equal(state)
    assert type(again) is type(policy)
    assert (repr(again), again.settings) == (repr(policy), policy.settings)
    for _ in range(2):  # the second time after further updates
        for field, value in policy.state_dict().items():
            assert again.state_dict()[field].numpy().tobytes() == value.numpy().tobytes()
        for context in (torch.no_grad(), torch.enable_grad()):
            with context:
                assert_same(again(arms), policy(arms))
        z = random_numbers(policy)
        assert again(arms).pick(z).equal(policy(arms).pick(z))
        for one in (policy, again):
            play(one, arms, seed=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("batch_shape", [(), (3,)])
def test_a_loaded_policy_decides_the_same(dtype, batch_shape, tmp_path, seeded):
    beta = 0.3 if not batch_shape else torch.tensor([0.1, 0.2, 0.3])
    settings = {"delta": 0.9, "ridge_alpha": 0.7, "coldness": "smooth", "smoothing": 0.2}
    policy = SoftUCBPolicy(4, beta_init=beta, dtype=dtype, **settings)
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
    with safe_open(tmp_path / "a.safetensors", framework="pt") as file:
        assert json.loads(file.metadata()["notes"]) == {"horizon": "5"}


def test_raw_parameters_and_frozen_settings_come_back(tmp_path):
    """What an optimiser left below 0, a beta whose batch was not reset yet, a delta that another dtype owns."""
    policy = SoftUCBPolicy(2, beta_init=torch.ones(3), learn_delta=True, differentiate_gamma=True, dtype=torch.double)
    with torch.no_grad():
        policy.raw_beta[1] = -0.5
    policy.raw_delta = torch.nn.Parameter(torch.tensor(1.25))  # float32
    save_policy(tmp_path / "a", policy)
    again = load_policy(tmp_path / "a")
    assert again.raw_beta.tolist() == [1.0, -0.5, 1.0]
    assert again.raw_delta.dtype == torch.float32
    assert again.delta == policy.delta
    assert again.differentiate_gamma
    assert again.raw_beta.requires_grad
    rate = SoftElim(2)
    with torch.no_grad():
        rate.raw_rate.fill_(-1.0)
    save_policy(tmp_path / "b", rate)
    assert load_policy(tmp_path / "b").raw_rate == -1.0


def test_it_needs_neither_lightning_nor_matplotlib(tmp_path):
    save_policy(tmp_path / "policy", build("soft_ucb_pretrained", 3))
    script = (
        "import sys, torch_softucb; policy = torch_softucb.load_policy(sys.argv[1]); "
        "torch_softucb.save_policy(sys.argv[1], policy); "
        "print(type(policy).__name__, *[m for m in ('lightning', 'matplotlib', 'pandas') if m in sys.modules])"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "policy")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert done.stdout.strip() == "SoftUCBPolicy"


def test_what_is_no_policy_is_named(tmp_path):
    (tmp_path / "text").write_text("no policy")
    torch.save(SoftUCBPolicy(2).state_dict(), tmp_path / "pickle.pt")
    save_file({"beta": torch.ones(())}, tmp_path / "plain")
    save_tensors(tmp_path / "other", {"beta": torch.ones(())}, {})
    for name in ("text", "pickle.pt", "nothing", "plain"):
        with pytest.raises(ValueError, match=f"{name}: cannot be read"):
            load_policy(tmp_path / name)
    with pytest.raises(ValueError, match=r"other: is not a file of save_policy"):
        load_policy(tmp_path / "other")


class _Mine(LinUCB):
    pass


class _Constant(ScheduleBeta):
    pass


def test_classes_from_outside_are_refused(tmp_path):
    with pytest.raises(TypeError, match=r"policy must be one of EXP3, .*, got _Mine"):
        save_policy(tmp_path / "a", _Mine(2))
    with pytest.raises(TypeError, match=r"beta must be a number, a tensor or one of SegmentBeta, .*, got _Constant"):
        save_policy(tmp_path / "a", SoftUCBPolicy(2, beta_init=_Constant(5)))
    broken = SoftUCBPolicy(2)
    with torch.no_grad():
        broken.raw_beta.fill_(float("nan"))
    with pytest.raises(ValueError, match="save_policy: raw_beta must be finite"):
        save_policy(tmp_path / "a", broken)
    assert not list(tmp_path.iterdir())


def _settings(**changed):
    return lambda record, tensors: record["settings"].update(changed)


def _without(name):
    return lambda record, tensors: tensors.pop(name)


def _tensor(name, value):
    return lambda record, tensors: tensors.update({name: value})


def _record(**changed):
    return lambda record, tensors: record.update(changed)


def _beta(**changed):
    return lambda record, tensors: record["beta"]["settings"].update(changed)


SOFT = lambda: SoftUCBPolicy(2, beta_init=0.5)  # noqa: E731
EXP = lambda: EXP3(2, 3)  # noqa: E731
RADIUS = lambda: LinUCB.theoretical(2, subgaussian_r=0.5, fail_prob=0.1)  # noqa: E731
SCALE = lambda: LinTS.theoretical(2, subgaussian_r=0.5, fail_prob=0.1)  # noqa: E731
SEGMENT = lambda: SoftUCBPolicy(2, beta_init=SegmentBeta(torch.tensor([0, 1])))  # noqa: E731
SCHEDULE = lambda: SoftUCBPolicy(2, beta_init=ScheduleBeta(9))  # noqa: E731
NETWORK = lambda: SoftUCBPolicy(2, beta_init=SituationBeta(horizon=9))  # noqa: E731
DELTA = lambda: SoftUCBPolicy(2, learn_delta=True)  # noqa: E731
WRONG = {
    "unknown class": (SOFT, _record(policy="os.system"), "policy must be one of EXP3"),
    "a class path": (SOFT, _record(policy="torch_softucb.LinUCB"), "policy must be one of EXP3"),
    "class of another shape": (SOFT, _record(policy=["LinUCB"]), "policy must be one of"),
    "another class": (SOFT, _record(policy="LinUCB"), "settings must be beta"),
    "old format": (SOFT, _record(format=1), "format must be 3, got 1"),
    "unknown field": (SOFT, _record(hook="x"), "fields of the policy must be"),
    "huge dim": (SOFT, _record(dim=10**9), "dim 1000000000 .* do not fit statistics of shape"),
    "longer than 64 bits": (SOFT, _record(dim=10**30), "numbers must be finite and fit into 64 bits"),
    "one above int64": (SOFT, _record(dim=2**63), "fit into 64 bits, got 9223372036854775808"),
    "one below int64": (SOFT, _record(dim=-(2**63) - 1), "fit into 64 bits, got -9223372036854775809"),
    "largest int64": (SOFT, _record(dim=2**63 - 1), "dim 9223372036854775807 .* do not fit"),
    "smallest int64": (SOFT, _record(dim=-(2**63)), "dim must be at least 1"),
    "dim of a float": (SOFT, _record(dim=2.0), "dim must be a whole number"),
    "smaller dim": (SOFT, _record(dim=1), "tensor statistics must be torch.float64 of shape"),
    "huge num_arms": (EXP, _settings(num_arms=10**12), "num_arms 1000000000000 do not fit"),
    "other num_arms": (EXP, _settings(num_arms=2), "tensor statistics must be"),
    "missing setting": (SOFT, lambda record, tensors: record["settings"].pop("delta"), "settings must be"),
    "unknown setting": (SOFT, _settings(memory=[1.0]), "settings must be"),
    "delta out of range": (SOFT, _settings(delta=0.2), "delta must be in"),
    "delta infinite": (SOFT, _settings(delta=float("inf")), "numbers must be finite and fit into 64 bits"),
    "a truthy text": (SOFT, _settings(differentiate_gamma="no"), "differentiate_gamma must be true or false, got 'no'"),
    "unknown coldness": (SOFT, _settings(coldness="warm"), "coldness must be one of"),
    "unknown dtype": (SOFT, _settings(dtype="complex64"), "dtype must be one of"),
    "dtype of a list": (SOFT, _settings(dtype=[]), "unhashable"),
    "other dtype": (SOFT, _settings(dtype="float64"), "tensor raw_beta must be torch.float64"),
    "no statistics": (SOFT, _without("statistics"), "tensor statistics is missing"),
    "statistics of no dims": (SOFT, _tensor("statistics", torch.tensor(1.0)), "tensor statistics is missing or has no dims"),
    "statistics in float32": (SOFT, _tensor("statistics", torch.ones(12)), "tensor statistics must be torch.float64"),
    "no beta": (SOFT, _without("raw_beta"), "tensor raw_beta is missing"),
    "NaN": (SOFT, _tensor("raw_beta", torch.tensor(float("nan"))), "raw_beta must be finite"),
    "another tensor": (SOFT, _tensor("hook", torch.tensor(1.0)), "tensors must be raw_beta, statistics"),
    "beta of a baseline": (EXP, _record(beta={"module": "ScheduleBeta", "settings": {}}), "beta must be null for EXP3"),
    "part of a radius": (RADIUS, _settings(beta={"subgaussian_r": 0.5}), "beta must be fail_prob, subgaussian_r"),
    "wrong radius": (RADIUS, lambda r, t: r["settings"]["beta"].update(fail_prob=2.0), "fail_prob must be in"),
    "wrong scale": (SCALE, lambda r, t: r["settings"]["scale"].update(fail_prob="x"), "fail_prob must be a number"),
    "unknown module": (SCHEDULE, lambda r, t: r["beta"].update(module="Linear"), "beta must be one of SegmentBeta"),
    "beta a list": (SCHEDULE, _record(beta=[1]), "beta must be module, settings, got list"),
    "unknown setting of a module": (SCHEDULE, _beta(knots=5), "settings of ScheduleBeta must be horizon"),
    "horizon 0": (SCHEDULE, _beta(horizon=0), "horizon must be at least 1"),
    "no knots": (SCHEDULE, _without("beta_module.log_beta"), "tensor beta_module.log_beta is missing"),
    "knots of two dims": (SCHEDULE, _tensor("beta_module.log_beta", torch.ones(2, 2)), "must have 1 dims"),
    "V not positive definite": (
        SOFT,
        lambda r, t: t["statistics"][:4].copy_(-torch.eye(2).flatten()),
        "statistics are impossible: V is not positive definite",
    ),
    "delta of integers": (DELTA, _tensor("raw_delta", torch.tensor(3)), "tensor raw_delta must be torch.float32"),
    "dim 20,000": (SOFT, _record(dim=20_000), "dim 20000 .* do not fit statistics of shape"),
    "huge segment": (
        SEGMENT,
        _tensor("beta_module.segments", torch.tensor([0, 10**15])),
        "segments must be int64",
    ),
    "negative segment": (SEGMENT, _tensor("beta_module.segments", torch.tensor([-1, 1])), "segments must be integers >= 0"),
    "segments of floats": (SEGMENT, _tensor("beta_module.segments", torch.ones(2)), "segments must be int64"),
    "unknown input": (NETWORK, _beta(inputs=["weather"]), "inputs must be one of"),
    "inputs a number": (NETWORK, _beta(inputs=3), "not iterable"),
    "fewer inputs": (NETWORK, _beta(inputs=["log_noise"]), "tensor beta_module.(hidden|linear).weight must be"),
    "a part of another size": (NETWORK, _tensor("beta_module.linear.weight", torch.ones(1, 3)), "linear.weight must be"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_refused_by_name(case, tmp_path):
    make, change, match = WRONG[case]
    save_policy(tmp_path / "policy", make())
    with safe_open(tmp_path / "policy", framework="pt") as file:
        record = json.loads(file.metadata()["policy"])
    tensors = load_file(tmp_path / "policy")
    change(record, tensors)
    save_tensors(tmp_path / "wrong", tensors, {"policy": json.dumps(record)})
    with pytest.raises(ValueError, match=rf"policy file .*wrong: .*{match}"):
        load_policy(tmp_path / "wrong")


def test_text_that_is_no_json_is_refused(tmp_path):
    for text in ("{", "[]", "[" * 100_000, "null"):
        save_tensors(tmp_path / "a", {"statistics": torch.ones(3)}, {"policy": text})
        with pytest.raises(ValueError, match=r"policy file .*a: "):
            load_policy(tmp_path / "a")


def test_every_flipped_byte_is_found(tmp_path):
    """Headers included: shapes, dtypes, names and notes."""
    save_policy(tmp_path / "a", SoftUCBPolicy(1), notes={"horizon": 5})
    whole = (tmp_path / "a").read_bytes()
    for position in range(len(whole)):
        (tmp_path / "b").write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        with pytest.raises(ValueError, match="b: cannot be read"):
            load_policy(tmp_path / "b")
    for length in range(len(whole)):
        (tmp_path / "b").write_bytes(whole[:length])
        with pytest.raises(ValueError, match="b: cannot be read"):
            load_policy(tmp_path / "b")


def test_a_policy_loaded_in_inference_mode_can_be_updated_after_it(tmp_path):
    save_policy(tmp_path / "policy", SoftUCBPolicy(3))
    with torch.inference_mode():
        policy = load_policy(tmp_path / "policy")
    policy.update(torch.ones(2, 3), torch.ones(2))
    assert policy.state.num_observations == 2


def test_a_device_that_is_not_there_is_named(tmp_path):
    save_policy(tmp_path / "policy", SoftUCBPolicy(3))
    for device in ("nowhere", "cuda:99", 3.5):
        with pytest.raises(ValueError, match="load_policy: device must be one that this machine has"):
            load_policy(tmp_path / "policy", device=device)


def test_a_policy_that_could_not_be_loaded_is_not_saved(tmp_path):
    policy = SoftUCBPolicy(3)
    policy.state.root.mul_(1.5)
    with pytest.raises(ValueError, match=r"save_policy: statistics are impossible: root does not belong to V"):
        save_policy(tmp_path / "policy", policy)
    assert not list(tmp_path.iterdir())
    policy.refresh()
    save_policy(tmp_path / "policy", policy)
