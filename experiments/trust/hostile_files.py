"""Write files that attack the loaders, each with the checksum that belongs to it, as an attacker would."""

import copy
import hashlib
import io
import json
import struct
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load as load_safetensors
from torch import Tensor, nn

from torch_softucb import SituationBeta, SoftUCBHead, SoftUCBPolicy, save_policy
from torch_softucb.checked_files import load_tensors, save_tensors
from torch_softucb.checked_files.torch_file import _append_checksum
from torch_softucb.recommend import DecisionLog, save_checkpoint
from torch_softucb.training import SoftUCBOffline, trainer_for
from torch_softucb.training.trainer import quiet

Change = Callable[[dict[str, Any]], object]
NAN, INF = float("nan"), float("inf")


class Hostile(NamedTuple):
    """A file, what is wrong with it, and which loader reads it."""

    name: str
    file_type: str
    path: Path


def intact(folder: Path) -> list[Hostile]:
    """Write one valid file of each file_type, if they are not there yet."""
    paths = {"checkpoint": "last.ckpt", "head": "head.pt", "policy": "a.policy", "network": "a.network"}
    if not (folder / "last.ckpt").exists():
        policy = SoftUCBPolicy(3, dtype=torch.double)
        policy.update(torch.eye(3, dtype=torch.double), torch.ones(3, dtype=torch.double))
        with DecisionLog(folder / "log") as log:
            head = SoftUCBHead(nn.Identity(), policy)
            log.decisions(head.serve(head(torch.eye(3, dtype=torch.double))))
            save_checkpoint(folder / "head.pt", head, log)
        save_policy(folder / "a.policy", policy)
        SituationBeta(horizon=9, hidden=2).save(folder / "a.network", note="x")
        quiet()
        model = SoftUCBOffline(dim=3, horizon=4)
        trainer = trainer_for(str(folder / "logs"), logger=False, enable_progress_bar=False, callbacks=[])
        trainer.strategy.connect(model)
        trainer.save_checkpoint(folder / "last.ckpt")
    return [Hostile("intact", file_type, folder / name) for file_type, name in paths.items()]


def corpus(folder: Path) -> list[Hostile]:
    """Write all hostile files."""
    intact(folder)
    files = []
    for file_type, suffix, parts in (
        ("checkpoint", "ckpt", (*_states("checkpoint"), *_training_states())),
        ("head", "pt", (*_states("head"), *_head_states())),
    ):
        saved = torch.load(folder / ("last.ckpt" if file_type == "checkpoint" else "head.pt"), weights_only=True)
        for number, (name, change) in enumerate(parts):
            path = folder / f"{number}.{suffix}"
            state = copy.deepcopy(saved)
            state = new if isinstance(new := change(state), _Other) else state
            path.write_bytes(sealed(_torch_bytes(state.value if isinstance(state, _Other) else state)))
            files.append(Hostile(name, file_type, path))
        for name, data in _archives(_torch_bytes(saved)):
            path = folder / f"{len(files)}-archive.{suffix}"
            path.write_bytes(data)
            files.append(Hostile(name, file_type, path))
    for file_type, source in (("policy", "a.policy"), ("network", "a.network")):
        for name, data in (*_tensor_files(folder / source, file_type), *_headers(folder / source)):
            path = folder / f"{len(files)}.{file_type}"
            path.write_bytes(data)
            files.append(Hostile(name, file_type, path))
    return files


class _Other(NamedTuple):
    """A state that replaces the whole."""

    value: object


def _replaced(new: Any, old: object) -> Any:
    return new


def _removed(name: str, state: dict[str, Any]) -> None:
    del state[name]


