"""Follow a pickle symbol by symbol, without building its objects, and refuse all but plain data and dense tensors."""

import math
import pickletools
from collections.abc import Callable, Mapping
from typing import Any

_ITEM_SIZES = {"Double": 8, "Float": 4, "Half": 2, "BFloat16": 2, "Long": 8, "Int": 4, "Short": 2, "Char": 1, "Byte": 1}
_ITEM_SIZES |= {"Bool": 1, "ComplexDouble": 16, "ComplexFloat": 8}
_DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
_CLASSES = {f"torch {name}Storage" for name in _ITEM_SIZES} | {f"torch {name}" for name in _DTYPES}
_BUDGET = 40 << 20  # bytes that the objects of the pickle may take, tensor data aside
_MAX_EXPANDED = 1 << 20  # elements of a tensor that repeats its storage (stride 0)
_PER_SYMBOL, _PER_CALL = 64, 500  # an empty dict; a tensor


class _Global(str):
    """A class or function that the pickle names."""


class _Dict:
    """A dict; ``plain``: it has no keys but ``_metadata``."""

    __slots__ = ("empty", "ordered", "plain")

    def __init__(self, ordered: bool) -> None:
        self.ordered, self.empty, self.plain = ordered, True, True


class _Storage:
    """A storage of ``length`` elements."""

    def __init__(self, length: int) -> None:
        self.length = length


_MARK, _LIST, _VALUE = object(), object(), object()


def check_pickle(data: bytes, records: Mapping[str, int]) -> None:
    """Raise ValueError, with a reason, unless a pickle holds plain data and tensors that fit their records.

    Args:
        data: pickle of :func:`torch.save`.
        records: size in bytes of each storage, by its key.
    """
    machine = _Machine(records)
    cost = 4 * len(data)
    try:
        for symbol, argument, _ in pickletools.genops(data):
            cost += _PER_CALL if symbol.name == "REDUCE" else _PER_SYMBOL
            if cost > _BUDGET:
                raise ValueError(f"its pickle would take more than {_BUDGET >> 20} MB; it holds too many objects")
            machine.step(symbol.name, argument)
    except (IndexError, TypeError, KeyError, AttributeError, OverflowError, UnicodeDecodeError) as error:
        raise ValueError(f"its pickle is not one of torch.save ({type(error).__name__}: {error})") from error
    if machine.stack != [machine.result] or machine.result is _MARK:
        raise ValueError("its pickle is not one of torch.save: it does not end with one object")


class _Machine:
    """Stack machine of the pickle protocol over descriptions of objects."""

    def __init__(self, records: Mapping[str, int]) -> None:
        self.records = records
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.result: Any = _MARK

    def step(self, name: str, argument: Any) -> None:
        """Carry out one symbol."""
        stack = self.stack
        if name in _CONSTANTS or name in ("BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"):
            stack.append(_CONSTANTS.get(name, argument))
        elif name in ("BINPUT", "LONG_BINPUT"):
            self.memo[argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self.memo[argument])
        elif name == "EMPTY_DICT":
            stack.append(_Dict(ordered=False))
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            items = tuple(self._pop() for _ in range(int(name[-1])))
            stack.append(items[::-1])
        elif name == "TUPLE":
            stack.append(tuple(self._pop_to_mark()))
        elif name == "SETITEM":
            value, key = self._pop(), self._pop()
            _set_items(stack[-1], [key, value])
        elif name == "SETITEMS":
            pairs = self._pop_to_mark()
            _set_items(stack[-1], pairs)
        elif name in ("APPEND", "APPENDS"):
            _ = self._pop() if name == "APPEND" else self._pop_to_mark()
            _require(stack[-1] is _LIST, "appends to something that is not a list")
        elif name == "GLOBAL":
            _require(argument in _CLASSES or argument in _CALLS, f"names {str(argument)[:80]!r}, which is not plain data")
            stack.append(_Global(argument))
        elif name == "REDUCE":
            arguments, function = self._pop(), self._pop()
            _require(isinstance(function, _Global) and function in _CALLS, f"calls {str(function)[:80]!r}")
            _require(type(arguments) is tuple, "calls a function without arguments")
            stack.append(_CALLS[function](arguments))
        elif name == "BUILD":
            state = self._pop()
            fits = isinstance(stack[-1], _Dict) and stack[-1].ordered and isinstance(state, _Dict)
            _require(fits and state.plain, "sets attributes")
        elif name == "BINPERSID":
            stack.append(self._storage(self._pop()))
        elif name == "STOP":
            self.result = stack[-1]
        elif name != "PROTO":
            raise ValueError(f"its pickle has the symbol {name}, which torch.save does not write for plain data")

    def _pop(self) -> Any:
        _require(self.stack[-1] is not _MARK, "takes an object that is not there")
        return self.stack.pop()

    def _pop_to_mark(self) -> list[Any]:
        items = []
        while self.stack[-1] is not _MARK:
            items.append(self.stack.pop())
        self.stack.pop()
        return items[::-1]

    def _storage(self, identity: Any) -> _Storage:
        """Compare the declared length of a storage with the size of its record."""
        fits = type(identity) is tuple and len(identity) == 5 and identity[0] == "storage"
        fits = fits and isinstance(identity[1], _Global) and identity[1].endswith("Storage") and _is_whole(identity[4])
        _require(fits and type(identity[2]) is str and type(identity[3]) is str, "refers to something that is not a storage")
        _, file_type, key, _, length = identity
        nbytes = length * _ITEM_SIZES[file_type.removeprefix("torch ").removesuffix("Storage")]
        _require(self.records.get(key) == nbytes, f"declares {nbytes} bytes for storage {key[:20]!r}, which differs")
        return _Storage(length)


