"""Save a policy to one file and load it again.

The file is safetensors: the state dict as tensors, and the class and settings as JSON. It has a checksum over all its
bytes. Loading runs no code from the file: the class is a key of a fixed table, sizes are compared with the tensors before
anything is allocated, and statistics that no sequence of updates leads to are refused.
"""

import inspect
import json
import os
from collections.abc import Mapping
from typing import Any, get_args

import torch
from torch import Tensor

from torch_softucb import policies
from torch_softucb.checked_files import load_tensors, save_tensors
from torch_softucb.checks import check_integer
from torch_softucb.policies import BanditPolicy
from torch_softucb.policies._checks import check_batch_shape, check_device
from torch_softucb.policies.beta.base import BetaModule
from torch_softucb.policies.beta.network import SituationBeta
from torch_softucb.policies.beta.schedule import ScheduleBeta
from torch_softucb.policies.beta.segment import SegmentBeta
from torch_softucb.policies.beta.summary import SummaryBeta
from torch_softucb.policies.lin_ts import RunningScale
from torch_softucb.policies.lin_ucb import RunningRadius
from torch_softucb.policies.prior import GaussianPrior
from torch_softucb.policies.rows import RowLayout

_FORMAT = 3
_POLICIES: dict[str, type[BanditPolicy]] = {
    name: getattr(policies, name) for name in policies.__all__ if name not in ("ArmPolicy", "BanditPolicy")
}
_MODULES: dict[str, tuple[type[BetaModule], tuple[str, ...]]] = {  # class, and settings that its tensors do not contain
    "SegmentBeta": (SegmentBeta, ()),
    "ScheduleBeta": (ScheduleBeta, ("horizon",)),
    "SituationBeta": (SituationBeta, ("horizon", "init", "inputs")),
    "SummaryBeta": (SummaryBeta, ("horizon", "init")),
}
_DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64}
_RUNNING: dict[tuple[str, str], type[RunningRadius] | type[RunningScale]] = {
    ("LinUCB", "beta"): RunningRadius,
    ("LinTS", "scale"): RunningScale,
}


@torch.no_grad()
def save_policy(path: str | os.PathLike[str], policy: BanditPolicy, *, notes: Mapping[str, object] | None = None) -> None:
    """Write a policy with its parameters, statistics and settings to one file, atomically.

    Args:
        path: file to write; a previous one is replaced as a whole.
        policy: any policy of this package, with any beta of this package.
        notes: kept in the file as text, under ``notes`` of its metadata.

    Raises:
        TypeError: if the policy or its beta module is a class from outside this package.
        ValueError: if the state is one that :func:`load_policy` would refuse, such as a beta that is NaN.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from torch_softucb import SoftUCBPolicy
        >>> path = Path(tempfile.mkdtemp()) / "policy.safetensors"
        >>> save_policy(path, SoftUCBPolicy(3, beta_init=0.5, coldness="smooth"), notes={"horizon": 1024})
        >>> load_policy(path)
        SoftUCBPolicy(dim=3, ridge_alpha=1.0, batch_shape=(), beta=0.5, delta=0.99, coldness='smooth')
    """
    name, module = type(policy).__name__, getattr(policy, "beta_module", None)
    if _POLICIES.get(name) is not type(policy):
        raise TypeError(f"save_policy: policy must be one of {', '.join(_POLICIES)}, got {name}; use policy.state_dict()")
    if module is not None and _MODULES.get(type(module).__name__, (None,))[0] is not type(module):
        known, got = ", ".join(_MODULES), type(module).__name__
        raise TypeError(
            f"save_policy: beta must be a number, a tensor or one of {known}, got {got}; use policy.state_dict()"
        )
    record: dict[str, Any] = {
        "format": _FORMAT,
        "policy": name,
        "dim": policy.dim,
        "settings": _encode(policy),
        "beta": None,
    }
    if module is not None:
        settings = {field: getattr(module, field) for field in _MODULES[type(module).__name__][1]}
        record["beta"] = {"module": type(module).__name__, "settings": settings}
    tensors = {field: value.detach().contiguous() for field, value in policy.state_dict().items()}
    try:
        policy.check_state(tensors)
    except ValueError as error:
        raise ValueError(f"save_policy: {str(error).partition(': ')[2]}; nothing was written") from error
    text = json.dumps({field: str(value) for field, value in (notes or {}).items()})
    save_tensors(path, tensors, {"policy": json.dumps(record, allow_nan=False), "notes": text})


