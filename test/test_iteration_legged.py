"""Iterations of a robot on legs in this process: killed at any stage they go on, and figures mean what they say."""

import dataclasses
import re

import numpy as np
import pytest
import torch
from bag_writing import COMMANDS, START, command, joint_state, odometry, twist_stamped, write_bag
from legged_local_crew import ANYMAL, LeggedLocalCrew, constant_bundle, crouching_bundle
from walking_policies import showing_bundle

from realitygrad_ros.control.bundle import PolicyBundle
from realitygrad_ros.control.shac import part
from realitygrad_ros.control.tasks.walking import VELOCITY, Randomisation
from realitygrad_ros.control.tasks.worlds import Share, Worlds, legged_robot
from realitygrad_ros.control.training import read_checkpoint
from realitygrad_ros.control.walking_policy import WalkingPolicy
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.iteration import legged_training
from realitygrad_ros.iteration.legged_comparison import SETTLING, WalkComparison
from realitygrad_ros.iteration.legged_figures import over_a_cycle, steps_shown
from realitygrad_ros.iteration.legged_loop import STAGES, LeggedTask, run_iteration
from realitygrad_ros.iteration.legged_measure import CONTACT, compare
from realitygrad_ros.iteration.legged_plan import CHIRP, SCHEDULE, Chirp, Stretch
from realitygrad_ros.iteration.legged_recording import read_walk
from realitygrad_ros.iteration.legged_walk import simulate_walk, standing
from realitygrad_ros.iteration.run_folder import RunFolder, read_record
from realitygrad_ros.main import main
from realitygrad_ros.progress import never, silent
from realitygrad_ros.robot.load import load_robot

CONFIGURATION, MODEL = load_robot("anymal_c")
WALK = (Stretch("stand", (0.0, 0.0, 0.0), 1.2), Stretch("forward", (0.4, 0.0, 0.0), 1.3))


class Killed(BaseException):
    """The process ended here."""


@pytest.fixture(scope="module")
def crew():
    return LeggedLocalCrew()


@pytest.fixture(scope="module")
def task(crew, tmp_path_factory):
    policy = tmp_path_factory.mktemp("policies") / "standing.safetensors"
    constant_bundle(epoch=3).write(policy)
    return LeggedTask(
        CONFIGURATION,
        MODEL,
        seed=0,
        policy=policy,
        truth=crew.hidden.truth.reordered(CONFIGURATION.joint_names),
        schedule=WALK,
        chirp=Chirp(duration=6.0, lowest=0.3),
        worlds=64,  # fewer would not tell which velocities the policy knows
        training_iterations=1,
    )


@pytest.fixture(scope="module")
def finished(crew, task, tmp_path_factory):
    """A run with iterations 0 and 1, killed once in each of their stages, and what was told meanwhile."""
    run, told = RunFolder(tmp_path_factory.mktemp("run")), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(legged_training, "CRITIC_ITERATIONS", 1)
        for k in (0, 1):
            for stage in STAGES if k else ("rollout", "measure"):

                def kill(now, fraction, figures, k=k, stage=stage):
                    if (now, figures["iteration"]) == (stage, k):
                        raise Killed

                with pytest.raises(Killed):
                    run_iteration(run, task, crew, kill, never, told.append)
                assert read_record(run.directory(k), stage) is None
        metrics = run_iteration(run, task, crew, silent, never, told.append)
    return run, metrics, told + crew.told


def test_a_run_that_was_killed_at_every_stage_is_whole_and_nothing_was_done_twice(finished, task):
    run, metrics, told = finished
    assert metrics == run.metrics(1)
    assert not [line for line in told if "is done again" in line]
    records = {stage: read_record(run.directory(1), stage) for stage in STAGES}
    assert all(records.values())
    made = {name: value for record in records.values() for name, value in record.outputs.items()}
    assert records["identify"].inputs["bag 0"] == made["hung/bag"]
    assert records["rollout"].inputs["policy.safetensors"] == made["policy.safetensors"]
    assert records["measure"].inputs["bag"] == made["bag"]
    assert metrics["seconds"]["total"] >= sum(record.seconds for record in records.values())
    assert run.metrics(0)["residuals"] == []
    given, trained = (PolicyBundle.read(run.output(k, "train")) for k in (0, 1))
    assert given.digest == PolicyBundle.read(task.policy).digest
    assert (trained.epoch, trained.parent) == (given.epoch + 1, given.digest)


