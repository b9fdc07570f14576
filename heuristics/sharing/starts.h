// Purpose: makes the start of workers a part of every decision, whatever the policy.
//
// A slot that passes on does not train until a worker has started there, so a decision that the next arrival undoes
// costs time and brings nothing. hold_starts() changes what a policy has granted by these rules:
//
// - A job whose workers start keeps its place, and after that until it has trained three times as long as they took
//   (kTrainsFor). It goes earlier where that pays: where lengths are known, and what is left of it is longer than what
//   comes by more than twice the time that went into its start, which is lost, and has to be spent again.
// - A job that waits for its first slot may have those above the least of a job that still starts; a job that runs may
//   not, before they have been used as long, unless they bring less than the job's others.
// - A job of unknown length may end soon. While jobs have never had a slot, it begins with its least, until it has
// trained
//   for three starts; slots on which its workers start already are given to them.
// - More slots pay if the workers there train long enough: half of a start, and three starts while jobs wait for their
//   first slot. A job gets as many as pay.
// - What was given to a job and taken back twice while it started is given again only after as many starts as times.
//
// What a job does not get so goes to those that would have lost it, then to jobs that wait. Nobody gets a slot above
// what the policy granted in all. Pure, deterministic. Cost: O((jobs + slots) log jobs).
#pragma once

#include <cstdint>

namespace elastictrain::heuristics::sharing {

struct View;
struct Decision;

// What is known of the starts of one job. Whoever gives slots to jobs keeps one for each.
class Starts {
 public:
  // Its slots change. The newest go first: those on which workers start are undone.
  void change(double now_s, double before, double after);
  // Its newest slots were given out now, later than it was decided.
  void begin(double now_s);
  // Workers train on all its slots, so nothing is undone. Returns how long the newest took to start; 0: they did
  // before.
  double train(double now_s);

  bool starting() const { return starting_ > 0; }
  double slots_starting() const { return starting_; }
  double grown_s() const { return grown_s_; }    // since when it has its newest slots
  double trains_s() const { return trains_s_; }  // since when all of its slots train
  std::uint32_t undone() const { return undone_; }
  double undone_s() const { return undone_s_; }  // the last time

 private:
  double starting_ = 0;  // slots
  double grown_s_ = 0;
  double trains_s_ = 0;
  std::uint32_t undone_ = 0;
  double undone_s_ = 0;
};

// `elastic`: the policy chooses sizes; otherwise jobs run as requested. Changes grants, says why, and asks for a
// decision when a job need not be kept any more. Leaves decisions alone in which jobs share slots, or which are not in
// whole slots.
void hold_starts(const View& view, bool elastic, Decision& decision);

}  // namespace elastictrain::heuristics::sharing
