"""The policy bundle: one spelling, strict reading, the law of its command."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realitygrad_ros.control.bundle import SCHEMA, PolicyBundle
from realitygrad_ros.control.observations import OBSERVATION_TERMS, REACH_TERMS, components
from realitygrad_ros.errors import RealityGradError

JOINTS = ("hip", "knee")


def make_bundle(seed: int = 0, hidden: tuple[int, ...] = (5, 4), **changes) -> PolicyBundle:
    random = np.random.default_rng(seed)
    sizes = (2 * len(JOINTS) + 3, *hidden, len(JOINTS))
    entries = {
        "robot": "leg",
        "joint_names": JOINTS,
        "layers": tuple((random.normal(size=(m, n)), random.normal(size=m)) for n, m in pairwise(sizes)),
        "activation": "tanh",
        "observation_terms": REACH_TERMS,
        "observation_mean": random.normal(size=sizes[0]),
        "observation_scale": random.uniform(0.1, 2.0, size=sizes[0]),
        "action_offset": [0.3, -0.2],
        "action_scale": [0.5, 0.4],
        "kp": [100.0, 80.0],
        "kd": [5.0, 0.0],
        "lower": [-1.0, -np.inf],
        "upper": [1.0, np.inf],
        "velocity_limit": [2.0, np.inf],
        "effort_limit": [np.inf, 30.0],
        "policy_rate": 200.0,
        "epoch": 3,
        "parent": "ab" * 32,
    }
    return PolicyBundle(**(entries | changes))


def reach_terms(position, velocity, target) -> dict[str, np.ndarray]:
    return dict(zip(REACH_TERMS, (position, velocity, target), strict=True))


BUNDLE = make_bundle()
CONTENT = BUNDLE.to_bytes()


@given(seed=st.integers(0, 1000), activation=st.sampled_from(["tanh", "elu"]), epoch=st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_reading_gives_back_what_was_written(seed, activation, epoch):
    bundle = make_bundle(seed, activation=activation, epoch=epoch, parent="")
    again = PolicyBundle.from_bytes(bundle.to_bytes(), "memory")
    assert again.to_bytes() == bundle.to_bytes()
    assert again.digest == bundle.digest
    position = np.array([0.1, 0.2])
    terms = reach_terms(position, np.array([-1.0, 1.0]), np.array([0.3, 0.0, 0.5]))
    np.testing.assert_array_equal(again.act(terms, position), bundle.act(terms, position))


@given(index=st.integers(0, len(CONTENT) - 1), change=st.integers(1, 255))
@settings(max_examples=400, deadline=None)
def test_one_wrong_byte_anywhere_is_refused(index, change):
    damaged = bytearray(CONTENT)
    damaged[index] ^= change
    with pytest.raises(RealityGradError, match="policy bundle") as caught:
        PolicyBundle.from_bytes(bytes(damaged), "memory")
    assert "\n" not in str(caught.value)


def test_every_byte_counts():
    for index in range(len(CONTENT)):
        damaged = bytearray(CONTENT)
        damaged[index] ^= 1 << (index % 8)
        with pytest.raises(RealityGradError):
            PolicyBundle.from_bytes(bytes(damaged), "memory")


@given(length=st.integers(0, len(CONTENT) - 1))
@settings(max_examples=100, deadline=None)
def test_a_cut_file_is_refused(length):
    with pytest.raises(RealityGradError, match="policy bundle memory"):
        PolicyBundle.from_bytes(CONTENT[:length], "memory")


def test_more_bytes_at_the_end_are_refused():
    with pytest.raises(RealityGradError):
        PolicyBundle.from_bytes(CONTENT + b"\0", "memory")


def with_text(**changes) -> bytes:
    """The bundle's file with other entries in its text, otherwise well formed."""
    length = int.from_bytes(CONTENT[:8], "little")
    header = json.loads(CONTENT[8 : 8 + length])
    header["__metadata__"]["policy"] = json.dumps(json.loads(header["__metadata__"]["policy"]) | changes)
    head = json.dumps(header).encode()
    return len(head).to_bytes(8, "little") + head + CONTENT[8 + length :]


