"""How a run says that it ended early."""


class Stopped(Exception):
    """Training ended before its last step; the message says where the work is kept."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code
