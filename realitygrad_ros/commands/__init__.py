"""The command line, one command a file: `add_arguments(parser)` and `run(arguments) -> int`."""
