"""Check the simulator's gradients against central differences, over contact-rich rollouts in float64.

Each line of the table is one input of the rollouts. Along random changes of it, the derivative of a random weighted sum
of all states is compared with a central difference of that sum. Where contact bends or breaks the sum there is no
derivative: such directions are counted under `kinks`, and left out of the cosine and the errors before.
"""

import argparse
from typing import Any

from realitygrad_ros.commands.console import add_json_argument, progress_bar, table, write_json
from realitygrad_ros.robot.contact import CONTACT_MODES

DEFAULT, WITHOUT = "smooth", "none"

_COLUMNS = ("input", "directions", "cosine", "median error", "worst error", "kinks", "error there")
_ALIGNMENT = "<>>>>>>"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--robot", default="ur5", help="name of a robot in config/, or path of its YAML file (ur5)")
    parser.add_argument(
        "--contact",
        choices=(*CONTACT_MODES, "stochastic", WITHOUT),
        help=f"how contact is simulated ({DEFAULT}, or {WITHOUT} for a robot whose configuration has no contacts)",
    )
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the table, the worst case and the verdict, and write the figures."""
    from realitygrad_ros.robot.load import load_robot

    configuration, model = load_robot(arguments.robot)
    mode = arguments.contact or (WITHOUT if configuration.contact is None else DEFAULT)
    from realitygrad_ros.physics.gradient_check import figures
    from realitygrad_ros.physics.gradient_scenario import check_robot

    with progress_bar() as show:
        checks = check_robot(configuration, model, None if mode == WITHOUT else mode, progress=show)
    result = {"robot": configuration.name, "contact": mode, **figures(checks)}
    print(_as_text(result))
    write_json(arguments.json, result)
    return 0


def _as_text(result: dict[str, Any]) -> str:
    from realitygrad_ros.physics.gradient_check import LEAST_COSINE, MOST_KINKS, TOLERANCE

    rows = [_row(name, block) for name, block in result["blocks"].items()]
    worst, least = result["worst"], result["least_cosine"]
    return "\n".join(
        [
            f"gradients of {result['robot']}, contact: {result['contact']}",
            "",
            table([_COLUMNS, *rows], _ALIGNMENT),
            "",
            f"worst error   {worst['error']:.1e}, by {worst['input']}, direction {worst['direction']} of rollout "
            f"{worst['world']}: analytic {worst['analytic']:.8g}, difference {worst['difference']:.8g}",
            f"least cosine  {least['cosine']:.6f}, by {least['input']}",
            f"kinks         {result['kinks']:.1%} of all directions",
            f"{'holds' if result['holds'] else 'does not hold'}: errors up to {TOLERANCE:g}, cosines of at least "
            f"{LEAST_COSINE:g}, kinks along at most {MOST_KINKS:.0%} of the directions",
        ]
    )


def _row(name: str, block: dict[str, Any]) -> tuple[str, ...]:
    def error(key: str) -> str:
        return "-" if block[key] is None else f"{block[key]:.1e}"

    return (
        name,
        str(block["directions"]),
        f"{block['cosine']:.6f}",
        error("median_error"),
        error("worst_error"),
        str(block["kinks"]),
        error("worst_error_at_kinks"),
    )
