"""Small changes to a Python file, each of which its tests should notice.

A mutant is the file with one change: another comparison or operator, another constant, a condition negated, a keyword
argument or a call statement left out, None returned. Annotations, docstrings, error messages and ``device=`` arguments stay
as they are: on a machine with one device the last cannot matter.
"""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

_COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_LEFT_ALONE = {"annotation", "returns", "decorator_list", "type_params", "bases"}


@dataclass(frozen=True)
class Mutant:
    """One change to a file.

    Attributes:
        position: number of the change within the file.
        line: text of the line that is changed.
        change: what is changed.
    """

    position: int
    line: str
    change: str


def mutants(source: str) -> list[Mutant]:
    """Return all changes to a file.

    Example:
        >>> for mutant in mutants("def f(x):\\n    return x + 1"):
        ...     print(mutant.change)
        return None
        Add -> Sub
        1 -> 2
    """
    lines = source.splitlines()
    sites = enumerate(_sites(ast.parse(source)))
    return [Mutant(position, lines[line - 1].strip(), change) for position, (line, change, _) in sites]


def mutated(source: str, mutant: Mutant) -> str:
    """Return the file with the change.

    Example:
        >>> source = "def f(x):\\n    return x + 1"
        >>> print(mutated(source, mutants(source)[1]))
        def f(x):
            return x - 1
    """
    tree = ast.parse(source)
    list(_sites(tree))[mutant.position][2]()
    return ast.unparse(ast.fix_missing_locations(tree))


Site = tuple[int, str, Callable[[], None]]  # line, description, function that makes the change in the tree


def _sites(tree: ast.AST) -> Iterator[Site]:
    """Yield the places that can be changed, in the order of the file."""
    for field, value in ast.iter_fields(tree):
        if field in _LEFT_ALONE:
            continue
        if isinstance(value, ast.AST):
            yield from _of(value, partial(setattr, tree, field))
        elif isinstance(value, list):
            for i, item in enumerate(value):
                if isinstance(item, ast.AST):
                    yield from _of(item, partial(value.__setitem__, i))


def _of(node: ast.AST, put: Callable[[ast.AST], None]) -> Iterator[Site]:
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert | ast.Import | ast.ImportFrom):
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):  # a docstring
        return
    if isinstance(node, ast.FunctionDef) and any(ast.unparse(mark) == "overload" for mark in node.decorator_list):
        return
    for change, new in _changes(node):
        yield node.lineno, change, partial(put, new)  # type: ignore[attr-defined]
    if isinstance(node, ast.Call):
        for keyword in node.keywords:
            if keyword.arg not in (None, "device"):
                yield keyword.value.lineno, f"without {keyword.arg}=", partial(node.keywords.remove, keyword)
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
        return  # -1 becomes 1; that is enough
    yield from _sites(node)


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield descriptions and replacements of a node."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=comparators):
            other = _COMPARE[type(op)]
            yield f"{type(op).__name__} -> {other.__name__}", ast.Compare(left, [other()], comparators)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            swapped = _ARITHMETIC[type(op)]
            yield f"{type(op).__name__} -> {swapped.__name__}", ast.BinOp(left, swapped(), right)
        case ast.UnaryOp(op=op, operand=operand):
            yield f"without {type(op).__name__}", operand
        case ast.BoolOp(op=op, values=values):
            turned: ast.boolop = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield f"{type(op).__name__} -> {type(turned).__name__}", ast.BoolOp(turned, values)
        case ast.Constant(value=bool() as flag):
            yield f"{flag} -> {not flag}", ast.Constant(not flag)
        case ast.Constant(value=int() | float() as number):
            yield f"{number} -> {number + 1}", ast.Constant(number + 1)
        case ast.If(test=test, body=body, orelse=orelse) if not isinstance(test, ast.Compare | ast.UnaryOp):
            yield "condition negated", ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield "return None", ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call(func=func)):
            yield f"without the call of {ast.unparse(func)}", ast.Pass()
