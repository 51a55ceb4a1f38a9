"""The one exception that bad input raises."""


class RealityGradError(Exception):
    """Bad input from outside: the message is one line that names the thing at fault and what to do.

    The command line prints it and exits with 2; a service answers it with `success: false`. Line breaks that come with
    a name or with the words of a library become spaces.
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(filter(None, map(str.strip, message.splitlines()))))

    @staticmethod
    def of_system(error: OSError) -> "RealityGradError":
        """What the operating system refuses: a full disk, a folder that is not ours."""
        what = "a file" if error.filename is None else f"'{error.filename}'"
        return RealityGradError(f"{what} cannot be used: {error.strerror or error}; mend that, or choose another place")


class Cancelled(Exception):
    """A long job was asked to stop and has stopped; what it had finished before stays valid."""
