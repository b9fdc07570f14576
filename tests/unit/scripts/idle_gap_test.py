"""The longest gap without a step, as benchmarks count it for other launchers."""

import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "scripts", "bench"))

from measure import idle_ms  # noqa: E402  (the path comes first)


def steps(pid, begin, end, every):
    count = round((end - begin) / every) + 1
    return [{"pid": pid, "t": begin + number * every} for number in range(count)]


class IdleGap(unittest.TestCase):
    def test_gap_minus_a_step_after_it(self):
        records = steps(1, 0, 10, 0.5) + steps(2, 14, 20, 0.25)
        self.assertAlmostEqual(idle_ms(records, event=10.1, end=20), 4000 - 250)

    def test_any_worker_counts(self):
        """Another worker completes steps while one is away; two workers with skewed steps make no step shorter."""
        records = steps(1, 0, 10, 0.5) + steps(1, 14, 20, 0.5) + steps(2, 0.25, 19.75, 0.5)
        self.assertLess(idle_ms(records, event=10.1, end=20), 1)

    def test_step_before_the_event_where_none_follows(self):
        records = steps(1, 0, 10, 0.5) + [{"pid": 2, "t": 13}]
        self.assertAlmostEqual(idle_ms(records, event=10.1, end=13), 3000 - 500)

    def test_earlier_gaps_and_later_ones_are_others(self):
        records = steps(1, 0, 3, 0.5) + steps(1, 10, 20, 0.5) + steps(1, 30, 31, 0.5)
        self.assertLess(abs(idle_ms(records, event=15.1, end=19)), 1)

    def test_nothing_to_measure(self):
        self.assertIsNone(idle_ms([], event=1, end=2))
        self.assertIsNone(idle_ms(steps(1, 0, 1, 0.5), event=5, end=6))


if __name__ == "__main__":
    unittest.main()