@torch.inference_mode(False)
def load_policy(path: str | os.PathLike[str], *, device: torch.device | str | None = None) -> BanditPolicy:
    """Load a policy that :func:`save_policy` wrote; its decisions and further updates are bit-identical.

    Args:
        path: file to read.
        device: device of the loaded policy.

    Returns:
        The policy with the statistics that it was saved with; ``policy.reset()`` discards them.

    Raises:
        ValueError: if the file cannot be read, or is not what :func:`save_policy` writes.
    """
    target, record = check_device("load_policy", device), dict[str, Any]()
    try:
        tensors, _ = load_tensors(path, check=lambda metadata, shapes: record.update(_read_record(metadata, shapes)))
        return _build(record, tensors, target)
    except (TypeError, ValueError, RuntimeError, RecursionError) as error:
        text = str(error)
        raise ValueError(text if text.startswith(f"{path}: ") else f"policy file {path}: {text}") from error


def _encode(policy: BanditPolicy) -> dict[str, Any]:
    """Return the settings of a policy as JSON values."""
    settings = {name: value for name, value in policy.settings.items() if name not in ("device", "prior")}
    settings["dtype"] = str(policy.dtype).removeprefix("torch.")
    return {name: value._asdict() if hasattr(value, "_asdict") else value for name, value in settings.items()}


def _check_names(what: str, given: object, expected: set[str]) -> None:
    if not isinstance(given, dict) or set(given) != expected:
        got = sorted(given) if isinstance(given, dict) else type(given).__name__
        raise ValueError(f"{what} must be {', '.join(sorted(expected)) or 'empty'}, got {got}")


def _int64(text: str) -> int:
    """Parse an integer that fits into int64; reject any other number, including NaN and Infinity."""
    if len(text) > 20 or not text.removeprefix("-").isdigit() or not -(2**63) <= int(text) < 2**63:
        raise ValueError(f"numbers must be finite and fit into 64 bits, got {text[:20]}")
    return int(text)


def _read_record(metadata: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """Return class and settings, after comparing all declared sizes with the tensors in the file."""
    if "policy" not in metadata:
        raise ValueError("is not a file of save_policy: its metadata has no policy")
    record: dict[str, Any] = json.loads(metadata["policy"], parse_int=_int64, parse_constant=_int64)
    _check_names("fields of the policy", record, {"format", "policy", "dim", "settings", "beta"})
    if record["format"] != _FORMAT:
        raise ValueError(f"format must be {_FORMAT}, got {record['format']!r}; save the policy with this version")
    if not isinstance(record["policy"], str) or record["policy"] not in _POLICIES:
        raise ValueError(f"policy must be one of {', '.join(_POLICIES)}, got {record['policy']!r}")
    parameters = inspect.signature(_POLICIES[record["policy"]]).parameters
    (keywords,) = get_args(parameters["policy_kwargs"].annotation)  # the TypedDict of the constructor
    names = {*parameters, *keywords.__annotations__} - {"dim", "beta_init", "device", "prior", "policy_kwargs"}
    _check_names("settings", record["settings"], names)
    for name, value in record["settings"].items():
        if name in parameters and isinstance(parameters[name].default, bool) and not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false, got {value!r}")
    if record["settings"]["dtype"] not in _DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(_DTYPES)}, got {record['settings']['dtype']!r}")
    row = shapes.get("statistics", ())
    if not row:
        raise ValueError("tensor statistics is missing or has no dims")
    check_batch_shape("statistics", row[:-1])
    least = RowLayout(check_integer("settings", "dim", record["dim"], low=1), 0).size
    arms = record["settings"].get("num_arms", 1)
    if row[-1] < least + check_integer("settings", "num_arms", arms, low=1) * ("num_arms" in record["settings"]):
        raise ValueError(f"dim {record['dim']} and num_arms {arms} do not fit statistics of shape {row}")
    return record


