"""Errors whose message is the whole story: the command line prints the message alone and exits with code 2."""


class UserError(ValueError):
    """Bad input from outside the program: a file, an option, a checkpoint. The message is one line."""


class CaptureError(RuntimeError):
    """Something that tl.compile cannot capture, such as reading a value; names the user's line and a way out."""


class CaptureWarning(UserWarning):
    """A compiled function is captured over and over; names what keeps changing."""


class OutOfRangeError(IndexError, RuntimeError):
    """An index outside its dimension: PyTorch's indexing raises IndexError, its gather and scatter RuntimeError."""


class LinAlgError(RuntimeError):
    """A matrix that a factorisation cannot take: singular, not positive definite, or without convergence."""
