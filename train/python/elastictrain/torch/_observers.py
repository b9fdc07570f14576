"""What a program watches in its own run: callbacks around a step, the noise of its gradients, and a policy of its own."""

from typing import Any, Callable, List, Optional

from ..session import Session

Callback = Callable[[], None]


class Observers:
    """Thread: the training thread. What a callback raises is raised by the loop."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.before: List[Callback] = []
        self.after: List[Callback] = []

    def before_step(self) -> None:
        for callback in self.before:
            callback()

    def after_step(self) -> None:
        for callback in self.after:
            callback()

    def noise_scale(self) -> Optional[float]:
        seen = self._session.monitors()
        return seen["noise_scale"] if seen["has_noise_scale"] else None

    def gradient_variance(self) -> float:
        return self._session.monitors()["gradient_variance"]

    def add_policy(self, run: Any, decide: Callable[[Any], Optional[int]], every_steps: int) -> None:
        """Asks on the first worker only; a request is one for the whole run."""
        if every_steps < 1:
            raise ValueError("every_steps is 1 or more")

        def ask() -> None:
            if run.is_first and self._session.committed_step % every_steps == 0:
                wanted = decide(run)
                if wanted is not None and wanted != run.world_size:
                    self._session.request_resize(wanted)

        self.after.append(ask)
