"""Values by joint name, whatever the order in which a message brings them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.robot.joint_map import JointMap

NAMES = ("pan", "lift", "elbow", "wrist")

name_lists = st.lists(st.text("abcde_12", min_size=1, max_size=8), min_size=1, max_size=8, unique=True)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    names=name_lists,
    others=st.lists(st.text("abcde_12", min_size=9, max_size=12), max_size=4, unique=True),
    data=st.data(),
)
def test_every_value_goes_to_the_joint_of_its_name(names: list[str], others: list[str], data: st.DataObject) -> None:
    message_names = data.draw(st.permutations(names + others))
    values = {name: float(i) for i, name in enumerate(message_names)}
    taken = JointMap(names).take(message_names, list(values.values()))
    assert taken.tolist() == [values[name] for name in names]


@settings(max_examples=50, deadline=None, derandomize=True)
@given(first=st.permutations(NAMES), second=st.permutations(NAMES))
def test_the_order_may_change_from_message_to_message(first: list[str], second: list[str]) -> None:
    joint_map = JointMap(NAMES)
    for message_names in (first, second, first):
        assert [message_names[i] for i in joint_map.indices(message_names)] == list(NAMES)


def test_a_known_order_is_not_searched_again() -> None:
    joint_map = JointMap(NAMES)
    assert joint_map.indices(list(NAMES)) is joint_map.indices(NAMES)


def test_whole_recordings_are_taken_at_once() -> None:
    values = np.arange(8.0).reshape(2, 4)
    taken = JointMap(NAMES).take(NAMES[::-1], values)
    assert taken.tolist() == [[3.0, 2.0, 1.0, 0.0], [7.0, 6.0, 5.0, 4.0]]


@pytest.mark.parametrize(
    ("message_names", "values", "words"),
    [
        (("pan", "lift", "wrist"), (1, 2, 3), ("elbow", "missing")),
        ((), (), ("pan, lift, elbow, wrist", "none")),
        ((*NAMES, "pan"), (1, 2, 3, 4, 5), ("pan", "twice")),
        ((*NAMES, "finger", "finger"), (1, 2, 3, 4, 5, 6), ("finger", "twice")),
        (NAMES, (1, 2, 3), ("3 values", "4 joints")),
        (NAMES, (), ("0 values", "4 joints")),
    ],
)
def test_a_message_that_does_not_fit_is_refused(
    message_names: tuple[str, ...], values: tuple[float, ...], words: tuple[str, ...]
) -> None:
    with pytest.raises(RealityGradError) as caught:
        JointMap(NAMES).take(message_names, values)
    assert all(word in str(caught.value) for word in words)
    assert "\n" not in str(caught.value)


def test_a_map_of_a_name_twice_is_refused() -> None:
    with pytest.raises(RealityGradError, match="'pan' is named twice"):
        JointMap(("pan", "pan"))
