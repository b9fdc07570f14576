"""Rewrites the source of a script so that the progress of its loops and statements can be read and set.

A `for` statement iterates over a mark of `_loops`, kept in a variable; so does the outermost loop of a generator expression,
and `yield from`; `next()` becomes a function of `_loops`. A value that waits on the evaluation stack while a call runs (`total += step()`) becomes a variable, and
the order of evaluation stays. What cannot be rewritten in this way is noted by its lines. Bodies of classes and methods
called `forward` (which torch traces) stay as they are. This module needs Python alone.
"""

import ast
import types
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

PREFIX = "_et_"  # of the variables that are added
LOOP_PREFIX = PREFIX + "loop"
IMPORTED = (("mark", "__et_mark__"), ("wrap", "__et_wrap__"), ("delegate", "__et_delegate__"), ("draw", "__et_draw__"))
LOOPS_MODULE = "elastictrain.torch.progress._loops"
DRIVERS = frozenset(("list", "tuple", "set", "frozenset", "dict", "sum", "max", "min", "any", "all", "sorted", "reduce",
                     "deque", "join", "extend", "fromiter", "Counter"))  # functions that call others and gather what these return
LAZY = frozenset(("map", "filter", "starmap"))
TRAINS_NOTHING = frozenset(("abs", "bool", "float", "hash", "id", "int", "isinstance", "len", "range", "repr", "round", "str", "type"))
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp)
Position = Tuple[int, int, int, int]  # line, column, last line, last column


class Notes(NamedTuple):
    """What is known of a rewritten file. Lines are ranges, both ends included."""
    waiting: Set[Position]  # calls that run while a value waits on the evaluation stack
    waiting_lines: List[Tuple[int, int]]  # of those that may train, for interpreters that do not know which call of a line runs
    lazily_driven: List[Tuple[int, int]]  # calls such as sum(map(…))
    drivers: Set[Position]  # calls of DRIVERS
    loops: Set[Tuple[int, int]]  # line and column of each rewritten `for`, and of what it iterates over


class Rewritten(NamedTuple):
    code: types.CodeType
    notes: Optional[Notes]  # None: it runs as it is
    reason: str  # why


def rewritten(source: Union[str, bytes], path: str) -> Rewritten:
    """The code of a module. Raises SyntaxError as compile() does; any other trouble leaves the module as it is."""
    tree = ast.parse(source, path)
    try:
        rewriter = _Rewriter()
        rewriter.visit(tree)
        _Draws.change(tree)
        _add_import(tree)
        ast.fix_missing_locations(tree)
        code = compile(tree, path, "exec", dont_inherit=True)
        return Rewritten(code, _notes_of(tree, rewriter.loops), "")
    except Exception as error:
        reason = f"{path} could not be rewritten: {type(error).__name__}: {error}"
        return Rewritten(compile(source, path, "exec", dont_inherit=True), None, reason)


def _notes_of(tree: ast.AST, loops: Set[Tuple[int, int]]) -> Notes:
    waiting = list(_waiting(tree))
    lines = [(call.lineno, call.end_lineno or call.lineno) for call in waiting
             if not (isinstance(call.func, ast.Name) and call.func.id in TRAINS_NOTHING)]
    return Notes({_position_of(call) for call in waiting}, lines, list(_lazily_driven(tree)), _drivers(tree), loops)


def _add_import(tree: ast.Module) -> None:
    """Behind the documentation and what has to come first."""
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names = [ast.alias(name, alias) for name, alias in IMPORTED if alias in used]
    place = 0
    for node in tree.body:
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_text and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            break
        place += 1
    if names:
        tree.body.insert(place, ast.ImportFrom(LOOPS_MODULE, names, 0))


# --- The order of evaluation

def operands_of(node: ast.AST) -> List[ast.expr]:
    """The parts of an expression whose values wait for each other, in the order in which they are evaluated."""
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.Call):
        callee = [] if isinstance(node.func, ast.Name) else [node.func]
        return [*callee, *node.args, *(keyword.value for keyword in node.keywords)]
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return list(node.elts)
    if isinstance(node, ast.Dict):
        return [part for pair in zip(node.keys, node.values) for part in pair if part is not None]
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.Subscript):
        return [node.value, *([node.slice] if not isinstance(node.slice, ast.Slice) else _bounds(node.slice))]
    if isinstance(node, ast.Slice):
        return _bounds(node)
    if isinstance(node, ast.JoinedStr):
        return [part.value if isinstance(part, ast.FormattedValue) else part for part in node.values]
    return []


