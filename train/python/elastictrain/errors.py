"""What calls of the library raise."""


class ElasticError(RuntimeError):
    """A call failed. The text is the library's: what happened, where, and what to do."""


class SessionError(ElasticError):
    """The session cannot continue. End the program; the others train on without this worker."""


class Interrupted(ElasticError):
    """A call outside of a step was interrupted by a change of the membership. Ask for the next batch, then repeat it."""


class Unequal(RuntimeError):
    """Values that must be equal on all workers are not."""