def test_what_hangs_is_identified_and_the_simulator_then_foretells_the_joints_better(finished, crew):
    run, metrics, _ = finished
    before, after = metrics["residuals"]
    assert after < 0.2 * before
    truth = crew.hidden.truth.reordered(CONFIGURATION.joint_names)
    fitted = run.calibration(1, CONFIGURATION.nominal)
    np.testing.assert_allclose(fitted.kp, truth.kp, rtol=0.15)
    np.testing.assert_allclose(fitted.kd + fitted.damping, truth.kd + truth.damping, rtol=0.35)
    assert np.array_equal(PolicyBundle.read(run.output(1, "train")).kp, fitted.kp)
    assert metrics["joint_gap_rad"] < 0.7 * run.metrics(0)["joint_gap_rad"]
    # Who stands at home is as wrong as the velocity that is wanted, in the half of the walk that counts.
    assert metrics["falls"] == metrics["predicted_falls"] == 0
    assert 0.05 < metrics["tracking_error_mps"] < 0.35


def test_the_report_shows_both_walks_and_the_command_writes_it_anew(finished, capsys):
    run, _, _ = finished
    path = run.path / "report.html"
    page = path.read_text()
    titles = re.findall(r"<h2>(.*?)</h2>", page)
    assert titles[:5] == ["Velocity", "Iterations", "Stretches", "Feet", "Joints"]
    assert titles[5:] == ["Parameters", "Residual and task", "Time by stage"]
    assert "excite" in page
    assert all(name in page for name in ("forward", "LF HAA", "stand"))
    path.unlink()
    assert main(["report", str(run.path)]) == 0
    assert capsys.readouterr().out.strip() == str(path)
    assert re.findall(r"<h2>(.*?)</h2>", path.read_text()) == titles


def test_a_run_of_another_schedule_is_walked_again(finished, crew, task, tmp_path):
    run, _, _ = finished
    told = []
    longer = dataclasses.replace(task, schedule=(*WALK, Stretch("stop", (0.0, 0.0, 0.0), 0.5)))
    (run.directory(1) / "metrics.json").unlink()
    run_iteration(run, longer, crew, silent, never, told.append)
    assert [line for line in told if "rollout is done again, for its schedule changed" in line]
    assert "iteration_1: train is done already" in told


def test_a_policy_that_falls_in_the_simulator_is_not_given_to_the_robot(task, monkeypatch, tmp_path):
    class Falling:
        bundle, curve = crouching_bundle(), ()

    monkeypatch.setattr(legged_training, "_write_beginning", lambda *_: None)
    monkeypatch.setattr(legged_training, "train", lambda *_, **__: Falling)
    with pytest.raises(RealityGradError, match="is not given to the robot: in the simulator the robot has fallen"):
        legged_training.train_policy(task, Falling.bundle, CONFIGURATION.nominal, tmp_path, silent, never)