def _bounds(node: ast.Slice) -> List[ast.expr]:
    return [bound for bound in (node.lower, node.upper, node.step) if bound is not None]


def has_call(node: ast.AST) -> bool:
    """Whether evaluating it may call a function of the script."""
    if isinstance(node, (ast.Call, ast.Await, ast.Yield, ast.YieldFrom) + COMPREHENSIONS):
        return True
    return not isinstance(node, ast.Lambda) and any(has_call(child) for child in ast.iter_child_nodes(node))


def _waiting(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        waits = False
        for operand in operands_of(node):
            if waits and has_call(operand):
                yield from (call for call in ast.walk(operand) if isinstance(call, ast.Call))
            is_callee = isinstance(node, ast.Call) and operand is node.func
            waits = waits or not (is_callee or isinstance(operand, ast.Constant))


def _name_of(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _driver_calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call) and _name_of(node) in DRIVERS)


def _drivers(tree: ast.AST) -> Set[Position]:
    return {_position_of(call) for call in _driver_calls(tree)}


def _position_of(call: ast.Call) -> Position:
    return call.lineno, call.col_offset, call.end_lineno or call.lineno, call.end_col_offset or 0


def _lazily_driven(tree: ast.AST) -> Iterator[Tuple[int, int]]:
    for call in _driver_calls(tree):
        if any(isinstance(node, ast.Call) and _name_of(node) in LAZY for part in call.args for node in ast.walk(part)):
            yield call.lineno, call.end_lineno or call.lineno


# --- The rewriting

class _Draws(ast.NodeTransformer):
    """next(), where that is Python's own."""

    @classmethod
    def change(cls, tree: ast.Module) -> None:
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
        names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        names |= {node.asname or node.name for node in ast.walk(tree) if isinstance(node, ast.alias)}
        methods = {id(part) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for part in node.body}
        names |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and id(node) not in methods}
        if "next" not in names:
            cls().visit(tree)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node if node.name == "forward" else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "next":
            node.func = ast.copy_location(ast.Name("__et_draw__", ast.Load()), node.func)
        return node