def _build(record: dict[str, Any], tensors: dict[str, Tensor], device: torch.device) -> BanditPolicy:
    name = record["policy"]
    settings: dict[str, Any] = {**record["settings"], "dtype": _DTYPES[record["settings"]["dtype"]], "device": device}
    for (policy_name, field), running in _RUNNING.items():
        if policy_name == name and isinstance(settings[field], dict):
            _check_names(field, settings[field], set(running._fields))
            settings[field] = running(**settings[field])
    with torch.random.fork_rng(devices=[]):  # networks are initialised at random before their weights are loaded
        if name in ("SoftUCBPolicy", "AutoSoftUCB"):
            settings["beta_init"] = _beta_init(record["beta"], tensors)
        elif record["beta"] is not None:
            raise ValueError(f"beta must be null for {name}, got {record['beta']!r}")
        policy = _POLICIES[name](record["dim"], prior=_prior(tensors), **settings)
    expected = policy.state_dict()
    _check_names("tensors", tensors, set(expected))
    for field, tensor in tensors.items():
        shape = (*tensor.shape[:-1], policy.layout.size) if field == "statistics" else expected[field].shape
        dtype = expected[field].dtype
        if field == "raw_delta" and tensor.is_floating_point():  # it may be shared with policies of another dtype
            dtype = tensor.dtype
        if tensor.shape != torch.Size(shape) or tensor.dtype != dtype:
            raise ValueError(
                f"tensor {field} must be {dtype} of shape {tuple(shape)}, got {tensor.dtype} of shape {tuple(tensor.shape)}"
            )
    policy.load_state_dict({field: tensor.to(policy.device) for field, tensor in tensors.items()}, assign=True)
    if _encode(policy) != record["settings"]:
        raise ValueError(f"settings must be those of a {name}, got {record['settings']}")
    return policy


def _prior(tensors: Mapping[str, Tensor]) -> GaussianPrior | None:
    """Return the prior, which is among the tensors; a part of one is refused with the other names."""
    if "prior_mean" not in tensors:
        return None
    mean, covariance = _tensor(tensors, "prior_mean", 1), _tensor(tensors, "prior_covariance", 2)
    numbers = _tensor(tensors, "prior_numbers", 1)
    if len(numbers) != 2:
        raise ValueError(f"prior_numbers must be noise_std and offset, got {len(numbers)} numbers")
    noise_std, offset = numbers.tolist()
    return GaussianPrior(mean, covariance, noise_std=noise_std, offset=offset)


def _beta_init(beta: object, tensors: Mapping[str, Tensor]) -> Tensor | BetaModule:
    """Return a beta of the right shape; its values are loaded with the state dict."""
    if beta is None:
        return torch.zeros_like(_tensor(tensors, "raw_beta", None))
    _check_names("beta", beta, {"module", "settings"})
    assert isinstance(beta, dict)
    name, settings = beta["module"], beta["settings"]
    if not isinstance(name, str) or name not in _MODULES:
        raise ValueError(f"beta must be one of {', '.join(_MODULES)}, got {name!r}")
    _check_names(f"settings of {name}", settings, set(_MODULES[name][1]))
    if name == "SegmentBeta":
        segments, raw = _tensor(tensors, "beta_module.segments", None), _tensor(tensors, "beta_module.raw", 1)
        if segments.dtype != torch.int64 or not segments.numel() or int(segments.max()) + 1 != len(raw):
            raise ValueError(f"beta_module.segments must be int64 from 0 to {len(raw) - 1}, one per bandit")
        return SegmentBeta(segments)
    if name == "ScheduleBeta":
        return ScheduleBeta(settings["horizon"], init=torch.ones(len(_tensor(tensors, "beta_module.log_beta", 1))))
    if name == "SummaryBeta":
        return SummaryBeta(**settings)
    return SituationBeta(**settings, hidden=len(_tensor(tensors, "beta_module.hidden.weight", 2)))


def _tensor(tensors: Mapping[str, Tensor], name: str, dims: int | None) -> Tensor:
    if name not in tensors or dims not in (None, tensors[name].dim()):
        raise ValueError(f"tensor {name} is missing" if name not in tensors else f"tensor {name} must have {dims} dims")
    return tensors[name]
