"""A second user attacks a cluster that everyone may use: lies, changed lines, traps on disk and floods. All of it, with figures,
is the row attack-cluster of scripts/bench.sh. `ELASTICTRAIN_ATTACK_SEED` chooses other changes."""

import os
import unittest

from siege import Door, Siege

import harness
import lies
from harness import Case

SEED = int(os.environ.get("ELASTICTRAIN_ATTACK_SEED", "1"))
MUTATIONS = 60
SUBMISSIONS = 100


@unittest.skipUnless(os.geteuid() == 0, "needs root, to be two users")
class Strangers(Case):
    def test_lies_and_changed_lines_leave_nothing_behind_and_floods_keep_nobody_out(self):
        siege = Siege(self)
        owner = siege.owner_job()
        places = siege.traps()
        door = Door(self, places["swapped"])
        stranger = siege.intruder()
        for name, heard, what in siege.lie(stranger, owner, places):
            with self.subTest(name):
                self.assertTrue(siege.is_as_it_must_be(heard, what), heard)
        self.assertEqual(siege.keeper_now(), siege.keeper_unharmed())
        for lines in lies.mutations(SEED, MUTATIONS, owner):
            self.assertIsNotNone(siege.exchange(stranger, lines), lines)
        self.assertEqual(siege.keeper_now(), siege.keeper_unharmed())
        floods = siege.floods(SEED)
        # The others may be kept from all by these.
        siege.wait_begun([flood for flood in floods if flood[0] in ("never_read", "half_requests", "thousands")])
        siege.submit_many(SUBMISSIONS, "during")
        siege.end_floods(floods)
        siege.wait_until_gone()
        self.assertEqual(siege.keeper_now(), siege.keeper_unharmed())
        self.assertFalse(door.was_opened())
        self.assertEqual(siege.phantom_slots(), 0)
        self.assertLess(siege.growth_mib(), 64)


if __name__ == "__main__":
    harness.main()