class _Rewriter(ast.NodeTransformer):
    def __init__(self) -> None:
        self.loops: Set[Tuple[int, int]] = set()
        self._before: List[ast.stmt] = []  # the present statement
        self._names: List[str] = []

    # Definitions

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """The variables of its body are the attributes of the class."""
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        node.body = [self.visit(part) if isinstance(part, (*functions, ast.ClassDef)) and
                     not (isinstance(part, functions) and part.name == "forward") else part for part in node.body]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.body = self._statements(node.body)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        node.body = self._statements(node.body)
        return node

    def _statements(self, body: Sequence[ast.stmt]) -> List[ast.stmt]:
        made: List[ast.stmt] = []
        for part in body:
            value = self.visit(part)
            made += value if isinstance(value, list) else [value]
        return made

    # Loops

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        # An interpreter gives a loop's instruction the place of one of them.
        self.loops |= {(node.lineno, node.col_offset), (node.iter.lineno, node.iter.col_offset)}
        node.iter = self._marked(node.iter, node.lineno, "__et_mark__")
        return node

    def _marked(self, iterated: ast.expr, line: int, function: str) -> ast.expr:
        call = ast.Call(ast.Name(function, ast.Load()), [iterated], [])
        made = ast.NamedExpr(ast.Name(f"{LOOP_PREFIX}{line}", ast.Store()), call)
        for node in (call.func, call, made.target, made):
            ast.copy_location(node, iterated)
        return made

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        first = node.generators[0]
        if not first.is_async:
            call = ast.Call(ast.Name("__et_wrap__", ast.Load()), [first.iter], [])
            first.iter = ast.copy_location(call, first.iter)
        return node

    def visit_YieldFrom(self, node: ast.YieldFrom) -> ast.AST:
        self.generic_visit(node)
        node.value = self._marked(node.value, node.lineno, "__et_delegate__")
        return node

    def _left(self, node: ast.expr) -> ast.AST:
        return node

    visit_Lambda = visit_ListComp = visit_SetComp = visit_DictComp = _left

    # Statements

    def visit_Assign(self, node: ast.Assign) -> object:
        return self._with_value(node)

    def visit_Expr(self, node: ast.Expr) -> object:
        return self._with_value(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> object:
        return self._with_value(node) if node.value is not None else node

    def visit_Return(self, node: ast.Return) -> object:
        return self._with_value(node) if node.value is not None else node

    def _with_value(self, node: Union[ast.Assign, ast.Expr, ast.AnnAssign, ast.Return]) -> object:
        self.generic_visit(node)
        assert node.value is not None
        self._before, self._names = [], []
        node.value = self._hoisted(node.value)
        return self._around(node)

    def visit_If(self, node: ast.If) -> object:
        node.test = self.visit(node.test)
        node.body, node.orelse = self._statements(node.body), self._statements(node.orelse)
        self._before, self._names = [], []
        node.test = self._hoisted(node.test)
        if not self._names:
            return node
        operands = list(self._names)
        node.test = self._kept(node.test)
        assert isinstance(node.test, ast.Name)
        return [*self._before, self._cleared(operands, node), node]

    def visit_AugAssign(self, node: ast.AugAssign) -> object:
        self.generic_visit(node)
        is_slice = isinstance(node.target, ast.Subscript) and _has_slice(node.target.slice)
        if not has_call(node.value) or is_slice:
            return node
        self._before, self._names = [], []
        target = node.target
        if isinstance(target, ast.Attribute):
            target.value = self._kept(self._hoisted(target.value))
            old: ast.expr = ast.Attribute(target.value, target.attr, ast.Load())
        elif isinstance(target, ast.Subscript):
            target.value, target.slice = self._kept(self._hoisted(target.value)), self._kept(self._hoisted(target.slice))
            old = ast.Subscript(target.value, target.slice, ast.Load())
        else:
            old = ast.Name(target.id, ast.Load())
        held = self._kept(ast.copy_location(old, target))
        assert isinstance(held, ast.Name)
        value = self._kept(self._hoisted(node.value))
        change = ast.AugAssign(ast.Name(held.id, ast.Store()), node.op, value)
        self._before.append(ast.copy_location(change, node))
        store = ast.Assign([target], ast.Name(held.id, ast.Load()))
        return self._around(ast.copy_location(store, node))

    def _around(self, node: ast.stmt) -> object:
        """The statement with the variables that it needs before it, which are empty behind it."""
        if not self._names:
            return node
        end = [] if isinstance(node, ast.Return) else [self._cleared(self._names, node)]
        return [*self._before, node, *end]

    def _cleared(self, names: Sequence[str], node: ast.stmt) -> ast.stmt:
        made = ast.Assign([ast.Name(name, ast.Store()) for name in names], ast.Constant(None))
        return ast.copy_location(made, node)

    # Expressions

    def _kept(self, value: ast.expr) -> ast.expr:
        """A variable for a value, before the statement."""
        if isinstance(value, ast.Constant):
            return value
        name = f"{PREFIX}{len(self._names) + 1}"
        self._names.append(name)
        if isinstance(value, ast.Starred):
            gathered: ast.expr = ast.Tuple([value], ast.Load())
        else:
            gathered = value
        self._before.append(ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], gathered), value))
        load = ast.copy_location(ast.Name(name, ast.Load()), value)
        return ast.copy_location(ast.Starred(load, ast.Load()), value) if isinstance(value, ast.Starred) else load

    def _hoisted(self, node: ast.expr) -> ast.expr:
        """The expression, whose operands no longer wait on the stack while a call runs."""
        if not has_call(node):
            return node
        if isinstance(node, (ast.Attribute, ast.Starred, ast.Await, ast.NamedExpr, ast.FormattedValue)):
            node.value = self._hoisted(node.value)
        elif isinstance(node, ast.UnaryOp):
            node.operand = self._hoisted(node.operand)
        elif isinstance(node, ast.Yield) and node.value is not None:
            node.value = self._hoisted(node.value)
        elif isinstance(node, ast.BoolOp):
            node.values[0] = self._hoisted(node.values[0])
        elif isinstance(node, ast.IfExp):
            node.test = self._hoisted(node.test)
        else:
            self._hoist_operands(node)
        return node

    def _hoist_operands(self, node: ast.expr) -> None:
        if isinstance(node, ast.BinOp):
            node.left, node.right = self._in_order([node.left, node.right])
        elif isinstance(node, ast.Call):
            self._hoist_call(node)
        elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            node.elts = self._in_order(node.elts)
        elif isinstance(node, ast.Dict):
            self._hoist_dict(node)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            node.left, node.comparators[0] = self._in_order([node.left, node.comparators[0]])
        elif isinstance(node, ast.Compare):
            node.left = self._hoisted(node.left)
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            bounds = [name for name in ("lower", "upper", "step") if getattr(node.slice, name) is not None]
            node.value, *made = self._in_order([node.value, *_bounds(node.slice)])
            for name, bound in zip(bounds, made):
                setattr(node.slice, name, bound)
        elif isinstance(node, ast.Subscript) and _has_slice(node.slice):
            node.value = self._hoisted(node.value)
        elif isinstance(node, ast.Subscript):
            node.value, node.slice = self._in_order([node.value, node.slice])
        elif isinstance(node, ast.JoinedStr):
            node.values = self._in_order(node.values)

    def _hoist_call(self, node: ast.Call) -> None:
        callee = [] if isinstance(node.func, ast.Name) else [node.func]
        named = [keyword.value if keyword.arg is not None else _unpacked(keyword.value) for keyword in node.keywords]
        made = self._in_order([*callee, *node.args, *named])
        if callee:
            node.func = made.pop(0)
        node.args = made[:len(node.args)]
        for keyword, value in zip(node.keywords, made[len(node.args):]):
            keyword.value = value

    def _hoist_dict(self, node: ast.Dict) -> None:
        if node.keys == [None]:
            node.values[0] = self._hoisted(node.values[0])
            return
        parts: List[ast.expr] = []
        for key, value in zip(node.keys, node.values):
            parts += [key, value] if key is not None else [_unpacked(value)]
        made = iter(self._in_order(parts))
        for number, key in enumerate(node.keys):
            node.keys[number] = next(made) if key is not None else None
            node.values[number] = next(made)

    def _in_order(self, operands: Sequence[ast.expr]) -> List[ast.expr]:
        """All up to the last one with a call become variables, unless nothing but constants waits for it."""
        last = max((number for number, operand in enumerate(operands) if has_call(operand)), default=-1)
        first = next((number for number, operand in enumerate(operands) if not isinstance(operand, ast.Constant)), last)
        made: List[ast.expr] = []
        for number, operand in enumerate(operands):
            value = self._hoisted(operand) if number <= last else operand
            made.append(self._kept_part(value) if number <= last and first < last else value)
        return made

    def _kept_part(self, value: ast.expr) -> ast.expr:
        """A part of an f-string is kept as the text that it makes."""
        if not isinstance(value, ast.FormattedValue):
            return self._kept(value)
        text = self._kept(ast.copy_location(ast.JoinedStr([value]), value))
        return ast.copy_location(ast.FormattedValue(text, -1, None), value)


def _unpacked(value: ast.expr) -> ast.expr:
    """{**value}"""
    return ast.copy_location(ast.Dict([None], [value]), value)


def _has_slice(node: ast.AST) -> bool:
    return isinstance(node, ast.Slice) or isinstance(node, ast.Tuple) and any(isinstance(part, ast.Slice) for part in node.elts)


NOTES: Dict[str, Notes] = {}  # of each rewritten file, by its path as code objects have it
LEFT: Dict[str, str] = {}  # the files that run as they are, with the reason


def code_of(source: Union[str, bytes], path: str) -> types.CodeType:
    """The code of a module, whose notes are kept."""
    made = rewritten(source, path)
    if made.notes is None:
        LEFT[path] = made.reason
    else:
        NOTES[path] = made.notes
    return made.code