def _set_items(target: Any, items: list[Any]) -> None:
    _require(isinstance(target, _Dict) and len(items) % 2 == 0, "sets items of something that is not a dict")
    for key in items[::2]:  # hashing nested tuples can take for ever
        _require(type(key) in (str, int), f"has a key of type {type(key).__name__.strip('_')}; keys are texts or integers")
        target.empty, target.plain = False, target.plain and key == "_metadata"


def _ordered_dict(arguments: tuple[Any, ...]) -> _Dict:
    _require(arguments == (), "fills a dict in its constructor")
    return _Dict(ordered=True)


def _tensor(arguments: tuple[Any, ...]) -> object:
    storage, offset, size, stride, requires_grad, hooks = arguments
    whole = type(size) is tuple and type(stride) is tuple and all(map(_is_whole, (offset, *size, *stride)))
    _require(whole and len(size) == len(stride) <= 64 and isinstance(storage, _Storage), "has a tensor of no valid shape")
    _require(isinstance(requires_grad, bool) and isinstance(hooks, _Dict) and hooks.empty, "has a tensor with hooks")
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) if math.prod(size) else -1
    fits = (
        math.prod(size) <= max(storage.length, _MAX_EXPANDED) and last < storage.length and max((0, *size, *stride)) < 2**62
    )
    _require(fits, f"has a tensor of shape {str(size)[:80]} in a storage of {storage.length} elements")
    return _VALUE


def _parameter(arguments: tuple[Any, ...]) -> object:
    data, requires_grad, hooks = arguments
    _require(data is _VALUE and isinstance(requires_grad, bool), "has a parameter that is not a tensor")
    _require(isinstance(hooks, _Dict) and hooks.empty, "has a parameter with hooks")
    return _VALUE


def _device(arguments: tuple[Any, ...]) -> object:
    _require(all(type(value) in (str, int) for value in arguments), "has a device of no valid name")
    return None


def _size(arguments: tuple[Any, ...]) -> object:
    (sizes,) = arguments
    _require(type(sizes) is tuple and all(map(_is_whole, sizes)), "has a size of no valid numbers")
    return None


_CALLS: dict[str, Callable[[tuple[Any, ...]], object]] = {
    "collections OrderedDict": _ordered_dict,
    "torch._utils _rebuild_tensor_v2": _tensor,
    "torch._utils _rebuild_parameter": _parameter,
    "torch device": _device,
    "torch Size": _size,
}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": (), "EMPTY_LIST": _LIST, "MARK": _MARK}


def _is_whole(value: object) -> bool:
    return type(value) is int and value >= 0


def _require(condition: bool, fault: str) -> None:
    if not condition:
        raise ValueError(f"its pickle {fault}")
