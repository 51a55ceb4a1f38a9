"""Parameters of a node: type, range, and the reason given when one is refused."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.nodes.parameter_rules import ParameterRule


@given(st.integers(0, 10) | st.floats(0, 10))
def test_a_number_in_range_becomes_a_float(value):
    coerced = ParameterRule.of("rate", 1.0, 0.0, 10.0).coerce(value)
    assert type(coerced) is float
    assert coerced == value


@pytest.mark.parametrize("value", ["1", True, None, [1.0], math.nan, math.inf, -0.1, 10.1])
def test_anything_else_is_refused_by_name_and_range(value):
    with pytest.raises(RealityGradError, match=r"parameter 'rate' is .*; it must be a number from 0 to 10"):
        ParameterRule.of("rate", 1.0, 0.0, 10.0).coerce(value)


def test_a_list_of_integers_serves_for_floats():
    assert ParameterRule.of("gains", [0.5], 0.0, None).coerce([1, 2]) == [1.0, 2.0]


@pytest.mark.parametrize("value", ["a,b", [1, 2], [True]])
def test_an_empty_default_stands_for_strings(value):
    with pytest.raises(RealityGradError, match=r"parameter 'topics' is .* a list, each element a string"):
        ParameterRule.of("topics", [], None, None).coerce(value)


def test_an_untyped_empty_list_is_an_empty_list():
    assert ParameterRule.of("topics", ["imu"], None, None).coerce(None) == []


@pytest.mark.parametrize("value", [1.0, True, 0, 6])
def test_an_integer_stays_an_integer(value):
    with pytest.raises(RealityGradError, match="an integer from 1 to 5"):
        ParameterRule.of("count", 3, 1, 5).coerce(value)


@pytest.mark.parametrize("value", [None, [], [1.0], [1.0, 2.0, 3.0], 1.0])
def test_a_list_of_another_length_is_refused(value):
    with pytest.raises(
        RealityGradError, match=r"parameter 'gains' is .*; it must be a list of 2, each element a number"
    ):
        ParameterRule.of("gains", [0.5, 0.5], None, None, length=2).coerce(value)
