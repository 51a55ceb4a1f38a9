"""Traced mathematics: simplification keeps values, and both derivatives are right."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realitygrad_ros.physics.trace import Number, Scalar, Trace, clamp, gradient, sin, statements, tangent, tanh

NAMES = ("a", "b", "c")


class _Plain:
    """Stands for the module `warp` when traced source runs on Python numbers."""

    float64 = float
    sin, cos, tanh = math.sin, math.cos, math.tanh

    @staticmethod
    def clamp(x: float, lower: float, upper: float) -> float:
        return min(max(x, lower), upper)

    @staticmethod
    def where(condition: bool, x: float, y: float) -> float:
        return x if condition else y


def evaluate(outputs: list[Number], values: dict[str, float]) -> list[float]:
    """Run the printed source on numbers."""
    scope: dict[str, object] = {"wp": _Plain, **values}
    named = {f"y{i}": output for i, output in enumerate(outputs)}
    exec("\n".join(statements(named, "wp.float64")), scope)
    return [scope[name] for name in named]  # type: ignore[misc]


leaves = st.one_of(st.sampled_from(NAMES), st.sampled_from([0.0, 1.0, -1.0, 2.0, 0.5]))
unary = ("negate", "sin", "cos", "tanh", "clamp")
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["+", "-", "*", "/"]), inner, inner), st.tuples(st.sampled_from(unary), inner)
    ),
    max_leaves=20,
)


def build(expression: object, leaf: dict[str, object]) -> object:
    """An expression on whatever kind of scalar the leaves are; division is kept away from zero."""
    if isinstance(expression, str):
        return leaf[expression]
    if isinstance(expression, float):
        return expression
    operation, *operands = expression
    x, *rest = (build(operand, leaf) for operand in operands)
    if rest:
        y = rest[0]
        return {"+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "/": lambda: x / (2.0 + y * y)}[operation]()
    from realitygrad_ros.physics import trace

    return {
        "negate": lambda: -x,
        "sin": lambda: trace.sin(x),
        "cos": lambda: trace.cos(x),
        "tanh": lambda: trace.tanh(x),
        "clamp": lambda: trace.clamp(x, -0.4, 0.7),
    }[operation]()


points = st.tuples(*[st.floats(-1.5, 1.5) for _ in NAMES])


@given(expressions, points)
@settings(deadline=None)
def test_traced_source_computes_what_numbers_give(expression, point):
    trace = Trace()
    traced = build(expression, {name: trace.variable(name) for name in NAMES})
    values = dict(zip(NAMES, point, strict=True))
    assert evaluate([traced], values)[0] == pytest.approx(float(build(expression, values)), rel=1e-12, abs=1e-12)


@given(expressions, points, points)
@settings(deadline=None)
def test_both_derivatives_are_those_of_torch(expression, point, direction):
    import torch

    tensors = {n: torch.tensor(v, dtype=torch.float64, requires_grad=True) for n, v in zip(NAMES, point, strict=True)}
    expected = torch.zeros(3, dtype=torch.float64)
    value = build(expression, tensors)
    if isinstance(value, torch.Tensor):
        grads = torch.autograd.grad(value, list(tensors.values()), allow_unused=True)
        expected = torch.stack([torch.zeros((), dtype=torch.float64) if g is None else g for g in grads])
    trace = Trace()
    variables = {name: trace.variable(name) for name in NAMES}
    traced = build(expression, variables)
    values = dict(zip(NAMES, point, strict=True))
    reverse = evaluate(gradient([(traced, 1.0)], list(variables.values())), values)
    np.testing.assert_allclose(reverse, expected.numpy(), rtol=1e-9, atol=1e-9)
    rates = dict(zip(variables.values(), direction, strict=True))
    forward = evaluate(tangent([traced], rates), values)[0]
    assert forward == pytest.approx(float(expected @ torch.tensor(direction, dtype=torch.float64)), rel=1e-9, abs=1e-9)


def test_constants_fold_and_equal_expressions_are_one_node():
    trace = Trace()
    a, b = trace.variable("a"), trace.variable("b")
    assert a * 0.0 == 0.0
    assert a * 1.0 is a
    assert a + 0.0 is a
    assert a - a == 0.0
    negated = -a
    assert -negated is a
    assert a * b is b * a
    assert a + b is b + a
    assert a * -b is -(b * a)
    assert sin(a) is sin(a)
    assert len(trace.needed([tanh(a) * tanh(a)])) == 3


def test_derivatives_stop_at_their_inputs():
    """An input that was computed from another is independent of it."""
    trace = Trace()
    a = trace.variable("a")
    middle = a * a
    assert isinstance(middle, Scalar)
    assert gradient([(middle * a, 1.0)], [a, middle]) == [middle, a]
    assert tangent([middle * a], {middle: 1.0, a: 0.0}) == [a]


def test_clamp_of_numbers_and_arrays():
    np.testing.assert_array_equal(clamp(np.array([-2.0, 0.1, 3.0]), -1.0, 1.0), [-1.0, 0.1, 1.0])
