"""Numbers in messages."""


def number_of(count: int, noun: str) -> str:
    """"1 step", "2 steps"."""
    ending = "" if count == 1 else "es" if noun.endswith("ch") else "s"
    return f"{count} {noun}{ending}"
