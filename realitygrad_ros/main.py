"""The command line `realitygrad`."""

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from xml.etree import ElementTree

from realitygrad_ros.errors import Cancelled, RealityGradError
from realitygrad_ros.resources import share_directory

COMMANDS = ("demo", "up", "check", "sysid", "train", "gradcheck", "bench", "report")
"""Each is a module of `realitygrad_ros.commands`; its docstring is its help."""

BAD_INPUT, INTERRUPTED, UNREAD = 2, 130, 141
"""Exit codes; the latter two as of a process that SIGINT or SIGPIPE ended."""


def version() -> str:
    """The package's version, as `package.xml` has it."""
    return ElementTree.parse(share_directory() / "package.xml").findtext("version", "").strip()


def make_parser(commands: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of the whole command line, knowing only `commands`."""
    parser = argparse.ArgumentParser(
        prog="realitygrad",
        description="Cross a robot's reality gap by gradients through differentiable physics, over ROS 2.",
        epilog="`realitygrad COMMAND --help` explains a command.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {version()}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in commands:
        module = importlib.import_module(f"realitygrad_ros.commands.{name}")
        description = (module.__doc__ or "").strip()
        subparser = subparsers.add_parser(name, help=description.splitlines()[0], description=description)
        module.add_arguments(subparser)
        subparser.set_defaults(run=module.run)
    return parser


def main(args: Sequence[str] | None = None) -> int:
    """Run one command and return the process's exit code: 0, 2 for bad input, 130 where the user interrupted."""
    args = sys.argv[1:] if args is None else args
    commands = args[:1] if args and args[0] in COMMANDS else COMMANDS
    # A service manager's SIGTERM ends a command in order too, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        arguments = make_parser(commands).parse_args(args)
        return arguments.run(arguments)
    except RealityGradError as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_INPUT
    except (Cancelled, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has enough, as in `realitygrad check ur5 | head`; Python would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except OSError as error:
        print(f"error: {RealityGradError.of_system(error)}", file=sys.stderr)
        return BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