def test_training_begins_with_the_very_policy_before(task, monkeypatch, tmp_path):
    random = torch.Generator().manual_seed(0)
    width = len(constant_bundle().observation_mean)
    before, after = (WalkingPolicy(width, len(CONFIGURATION.home), random) for _ in range(2))
    before.normalizer.update(torch.randn(100, width, generator=random) * torch.logspace(-3, 1, width))
    bundle = before.to_bundle(VELOCITY, MODEL, CONFIGURATION, CONFIGURATION.nominal, epoch=0, parent="")
    legged_training.take_over(after, bundle)
    observation = torch.randn(50, width, generator=random)
    torch.testing.assert_close(after(observation), before(observation), atol=1e-4, rtol=1e-3)
    with pytest.raises(RealityGradError, match=r"epoch 7 cannot be trained further: .* layers \[\(12, 50\)\]"):
        legged_training.take_over(after, dataclasses.replace(showing_bundle(ANYMAL), epoch=7))

    # While the critic learns, nothing else does.
    monkeypatch.setattr(legged_training, "CRITIC_ITERATIONS", 2)
    plans = []

    def keep(plan, *_, **__):
        plans.append(plan)
        raise Killed

    monkeypatch.setattr(legged_training, "train", keep)
    with pytest.raises(Killed):
        legged_training.train_policy(task, bundle, CONFIGURATION.nominal, tmp_path, silent, never)
    state, curve = read_checkpoint(tmp_path / "checkpoint.safetensors", plans[0])
    begun = part(state, "policy")
    assert int(state["iteration"]) == 0
    assert curve == []
    for name, value in after.network.state_dict().items():
        assert torch.equal(begun[f"network.{name}"], value)


def test_falls_on_the_robot_and_in_the_simulator_are_counted(crew, tmp_path):
    robot = legged_robot(MODEL, CONFIGURATION, CONFIGURATION.nominal, CONTACT)
    walks = {}
    for name, bundle in (("falls", crouching_bundle()), ("stands", constant_bundle())):
        directory = tmp_path / name
        directory.mkdir()
        bundle.write(directory / "policy.safetensors")
        crew.walk(directory, WALK, silent, never)
        walks[name] = read_walk(directory / "bag", CONFIGURATION)
    # Who has fallen is stood up again for the next stretch.
    assert [engagement.fell for engagement in walks["falls"].engagements] == [True, True]
    assert [engagement.fell for engagement in walks["stands"].engagements] == [False]
    compared, predicted = compare(walks["falls"], robot, CONFIGURATION, CONFIGURATION.nominal, constant_bundle())
    assert predicted == 0
    assert set(compared.engagement) == {-1, 0, 1}
    assert np.array_equal(np.isnan(compared.simulated_position).all(1), compared.engagement == -1)
    compared, predicted = compare(walks["stands"], robot, CONFIGURATION, CONFIGURATION.nominal, crouching_bundle())
    assert predicted == 1
    assert np.isnan(compared.simulated_feet[-1]).all()
    assert np.isfinite(compared.measured_feet).all()


def test_the_simulated_walk_is_that_of_the_worlds_in_which_policies_learn():
    robot = legged_robot(MODEL, CONFIGURATION, CONFIGURATION.nominal, CONTACT)
    calm = dataclasses.replace(VELOCITY, randomisation=Randomisation())
    worlds = Worlds(robot, CONFIGURATION.nominal, calm, Share(0, 1, 1), seed=1)
    random = torch.Generator().manual_seed(0)
    policy = WalkingPolicy(worlds.observe(worlds.situation).shape[-1], len(CONFIGURATION.home), random)
    with torch.no_grad():
        policy.network[-1].weight.mul_(20.0)  # an untrained one hardly moves
        policy.normalizer.variance.fill_(4.0)
        bundle = policy.to_bundle(VELOCITY, MODEL, CONFIGURATION, CONFIGURATION.nominal, epoch=0, parent="")
        position, velocity = standing(CONFIGURATION)
        velocity[0] = 0.2
        wanted = np.tile([0.5, -0.2, 0.3], (20, 1))
        walk = simulate_walk(robot, CONFIGURATION, CONFIGURATION.nominal, bundle, (position, velocity), wanted)
        state = type(worlds.situation.state)(
            *(torch.tensor(v, dtype=torch.float32)[None] for v in (position, velocity))
        )
        command = torch.tensor(wanted[:1], dtype=torch.float32)
        situation = worlds.situation._replace(
            state=state, command=command, time=torch.zeros(1), previous_action=torch.zeros(1, 12)
        )
        for k in range(20):
            for ours, theirs in zip(walk[:2], situation.state, strict=True):
                np.testing.assert_allclose(ours[k], theirs[0].numpy(), atol=2e-4)
            situation = worlds.advance(situation, policy(worlds.observe(situation, noisy=False))).following
    assert np.abs(np.diff(walk.position[:, 7:], axis=0)).max() > 0.01