def test_another_schema_is_named():
    with pytest.raises(RealityGradError, match=f"has schema {SCHEMA + 1}; this program reads schema {SCHEMA}"):
        PolicyBundle.from_bytes(with_text(schema=SCHEMA + 1), "memory")


def test_another_spelling_is_refused():
    with pytest.raises(RealityGradError, match="does not match its digest"):
        PolicyBundle.from_bytes(with_text(), "memory")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kp": [0.0, 80.0]}, "'kp' of joint 'hip' is 0.0; it must be positive"),
        ({"kd": [5.0, -1.0]}, "'kd' of joint 'knee' is -1.0; it must not be negative"),
        ({"lower": [2.0, 0.0]}, "'lower' of joint 'hip'"),
        ({"lower": [np.inf, 0.0]}, "'lower' of joint 'hip' is inf; it must be finite"),
        ({"velocity_limit": [2.0, 0.0]}, "'velocity_limit' of joint 'knee'"),
        ({"effort_limit": [np.nan, 1.0]}, "'effort_limit' of joint 'hip' is nan; it must be finite"),
        ({"kp": [1.0, 1.0, 1.0]}, "'kp' has shape"),
        ({"joint_names": ("hip", "hip")}, "each once"),
        ({"robot": ""}, "'robot' is empty"),
        ({"activation": "relu"}, "activation 'relu' is unknown; known are tanh, elu"),
        ({"observation_terms": ("joint_position", "gravity")}, "observation terms"),
        ({"action_scale": [0.0, 1.0]}, "'action_scale' of joint 'hip' is 0.0; it must not be zero"),
        ({"observation_scale": np.zeros(7)}, "'observation_scale' must be positive"),
        ({"observation_mean": np.zeros(6)}, "'observation_mean' must be 7 finite numbers"),
        ({"layers": ()}, "no layer"),
        ({"layers": ((np.ones((2, 6)), np.ones(2)),)}, "layer 0 has weight"),
        ({"layers": ((np.ones((3, 7)), np.ones(3)),)}, "3 outputs, but there are 2 joints"),
        ({"layers": ((np.full((2, 7), np.inf), np.ones(2)),)}, "a weight of layer 0 is not finite"),
        ({"policy_rate": 0.0}, "policy_rate"),
        ({"epoch": -1}, "epoch"),
        ({"epoch": True}, "epoch"),
        ({"parent": "abc"}, "parent 'abc' is no digest"),
    ],
)
def test_wrong_content_is_named(changes, message):
    with pytest.raises(RealityGradError, match="policy bundle") as caught:
        make_bundle(**changes)
    assert message in str(caught.value)


def test_the_digest_depends_on_the_content_alone():
    assert make_bundle().digest == BUNDLE.digest
    assert make_bundle(epoch=4).digest != BUNDLE.digest


def test_a_file_is_written_whole(tmp_path):
    path = tmp_path / "policy.safetensors"
    BUNDLE.write(path)
    assert PolicyBundle.read(path).digest == BUNDLE.digest
    assert [file.name for file in tmp_path.iterdir()] == ["policy.safetensors"]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(RealityGradError, match=r"nowhere\.safetensors' cannot be read: No such file"):
        PolicyBundle.read(tmp_path / "nowhere.safetensors")


joint_vectors = st.lists(st.floats(-10, 10), min_size=2, max_size=2).map(np.array)


@given(position=joint_vectors, velocity=joint_vectors, previous=joint_vectors)
def test_the_command_keeps_the_rate_and_leads_into_the_limits(position, velocity, previous):
    command = BUNDLE.act(reach_terms(position, velocity, np.zeros(3)), previous)
    step = 2.0 / 200.0
    assert abs(command[0] - previous[0]) <= step * (1 + 1e-9)
    nearest = np.clip(previous[0], -1.0, 1.0)
    assert abs(command[0] - nearest) <= max(abs(previous[0] - nearest), step) * (1 + 1e-9)