def _torch_bytes(state: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def sealed(data: bytes) -> bytes:
    """Return a file with a valid checksum, as far as there is a place for one."""
    at = _digits(data)
    if at is not None:
        return data[:at] + hashlib.sha256(data).hexdigest().encode() + data[at + 64 :]
    buffer = io.BytesIO(data)
    try:
        _append_checksum(buffer)
    except (ValueError, OSError):
        return data
    return buffer.getvalue()


def unsealed(data: bytes) -> bytes:
    """Return a file without its checksum, for :func:`sealed`."""
    if data[-85:-64] == b"torch_softucb sha256 ":
        return data[:-87] + bytes(2)
    at = data.index(b'"sha256":"') + 10
    return data[:at] + b"0" * 64 + data[at + 64 :]


def _digits(data: bytes) -> int | None:
    """Position of the digits of a safetensors file's checksum, written as zeros."""
    at = data.find(b'"sha256":"' + b"0" * 64)
    return None if at < 0 else at + 10


def _parts(rows: Tensor) -> dict[str, Tensor]:  # one bandit, d = 3
    return {
        "V": rows[..., :9],
        "root": rows[..., 9:18],
        "b": rows[..., 18:21],
        "count": rows[..., -2],
        "gamma": rows[..., -1],
    }


def _statistics() -> Iterator[tuple[str, Callable[[Tensor], Tensor]]]:
    """Statistics that no sequence of updates leads to."""

    def put(part: str, value: Any) -> Callable[[Tensor], Tensor]:
        def change(rows: Tensor) -> Tensor:
            rows = rows.clone()
            _parts(rows)[part].copy_(torch.as_tensor(value, dtype=rows.dtype))
            return rows

        return change

    for part in ("V", "root", "b", "count", "gamma"):
        for value in (NAN, INF, -INF):
            yield f"{part} is {value}", put(part, value)
    eye = torch.eye(3).flatten()
    yield "V is zero", put("V", 0.0)
    yield "V is negative definite", put("V", -eye)
    yield "V is indefinite", put("V", torch.tensor([1.0, 2, 0, 2, 1, 0, 0, 0, 1]))
    yield "V is not symmetric", put("V", torch.tensor([2.0, 1, 0, 0, 2, 0, 0, 0, 2]))
    yield "V of another root", put("V", 7 * eye)
    yield "V is tiny", put("V", 1e-300 * eye)
    yield "root is zero", put("root", 0.0)
    yield "root of another V", put("root", 3 * eye)
    yield "root is huge", put("root", 1e200 * eye)
    yield "count is negative", put("count", -1.0)
    yield "gamma is negative", put("gamma", -1.0)
    for dtype in (torch.float32, torch.float16, torch.int64, torch.int8, torch.bool, torch.complex128):
        yield f"statistics in {dtype}", partial(Tensor.to, dtype=dtype)
    yield "statistics are longer", lambda rows: torch.cat((rows, rows[..., :1]), -1)
    yield "statistics are shorter", lambda rows: rows[..., :-1].clone()
    yield "statistics without rows", lambda rows: rows.expand(1, -1)[:0].clone()
    yield "statistics without dims", lambda rows: rows.sum()
    yield "statistics are empty", lambda rows: rows[..., :0].clone()


def _states(file_type: str) -> Iterator[tuple[str, Change]]:
    """States of a checkpoint or head with impossible values of the policy."""
    where = "state_dict" if file_type == "checkpoint" else "head"

    def put(name: str, value: Callable[[Tensor], Any]) -> Change:
        def change(state: dict[str, Any]) -> None:
            state[where][f"policy.{name}"] = value(state[where][f"policy.{name}"])

        return change

    for name, value in _statistics():
        yield name, put("statistics", value)
    yield "statistics repeat one row 2^40 times", put("statistics", lambda rows: rows.expand(2**40, -1))
    yield "statistics are sparse", put("statistics", lambda rows: rows.to_sparse())
    yield "statistics on meta", put("statistics", lambda rows: rows.to("meta"))
    for odd in (None, 1.0, "rows", [1.0], {"a": 1}):
        yield f"statistics are {odd!r}", put("statistics", partial(_replaced, odd))
    for number in (NAN, INF, -INF):
        yield f"beta is {number}", put("raw_beta", partial(torch.full_like, fill_value=number))
    yield "beta of another shape", put("raw_beta", lambda beta: torch.ones(7))
    yield "beta of 2^40 elements", put("raw_beta", lambda beta: beta.expand(2**40))
    yield "beta is complex", put("raw_beta", lambda beta: beta.to(torch.complex64))
    yield "beta is an integer", put("raw_beta", lambda beta: beta.long())
    yield "no beta", lambda state: state[where].pop("policy.raw_beta")
    yield "no statistics", lambda state: state[where].pop("policy.statistics")
    yield "an unknown entry", lambda state: state[where].update(hook=torch.ones(1))
    for odd in (None, 3, [], "text", {}):
        yield f"the state is {odd!r}", partial(dict.update, **{where: odd})
        yield f"the file holds {odd!r}", partial(_replaced, _Other(odd))


def _training_states() -> Iterator[tuple[str, Change]]:
    """Hyperparameters that would import, call or allocate."""

    def put(**changed: Any) -> Change:
        return lambda state: state["hyper_parameters"].update(changed)

    for path in ("os.system", "builtins.eval", "subprocess.run", "antigravity.x", "torch.hub.load"):
        yield f"_instantiator {path}", put(_instantiator=path)
        yield f"_class_path {path}", put(_instantiator="lightning.pytorch.cli.instantiate_module", _class_path=path)
        nested = {"class_path": path, "init_args": {"args": "ls"}}
        yield f"class_path {path}", put(_instantiator="lightning.pytorch.cli.instantiate_module", optimizer=nested)
    for dim in (-1, 0, 4, 20_000, 10**9, 2**70, 2.5, "3", None, [3]):
        yield f"dim {dim}", put(dim=dim)
    yield "horizon of a text", put(horizon="long")
    yield "horizon 0", put(horizon=0)
    yield "delta NaN", put(delta=NAN)
    yield "coldness unknown", put(coldness="warm")
    yield "no version", lambda state: state.pop("pytorch-lightning_version")
    yield "no state", lambda state: state.pop("state_dict")
    yield "hyperparameters are a list", lambda state: state.update(hyper_parameters=[1])


def _head_states() -> Iterator[tuple[str, Change]]:
    for name in ("segment", "record", "head"):
        yield f"no {name}", partial(_removed, name)
    for odd in (None, "1", 1.5, [1], -1):
        yield f"segment {odd!r}", partial(dict.update, segment=odd)
        yield f"record {odd!r}", partial(dict.update, record=odd)


_CALLS = {  # name: pickle of a call
    "os.system": b"cos\nsystem\nX\x04\0\0\0true\x85R",
    "posix.system": b"cposix\nsystem\nX\x04\0\0\0true\x85R",
    "eval": b"c__builtin__\neval\nX\x03\0\0\0" + b"1+1\x85R",
    "exec": b"cbuiltins\nexec\nX\x04\0\0\0pass\x85R",
    "open for writing": b"cbuiltins\nopen\nX\x06\0\0\0victimX\x01\0\0\0w\x86R",
    "subprocess": b"csubprocess\nPopen\nX\x04\0\0\0true\x85R",
    "import": b"cimportlib\nimport_module\nX\x0b\0\0\0antigravity\x85R",
    "getattr": b"c__builtin__\ngetattr\nX\x01\0\0\0aX\x04\0\0\0join\x86R",
    "torch.hub": b"ctorch.hub\nload\nX\x01\0\0\0a\x85R",
    "torch.load": b"ctorch.serialization\nload\nX\x01\0\0\0a\x85R",
    "numpy": b"cnumpy.core.multiarray\n_reconstruct\n)R",
    "INST": b"(X\x04\0\0\0trueios\nsystem\n",
    "OBJ": b"(cos\nsystem\nX\x04\0\0\0trueo",
    "STACK_GLOBAL": b"\x8c\x02os\x8c\x06system\x93X\x04\0\0\0true\x85R",
    "EXT1": b"\x82\x01",
    "bytearray of 10^11": b"c__builtin__\nbytearray\n\x8a\x05" + (10**11).to_bytes(5, "little") + b"\x85R",
    "storage of 10^11": b"ctorch\nFloatStorage\n\x8a\x05" + (10**11).to_bytes(5, "little") + b"\x85R",
    "tensor of 10^11": b"ctorch\nFloatTensor\n\x8a\x05" + (10**11).to_bytes(5, "little") + b"\x85R",
    "storage class called": b"ctorch.storage\nUntypedStorage\n\x8a\x05" + (10**11).to_bytes(5, "little") + b"\x85R",
    "meta tensor": b"ctorch._utils\n_rebuild_meta_tensor_no_storage\n(ctorch\nfloat32\nJ\0\0\0\x7f\x85K\x01\x85\x89tR",
    "sparse": b"ctorch._utils\n_rebuild_sparse_tensor\n)R",
    "quantised": b"ctorch._utils\n_rebuild_qtensor\n)R",
    "wrapper": b"ctorch._utils\n_rebuild_wrapper_subclass\n)R",
    "from type": b"ctorch._tensor\n_rebuild_from_type_v2\n)R",
    "codecs": b"c_codecs\nencode\nX\x01\0\0\0aX\x06\0\0\0latin1\x86R",
    "Counter": b"ccollections\nCounter\n)R",
    "set": b"c__builtin__\nset\n]\x85R",
    "attributes": b"ccollections\nOrderedDict\n)R}X\x05\0\0\0itemsK\x01sb",
    "tuple as key": b"}K\x01" + b"q\x09h\x09\x86" * 60 + b"K\x01s",
    "a million dicts": b"}" * 1_000_000,
    "a million calls": b"ccollections\nOrderedDict\nq\x09" + b"h\x09)R" * 300_000,
    "deep lists": b"](" * 100_000,
    "long text that is not there": b"X\xff\xff\xff\x7fabc",
    "unknown storage": b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x02\0\0\x0099X\x03\0\0\0cpuK\x04tQ",
    "longer storage": b"(X\x07\0\0\0storagectorch\nDoubleStorage\nX\x01\0\0\x000X\x03\0\0\0cpuM\xff\x7ftQ",
    "text as storage": b"X\x04\0\0\0trueQ",
    "no object": b"",
}


def _zip(records: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in records.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def _archives(whole: bytes) -> Iterator[tuple[str, bytes]]:
    """Archives with hostile pickles, records and directories."""
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    key = next(name for name in records if name.endswith("data.pkl"))
    prefix = key.split("/", 1)[0]
    for name, code in _CALLS.items():
        yield f"pickle: {name}", sealed(_zip(records | {key: b"\x80\x02" + code + b"."}))
    pickle = records[key]
    for name, data in {"cut": pickle[:-9], "empty": b"", "text": b"no pickle", "of 9 MB": bytes(9 << 20)}.items():
        yield f"pickle {name}", sealed(_zip(records | {key: data}))
    yield "compressed", sealed(_zip(records, zipfile.ZIP_DEFLATED))
    yield "bomb: 300 MB of zeros", sealed(_zip(records | {key: bytes(300_000_000)}, zipfile.ZIP_DEFLATED))
    yield "bomb: 100 MB in LZMA", sealed(_zip(records | {key: bytes(100_000_000)}, zipfile.ZIP_LZMA))
    for extra in ("code/a.py", "constants.pkl", "../../victim", "data/../../x", "x" * 300):
        yield f"record {extra[:20]}", sealed(_zip(records | {f"{prefix}/{extra}": b"x"}))
    yield "two prefixes", sealed(_zip(records | {"other/data.pkl": pickle}))
    yield "no pickle", sealed(_zip({name: data for name, data in records.items() if name != key}))
    yield "short storages", sealed(_zip({n: d[:1] if "/data/" in n else d for n, d in records.items()}))
    yield "no storages", sealed(_zip({n: d for n, d in records.items() if "/data/" not in n}))
    directory = whole.index(b"PK\x01\x02")
    for offset, size in ((20, 4), (24, 4), (28, 2), (42, 4), (10, 2)):
        at = directory + offset
        yield f"lie in the directory at {offset}", sealed(whole[:at] + b"\xfe" * size + whole[at + size :])
    yield "no checksum", whole
    yield "checksum of zeros", sealed(whole)[:-64] + b"0" * 64
    yield "cut after the directory", sealed(whole)[:-80]
    yield "cut in half", sealed(whole)[: len(whole) // 2]
    yield "doubled", sealed(whole) * 2
    yield "plain pickle", b"\x80\x02" + _CALLS["os.system"] + b"."
    yield "YAML", b"!!python/object/apply:os.system [true]\n"
    yield "nothing", b""


def forged(header: bytes, data: bytes) -> bytes:
    """Return a safetensors file whose checksum, written as 64 zeros, is replaced by the right one."""
    return sealed(struct.pack("<Q", len(header)) + header + data)


def _tensor_files(path: Path, file_type: str) -> Iterator[tuple[str, bytes]]:
    """Files of valid structure with impossible contents."""
    tensors, metadata = load_tensors(path)
    scratch = path.with_name("scratch")

    def written(new: dict[str, Tensor], texts: dict[str, str]) -> bytes:
        save_tensors(scratch, {name: value.contiguous() for name, value in new.items()}, texts)
        return scratch.read_bytes()

    field = "policy" if file_type == "policy" else "module"
    for text in ("", "null", "[]", "{", "[" * 100_000, "1e999", '{"a":1,"a":2}', "!!python/object/apply:os.system [true]"):
        yield f"{field} is {text[:12]!r}", written(tensors, {**metadata, field: text})
    yield f"no {field}", written(tensors, {"notes": "{}"})
    record = json.loads(metadata[field])
    if file_type == "policy":
        for name, value in _statistics():
            new = value(tensors["statistics"])
            if new.numel() and not new.is_complex():  # safetensors has no complex128
                yield name, written({**tensors, "statistics": new}, metadata)
        changes: dict[str, Any] = {
            "policy": "os.system",
            "dim": 20_000,
            "format": 1,
            "settings": {},
            "beta": {"module": "os"},
        }
        settings: dict[str, Any] = {"delta": 7, "dtype": "object", "ridge_alpha": -1, "refresh_every": 0, "coldness": "warm"}
        for name, change in settings.items():
            texts = {**metadata, field: json.dumps({**record, "settings": {**record["settings"], name: change}})}
            yield f"setting {name} {change}", written(tensors, texts)
        for odd in (10**9, -1, 2.5, "3", None, 10**30):
            yield f"dim {odd}", written(tensors, {**metadata, field: json.dumps({**record, "dim": odd})})
    else:
        changes = {"hidden": 10**9, "init": -1.0, "inputs": ["os"], "horizon": 3}
        for name in tensors:
            yield f"no {name}", written({n: v for n, v in tensors.items() if n != name}, metadata)
            for number in (NAN, INF):
                yield f"{name} {number}", written({**tensors, name: torch.full_like(tensors[name], number)}, metadata)
            yield f"{name} of another shape", written({**tensors, name: torch.ones(7, 7)}, metadata)
            yield f"{name} of integers", written({**tensors, name: tensors[name].long()}, metadata)
    for name, change in changes.items():
        yield f"{name} {change}", written(tensors, {**metadata, field: json.dumps({**record, name: change})})
    yield "another tensor", written({**tensors, "hook": torch.ones(2)}, metadata)


def _headers(path: Path) -> Iterator[tuple[str, bytes]]:
    """Files whose header lies."""
    whole = path.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    table, data = json.loads(whole[8 : 8 + length]), whole[8 + length :]
    table["__metadata__"]["sha256"] = "0" * 64
    name = next(name for name in table if name != "__metadata__")
    assert name in load_safetensors(whole)

    def written(new: dict[str, Any], data: bytes = data) -> bytes:
        return forged(json.dumps(new, separators=(",", ":")).encode(), data)

    lies: dict[str, Any] = {
        "shape": ([2**40], [10**9, 0], [-1], [0], "x", [2.5], [2**63], [], None, {"a": 1}),
        "dtype": ("F99", "", None, 7, "BOOL", "C64"),
        "data_offsets": ([0, 2**60], [5, 1], [-1, 4], [0], "x", None, [2**64, 2**65]),
    }
    for field, values in lies.items():
        for value in values:
            if value != table[name][field]:
                yield f"{field} {value!r}", written({**table, name: {**table[name], field: value}})
    yield "tensor is a number", written({**table, name: 3})
    yield "metadata are numbers", written({**table, "__metadata__": {"sha256": "0" * 64, "n": 3}})
    yield "data cut", written(table, data[:-4])
    yield "data longer", written(table, data + bytes(4))
    yield "no data", written(table, b"")
    text = json.dumps(table, separators=(",", ":"))
    entry = json.dumps({name: table[name]}, separators=(",", ":"))[1:-1]
    yield "a name twice", forged((text[:-1] + "," + entry + "}").encode(), data)
    yield "header of 2 MB", written({**table, "__metadata__": {**table["__metadata__"], "n": "x" * (2 << 20)}})
    yield "deep header", forged(('{"a":' * 50_000 + '"sha256":"' + "0" * 64 + '"').encode(), data)
    yield "header is no UTF-8", forged(b"\xff\xfe" + text.encode(), data)
    yield "header is longer than the file", struct.pack("<Q", 2**40) + whole[8:]
    yield "no checksum", struct.pack("<Q", 2) + b"{}"
    yield "nothing", b""