def test_a_chirp_moves_every_joint_through_all_frequencies_about_home_and_no_two_alike():
    commands = CHIRP.commands(CONFIGURATION, MODEL, rate=50.0)
    offset = commands - CONFIGURATION.home
    lower, upper = MODEL.limit_array("lower"), MODEL.limit_array("upper")
    assert (np.abs(offset) <= 0.25 * np.minimum(upper - CONFIGURATION.home, CONFIGURATION.home - lower) + 1e-12).all()
    assert np.abs(offset).max() == pytest.approx(CHIRP.amplitude, rel=0.01)
    assert (offset[0] == 0.0).all()
    assert np.abs(offset[-1]).max() < 0.01
    assert (np.abs(np.corrcoef(offset.T) - np.eye(12)) < 0.4).all()
    share = np.abs(np.fft.rfft(offset, axis=0)) ** 2
    frequency = np.fft.rfftfreq(len(offset), 1.0 / 50.0)
    for low, high in ((0.1, 0.5), (0.5, 1.5), (1.5, 4.0)):
        band = (frequency >= low) & (frequency < high)
        assert (share[band].sum(0) > 0.05 * share.sum(0)).all()
    assert (np.abs(np.diff(commands, axis=0)) < 0.1).all()


def test_the_schedule_asks_for_nothing_that_policies_are_not_trained_for():
    velocities = np.array([stretch.velocity for stretch in SCHEDULE])
    assert (velocities >= VELOCITY.command_lower).all()
    assert (velocities <= VELOCITY.command_upper).all()
    assert (velocities[0] == 0.0).all()
    assert all(stretch.duration > SETTLING for stretch in SCHEDULE)
    assert len({stretch.name for stretch in SCHEDULE}) == len(SCHEDULE)


def walk_messages(seconds=2.0, silent_from=np.inf, silent_to=np.inf):
    """A robot that runs along at 1 m/s and turns; the sign of its orientation's quaternion is that of nobody's mind."""
    messages = []
    for k in range(round(200 * seconds)):
        time, angle = k / 200, k / 100
        stamp = START + round(time * 1e9)
        sign = (-1.0) ** k
        quaternion = [0.0, 0.0, sign * np.sin(0.5 * angle), sign * np.cos(0.5 * angle)]
        messages.append(("/joint_states", time, joint_state(ANYMAL.joint_names, ANYMAL.home, np.zeros(12), stamp)))
        messages.append(("/odom", time, odometry([time, 0, 0.5], quaternion, [1.0, 0.1, 0.0], [0, 0, 2.0], stamp)))
        if k % 4 == 0 and not silent_from <= time < silent_to:
            messages.append((COMMANDS, time, command(ANYMAL.home)))
        if k % 20 == 0:
            messages.append(("/cmd_vel", time, twist_stamped([0.5 * (time >= 1.0), 0, 0], [0, 0, 0.25])))
    return messages


def test_a_walk_is_read_from_its_bag(tmp_path):
    walk = read_walk(write_bag(tmp_path / "bag", walk_messages(silent_from=0.8, silent_to=1.5)), CONFIGURATION)
    assert np.diff(walk.time) == pytest.approx(0.02)
    np.testing.assert_allclose(walk.position[:, 0], walk.time, atol=1e-9)
    yaw = 2.0 * np.arctan2(walk.position[:, 5], walk.position[:, 6])
    np.testing.assert_allclose(np.unwrap(yaw, period=2 * np.pi), 2.0 * walk.time, atol=1e-3)
    np.testing.assert_allclose(walk.velocity[:, :6], np.tile([1.0, 0.1, 0, 0, 0, 2.0], (len(walk.time), 1)))
    np.testing.assert_allclose(walk.position[:, 7:], np.tile(ANYMAL.home, (len(walk.time), 1)), atol=1e-12)
    np.testing.assert_array_equal(walk.wanted[:, 0], np.where(walk.time >= 1.0 - 1e-9, 0.5, 0.0))
    # The machine was busy for a while; the robot stood all the time.
    assert walk.engagements == ((pytest.approx(0.0), pytest.approx(1.98), False),)


