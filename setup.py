"""The package for pip and for colcon."""

from pathlib import Path

from setuptools import find_packages, setup

NAME = "realitygrad_ros"
HERE = Path(__file__).parent
# 5.5: the first release that does not want torchvision, which fits only one build of torch.
PPO = ["rsl-rl-lib>=5.5,<6", "tensordict>=0.7"]
NODES = ("twin_node", "policy_node", "recorder_node", "sysid_node", "trainer_node", "iteration_node")


def shared(folder: str) -> list[tuple[str, list[str]]]:
    """Every folder of data under `folder`, to be installed under share/ as it lies here."""
    files = sorted(path.relative_to(HERE) for path in (HERE / folder).rglob("*") if path.is_file())
    parents = sorted({file.parent for file in files})
    return [(f"share/{NAME}/{parent}", [str(file) for file in files if file.parent == parent]) for parent in parents]


setup(
    name=NAME,
    version="0.1.0",
    description="Cross a robot's reality gap by gradients through differentiable physics, over ROS 2",
    author="RealityGrad maintainers",
    maintainer="RealityGrad maintainers",
    maintainer_email="maintainers@realitygrad.example",
    license="Apache-2.0",
    python_requires=">=3.10",
    packages=find_packages(include=[NAME, f"{NAME}.*"]),
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
        *shared("launch"),
        *shared("policies"),
        *shared("config"),
        *shared("urdf"),
    ],
    zip_safe=True,
    # docs/dependencies.md says what each is for.
    install_requires=[
        "honcho>=2.0",
        "jaxtyping>=0.2.34",
        "lxml>=4.9",
        "matplotlib>=3.7",
        "mujoco>=3.7",
        "numpy>=1.26",
        "pyyaml>=6.0",
        "rosbags>=0.11.7",
        "safetensors>=0.4.3",
        "scipy>=1.11",
        "torch>=2.4,<3",
        "tqdm>=4.66",
        "warp-lang>=1.8",
        "yourdfpy>=0.0.57",
    ],
    extras_require={
        # Where ROS 2 is not installed: its own release as wheels. A robot has these from its distribution.
        "ros": [
            "ros-rclpy",
            "ros-rmw-fastrtps-cpp",
            "ros-diagnostic-msgs",
            "ros-geometry-msgs",
            "ros-nav-msgs",
            "ros-rcl-interfaces",
            "ros-sensor-msgs",
            "ros-std-msgs",
            "ros-std-srvs",
            "xacro>=2.1.0",
        ],
        "ppo": PPO,
        "test": ["example-robot-data>=4.2", "hypothesis>=6.120", "pin>=3.1", "pytest>=8.0", "setuptools>=64", *PPO],
        "dev": ["mypy>=1.13", "pre-commit>=4.0", "ruff>=0.9", "types-PyYAML"],
    },
    entry_points={
        "console_scripts": [
            "realitygrad = realitygrad_ros.main:main",
            *(f"{node} = realitygrad_ros.nodes.{node}:main" for node in NODES),
        ]
    },
)