@pytest.mark.parametrize("activation", ["tanh", "elu"])
def test_the_law_of_the_command(activation):
    bundle = make_bundle(
        activation=activation, velocity_limit=[np.inf, np.inf], lower=[-100.0, -100.0], upper=[100.0, 100.0]
    )
    position, velocity, target = np.array([0.5, -0.5]), np.array([1.0, 2.0]), np.array([0.4, 0.1, 0.2])
    h = (np.concatenate([position, velocity, target]) - bundle.observation_mean) / bundle.observation_scale
    for weight, bias in bundle.layers[:-1]:
        h = weight.astype(float) @ h + bias
        h = np.array([np.tanh(x) if activation == "tanh" else (x if x > 0 else np.exp(x) - 1) for x in h])
    y = bundle.layers[-1][0].astype(float) @ h + bundle.layers[-1][1]
    expected = np.array([0.3, -0.2]) + np.array([0.5, 0.4]) * y
    np.testing.assert_allclose(
        bundle.act(reach_terms(position, velocity, target), position), expected, rtol=1e-5, atol=1e-6
    )


def test_the_position_limit_holds():
    bundle = make_bundle(action_offset=[50.0, 50.0], velocity_limit=[np.inf, np.inf], upper=[1.0, 2.0])
    terms = reach_terms(np.zeros(2), np.zeros(2), np.zeros(3))
    np.testing.assert_array_equal(bundle.act(terms, np.zeros(2)), [1.0, 2.0])


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_command_that_is_not_finite_is_never_returned(wrong):
    previous = np.array([0.0, wrong])
    with pytest.raises(RealityGradError, match="command for 'knee' that is not finite"):
        BUNDLE.act(reach_terms(np.zeros(2), np.zeros(2), np.zeros(3)), previous)
    with pytest.raises(RealityGradError, match="not finite"):
        BUNDLE.act(reach_terms(np.array([wrong, 0.0]), np.zeros(2), np.full(3, np.nan)), np.zeros(2))


def test_a_term_that_nobody_tells_is_named():
    with pytest.raises(RealityGradError, match="observes joint_velocity, target_position, which nobody tells it"):
        BUNDLE.act({"joint_position": np.zeros(2)}, np.zeros(2))


def test_every_term_can_be_observed_in_any_order():
    terms = OBSERVATION_TERMS[::-1]
    size = sum(len(components(term, JOINTS)) for term in terms)
    random = np.random.default_rng(0)
    bundle = make_bundle(
        observation_terms=terms,
        observation_mean=np.arange(size),
        observation_scale=np.ones(size),
        layers=((random.normal(size=(2, size)), np.zeros(2)),),
    )
    again = PolicyBundle.from_bytes(bundle.to_bytes(), "memory")
    np.testing.assert_array_equal(again.observation_mean, np.arange(size))
    values = {term: random.normal(size=len(components(term, JOINTS))) for term in terms}
    previous = np.array([0.4, -0.1])
    # What was commanded before is known already: (0.4 - 0.3) / 0.5 and (-0.1 + 0.2) / 0.4.
    expected = np.concatenate([*(values[term] for term in terms if term != "previous_action")])
    place = sum(len(components(term, JOINTS)) for term in terms[: terms.index("previous_action")])
    expected = np.insert(expected, place, [0.2, 0.25])
    np.testing.assert_allclose(again.observe(values, previous) + np.arange(size), expected, atol=1e-12)


def test_the_range_of_a_term_drawn_uniformly_follows_from_its_normaliser():
    drawn = np.random.default_rng(0).uniform([-1.0, 0.0, 2.0], [1.0, 4.0, 2.0], size=(100000, 3))
    mean, scale = np.zeros(7), np.ones(7)
    mean[4:], scale[4:] = drawn.mean(0), np.sqrt(drawn.var(0) + 1e-9)
    bundle = make_bundle(observation_mean=mean, observation_scale=scale)
    lower, upper = bundle.uniform_range("target_position")
    np.testing.assert_allclose(lower, [-1.0, 0.0, 2.0], atol=0.02)
    np.testing.assert_allclose(upper, [1.0, 4.0, 2.0], atol=0.02)