@pytest.mark.parametrize(
    ("messages", "named"),
    [
        ([m for m in walk_messages() if m[0] != "/odom"], "has no topic 'odom'"),
        ([m for m in walk_messages() if m[0] != "/odom" or m[1] == 0.0], "topic '/odom' .* fewer than two messages"),
        ([*walk_messages(), ("/odom", 3.0, odometry([0, 0, np.nan], [0, 0, 0, 1], [0] * 3, [0] * 3))], "'/odom'"),
        ([*walk_messages(), ("/odom", 3.0, odometry([0, 0, 0.5], [0, 0, 0, 0], [0] * 3, [0] * 3))], "without pose"),
    ],
)
def test_a_bag_that_is_no_walk_is_refused_by_name(messages, named, tmp_path):
    with pytest.raises(RealityGradError, match=named):
        read_walk(write_bag(tmp_path / "bag", messages), CONFIGURATION)


def comparison(speed=0.4, simulated=0.45, samples=400):
    """A robot that walks at `speed`, and one simulated at another, where 0.5 m/s are wanted: in the second half."""
    time = 0.02 * np.arange(samples)
    wanted = np.zeros((samples, 3))
    wanted[samples // 2 :, 0] = 0.5
    measured, predicted = np.zeros((samples, 18)), np.zeros((samples, 18))
    measured[samples // 2 :, 0], predicted[samples // 2 :, 0] = speed, simulated
    # What happens before a new velocity is reached does not count.
    measured[samples // 2 : samples // 2 + 50, 0] = np.linspace(0.0, speed, 50)
    position = np.zeros((samples, 19))
    feet = np.zeros((samples, 4))
    engagement = np.zeros(samples, dtype=int)
    return WalkComparison(
        CONFIGURATION.joint_names,
        ("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT"),
        time,
        wanted,
        engagement,
        position,
        measured,
        feet,
        position + 0.01,
        predicted,
        feet + 0.002,
    )


def test_figures_are_what_their_names_say():
    figures = comparison().figures()
    half = 150 / 300  # of the settled samples are those of the walk
    assert figures["tracking_error_mps"] == pytest.approx(0.1 * half)
    assert figures["predicted_tracking_error_mps"] == pytest.approx(0.05 * half)
    assert figures["turning_error_radps"] == 0.0
    assert figures["velocity_gap_mps"] == pytest.approx(0.05 * half**0.5)
    assert figures["joint_gap_rad"] == pytest.approx(0.01)
    assert figures["foot_gap_m"] == pytest.approx(0.002)


def test_what_was_never_walked_has_no_figures():
    lying = dataclasses.replace(comparison(), engagement=np.full(400, -1))
    assert set(lying.figures().values()) == {None}
    fallen = dataclasses.replace(comparison(), simulated_velocity=np.full((400, 18), np.nan))
    assert fallen.figures()["predicted_tracking_error_mps"] is None
    assert fallen.figures()["tracking_error_mps"] is not None


def test_a_comparison_survives_the_disk_and_a_damaged_one_is_refused_by_name(tmp_path):
    path, compared = tmp_path / "comparison.safetensors", comparison()
    compared.write(path)
    again = WalkComparison.read(path)
    assert again.joint_names == compared.joint_names
    assert again.foot_names == compared.foot_names
    assert all(np.array_equal(value, getattr(again, name)) for name, value in vars(compared).items())
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(RealityGradError, match=r"comparison.safetensors' cannot be read"):
        WalkComparison.read(path)


def test_plots_show_the_way_without_the_gait_and_the_steps_of_the_fastest_walk():
    time = 0.02 * np.arange(200)
    np.testing.assert_allclose(over_a_cycle(time, 0.5 + np.sin(4.0 * np.pi * time))[20:-20], 0.5, atol=1e-9)
    shown = steps_shown(comparison())
    assert (shown.start, shown.stop) == (pytest.approx(400 - 75, abs=2), 400)
