"""Traced scalars: mathematics written once runs on numbers, or records itself to be printed as straight-line code.

A `Scalar` stands for a number that a kernel will compute. Arithmetic on scalars records nodes in a `Trace`: equal
expressions are recorded once, constants are folded, and sums with zero and products with zero or one vanish, so the
constants of a robot's geometry cost nothing at run time. `gradient` and `tangent` differentiate what was recorded, by
reverse and by forward accumulation (Griewank and Walther, Evaluating Derivatives, 2008, chapter 3); the derivative is
recorded in the same trace and shares every subexpression with it.

Functions here that are also methods of a torch tensor (`sin`, `cos`, `tanh`, `sqrt`, `clamp`) may be applied to
scalars, tensors, numpy arrays and floats alike.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Final, Union

import numpy as np

LARGE: Final = 1e30
"""Stands for infinity in a bound; Warp has no literal for that."""

Number = Union["Scalar", float]
"""What traced mathematics computes with: a recorded scalar or a constant."""


class Scalar:
    """A node of a trace: an operation on earlier nodes and constants. Made by a `Trace` alone."""

    __slots__ = ("index", "operands", "operation", "trace", "uses")

    def __init__(self, trace: "Trace", index: int, operation: str, operands: tuple[Any, ...]) -> None:
        self.trace = trace
        self.index = index
        self.operation = operation
        self.operands = operands
        self.uses = 0
        """How many later nodes have it as an operand."""

    def __add__(self, other: Number) -> Number:
        return self.trace.add(self, other)

    def __radd__(self, other: Number) -> Number:
        return self.trace.add(other, self)

    def __sub__(self, other: Number) -> Number:
        return self.trace.subtract(self, other)

    def __rsub__(self, other: Number) -> Number:
        return self.trace.subtract(other, self)

    def __mul__(self, other: Number) -> Number:
        return self.trace.multiply(self, other)

    def __rmul__(self, other: Number) -> Number:
        return self.trace.multiply(other, self)

    def __truediv__(self, other: Number) -> Number:
        return self.trace.divide(self, other)

    def __rtruediv__(self, other: Number) -> Number:
        return self.trace.divide(other, self)

    def __neg__(self) -> Number:
        return self.trace.negate(self)

    def sin(self) -> "Scalar":
        """Sine."""
        return self.trace.record("sin", self)

    def cos(self) -> "Scalar":
        """Cosine."""
        return self.trace.record("cos", self)

    def tanh(self) -> "Scalar":
        """Hyperbolic tangent."""
        return self.trace.record("tanh", self)

    def sqrt(self) -> "Scalar":
        """Square root."""
        return self.trace.record("sqrt", self)

    def inverse_root_beyond(self, limit: Number) -> "Scalar":
        """See the function `inverse_root_beyond`."""
        return self.trace.record("inverse_root_beyond", self, limit)

    def clamp(self, lower: Number, upper: Number) -> "Scalar":
        """Nearest number in [lower, upper]; the bounds are held constant by the derivatives."""
        return self.trace.record("clamp", self, lower, upper)

    def inside(self, lower: Number, upper: Number) -> "Scalar":
        """The derivative of `clamp`: one strictly between the bounds, else zero."""
        return self.trace.record("inside", self, lower, upper)


class Trace:
    """A recording of scalar arithmetic. Nodes stand in the order in which they can be computed."""

    def __init__(self, prefix: str = "x") -> None:
        """Start a recording whose nodes are printed as `prefix` and their index."""
        self.prefix = prefix
        self.nodes: list[Scalar] = []
        self._known: dict[tuple[Any, ...], Scalar] = {}

    def variable(self, name: str) -> Scalar:
        """A scalar that the surrounding code names."""
        return self.record("variable", name)

    def variables(self, prefix: str, count: int) -> list[Scalar]:
        """`count` variables, named `prefix_0`, `prefix_1` and so on."""
        return [self.variable(f"{prefix}_{i}") for i in range(count)]

    def record(self, operation: str, *operands: Any) -> Scalar:
        """The node for an operation; the same node if it was recorded before."""
        key = (operation, *(("node", o.index) if isinstance(o, Scalar) else o for o in operands))
        node = self._known.get(key)
        if node is None:
            node = Scalar(self, len(self.nodes), operation, operands)
            for operand in operands:
                if isinstance(operand, Scalar):
                    operand.uses += 1
            self.nodes.append(node)
            self._known[key] = node
        return node

    def add(self, a: Number, b: Number) -> Number:
        """`a + b`, simplified."""
        if not isinstance(a, Scalar):
            return self.add(b, a) if isinstance(b, Scalar) else a + b
        if not isinstance(b, Scalar):
            return a if b == 0.0 else self.record("add", a, float(b))
        if b.operation == "negate":
            return self.subtract(a, b.operands[0])
        if a.operation == "negate":
            return self.subtract(b, a.operands[0])
        return self.record("add", *_ordered(a, b))

    def subtract(self, a: Number, b: Number) -> Number:
        """`a - b`, simplified."""
        if not isinstance(b, Scalar):
            return self.add(a, -b)
        if isinstance(a, Scalar) and a is b:
            return 0.0
        if b.operation == "negate":
            return self.add(a, b.operands[0])
        if not isinstance(a, Scalar):
            return self.negate(b) if a == 0.0 else self.record("subtract", float(a), b)
        if a.operation == "negate":
            return self.negate(self.add(a.operands[0], b))
        return self.record("subtract", a, b)

    def multiply(self, a: Number, b: Number) -> Number:
        """`a * b`, simplified; a sign moves outwards, so that it meets other signs."""
        if not isinstance(a, Scalar):
            return self.multiply(b, a) if isinstance(b, Scalar) else a * b
        if a.operation == "negate":
            return self.negate(self.multiply(a.operands[0], b))
        if isinstance(b, Scalar):
            if b.operation == "negate":
                return self.negate(self.multiply(a, b.operands[0]))
            return self.record("multiply", *_ordered(a, b))
        if b == 0.0:
            return 0.0
        if b < 0.0:
            return self.negate(self.multiply(a, -b))
        return a if b == 1.0 else self.record("multiply", a, float(b))

    def divide(self, a: Number, b: Number) -> Number:
        """`a / b`, simplified."""
        if not isinstance(b, Scalar):
            return self.multiply(a, 1.0 / b)
        if not isinstance(a, Scalar):
            return 0.0 if a == 0.0 else self.record("divide", float(a), b)
        return self.record("divide", a, b)

    def negate(self, a: Number) -> Number:
        """`-a`, simplified."""
        if not isinstance(a, Scalar):
            return -a
        if a.operation == "negate":
            return a.operands[0]
        if a.operation == "subtract":
            return self.subtract(a.operands[1], a.operands[0])
        return self.record("negate", a)

    def needed(self, outputs: Iterable[Number], leaves: Container[int] = ()) -> list[Scalar]:
        """The nodes that the outputs depend on, in the order of computation; none behind a leaf, given by index."""
        pending = [output for output in outputs if isinstance(output, Scalar)]
        found: dict[int, Scalar] = {}
        while pending:
            node = pending.pop()
            if node.index not in found:
                found[node.index] = node
                if node.index in leaves:
                    continue
                pending += [operand for operand in node.operands if isinstance(operand, Scalar)]
        return [found[index] for index in sorted(found)]


def _ordered(a: Scalar, b: Scalar) -> tuple[Scalar, Scalar]:
    """Operands of a commutative operation in one order, so that `a b` and `b a` are one node."""
    return (a, b) if a.index <= b.index else (b, a)


def sin(x: Any) -> Any:
    """Sine of a scalar, tensor, array or float [rad]."""
    return x.sin() if hasattr(x, "sin") else np.sin(x)


def cos(x: Any) -> Any:
    """Cosine of a scalar, tensor, array or float [rad]."""
    return x.cos() if hasattr(x, "cos") else np.cos(x)


def tanh(x: Any) -> Any:
    """Hyperbolic tangent of a scalar, tensor, array or float."""
    return x.tanh() if hasattr(x, "tanh") else np.tanh(x)


def sqrt(x: Any) -> Any:
    """Square root of a scalar, tensor, array or float."""
    return x.sqrt() if hasattr(x, "sqrt") else np.sqrt(x)


def inside(x: Any, lower: Any, upper: Any) -> Any:
    """One where `x` is strictly between the bounds, else zero, for a scalar, array or float; its derivative is zero."""
    return x.inside(lower, upper) if hasattr(x, "inside") else np.where((x > lower) & (x < upper), 1.0, 0.0)


def positive_part(x: Any) -> Any:
    """The larger of `x` and zero, for a scalar, tensor, array or float."""
    return clamp(x, 0.0, LARGE)


def inverse_root_beyond(x: Any, limit: Any) -> Any:
    """1 / sqrt(x) where `x` exceeds the limit, else zero, for a scalar, array or float.

    A kernel branches here, for both operations are slow and seldom needed; the limit has no derivative.
    """
    if hasattr(x, "inverse_root_beyond"):
        return x.inverse_root_beyond(limit)
    return np.where(x > limit, 1.0 / np.sqrt(np.where(x > limit, x, 1.0)), 0.0)


def maximum(a: Any, b: Any) -> Any:
    """The larger of two scalars, arrays or floats."""
    return b + positive_part(a - b)


def clamp(x: Any, lower: Any, upper: Any) -> Any:
    """Nearest number in [lower, upper], for a scalar, tensor, array or float."""
    return x.clamp(lower, upper) if hasattr(x, "clamp") else np.clip(x, lower, upper)


def _partials(node: Scalar) -> list[tuple[Scalar, Number]]:
    """Each traced operand of a node with the partial derivative of the node by it."""
    first = node.operands[0]
    if node.operation in ("variable", "inside"):
        return []
    if node.operation == "negate":
        return [(first, -1.0)]
    if node.operation == "sin":
        return [(first, first.cos())]
    if node.operation == "cos":
        return [(first, -first.sin())]
    if node.operation == "tanh":
        return [(first, 1.0 - node * node)]
    if node.operation == "sqrt":
        return [(first, 0.5 / node)]
    if node.operation == "inverse_root_beyond":
        return [(first, -0.5 * node * node * node)]
    if node.operation == "clamp":
        return [(first, first.inside(node.operands[1], node.operands[2]))]
    second = node.operands[1]
    by_operand: tuple[Number, Number] = {
        "add": lambda: (1.0, 1.0),
        "subtract": lambda: (1.0, -1.0),
        "multiply": lambda: (second, first),
        "divide": lambda: (1.0 / second, -node / second),
    }[node.operation]()
    return [(o, d) for o, d in zip((first, second), by_operand, strict=True) if isinstance(o, Scalar)]


def gradient(outputs: Sequence[tuple[Number, Number]], inputs: Sequence[Scalar]) -> list[Number]:
    """Reverse accumulation: the derivative of `sum(adjoint * output)` by each input, adjoints held constant.

    Args:
        outputs: pairs (output, adjoint).
        inputs: nodes of the same trace, taken as independent of each other and of what they were computed from.
    """
    if not inputs:
        return []
    trace = inputs[0].trace
    adjoints: dict[int, Number] = {}
    for output, adjoint in outputs:
        if isinstance(output, Scalar):
            adjoints[output.index] = trace.add(adjoints.get(output.index, 0.0), adjoint)
    leaves = {node.index for node in inputs}
    for node in reversed(trace.needed((output for output, _ in outputs), leaves)):
        adjoint = adjoints.get(node.index, 0.0)
        if node.index in leaves or (not isinstance(adjoint, Scalar) and adjoint == 0.0):
            continue
        for operand, partial in _partials(node):
            change = trace.multiply(adjoint, partial)
            adjoints[operand.index] = trace.add(adjoints.get(operand.index, 0.0), change)
    return [adjoints.get(node.index, 0.0) for node in inputs]


def tangent(outputs: Sequence[Number], directions: Mapping[Scalar, Number]) -> list[Number]:
    """Forward accumulation: the derivative of each output along a direction in its inputs.

    Args:
        outputs: nodes or constants.
        directions: the rate of each input that changes, by node; inputs are taken as independent of each other and
            of what they were computed from.
    """
    if not directions:
        return [0.0 for _ in outputs]
    trace = next(iter(directions)).trace
    rates: dict[int, Number] = {node.index: rate for node, rate in directions.items()}
    for node in trace.needed(outputs, rates):
        if node.index in rates:
            continue
        rate: Number = 0.0
        for operand, partial in _partials(node):
            rate = trace.add(rate, trace.multiply(rates[operand.index], partial))
        rates[node.index] = rate
    return [rates[output.index] if isinstance(output, Scalar) else 0.0 for output in outputs]


def statements(outputs: Mapping[str, Number], scalar_type: str, known: set[int] | None = None) -> list[str]:
    """Straight-line Warp source that computes the outputs.

    What is used once is written where it is used, as far as a line stays short: Python and Warp read few long lines
    sooner than many short ones.

    Args:
        outputs: what to assign to each target, e.g. `{"position[t + 1, w, 0]": node}`; targets are assigned after
            everything is computed, so a target may be a variable that the expressions read.
        scalar_type: `wp.float32` or `wp.float64`, the type of every constant.
        known: indices of nodes that statements before these have computed and named; those of these are added.
    """
    known = set() if known is None else known
    trace = next((output.trace for output in outputs.values() if isinstance(output, Scalar)), Trace())
    inline: dict[int, str] = {}
    """The text of nodes that have no name."""

    def text(number: Any) -> str:
        if not isinstance(number, Scalar):
            return f"{scalar_type}({float(number)!r})"
        if number.operation == "variable":
            return str(number.operands[0])
        return inline.get(number.index, f"{trace.prefix}{number.index}")

    lines = []
    put_out = {output.index for output in outputs.values() if isinstance(output, Scalar)}
    for node in trace.needed(outputs.values(), known):
        if node.index in known or node.operation == "variable":
            continue
        operands = [text(operand) for operand in node.operands]
        name = f"{trace.prefix}{node.index}"
        if node.operation == "inverse_root_beyond":
            known.add(node.index)
            x, limit = operands
            lines += [f"{name} = {text(0.0)}", f"if {x} > {limit}:", f"    {name} = {text(1.0)} / wp.sqrt({x})"]
            continue
        expression = _expression(node.operation, operands, scalar_type)
        if node.uses == 1 and node.index not in put_out and len(expression) < _LONGEST_INLINE:
            inline[node.index] = f"({expression})"
        else:
            known.add(node.index)
            lines.append(f"{name} = {expression}")
    return lines + [f"{target} = {text(output)}" for target, output in outputs.items()]


_SYMBOLS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}

_LONGEST_INLINE = 60


def _expression(operation: str, operands: Sequence[str], scalar_type: str) -> str:
    if operation in _SYMBOLS:
        return f"{operands[0]} {_SYMBOLS[operation]} {operands[1]}"
    if operation == "negate":
        return f"-{operands[0]}"
    if operation == "inside":
        x, lower, upper = operands
        return f"wp.where({x} > {lower} and {x} < {upper}, {scalar_type}(1.0), {scalar_type}(0.0))"
    return f"wp.{operation}({', '.join(operands)})"
