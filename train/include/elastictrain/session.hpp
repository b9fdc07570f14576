// elastictrain: C++ API for training programs.
//
// A program that trains on its own today becomes elastic with these calls:
//
//   elastictrain::Session session;                                  // joins the run; alone without a launcher
//   session.share_model("weights", weights.data(), weights.size()); // everything an update changes: the model,
//   session.share_state("momentum", momentum.data(), bytes);        // and whatever else
//   session.set_data({.sample_count = n, .epochs = 5, .seed = 1, .batch = 32});
//   session.start();                                                // ready; returns when this worker is a member
//   while (auto batch = session.next_batch()) {
//     compute_gradients(batch->samples, gradient);                  // mean over the samples; empty for a new worker
//     session.all_reduce(gradient.data(), gradient.size());         // weighted by samples, over all workers
//     update(weights, gradient, lr * session.learning_rate_factor());
//     session.commit_step({.loss = loss});                          // the boundary at which memberships change
//   }
//
// Between two commit_step() calls the membership is fixed. A change of size swaps the communicator behind all_reduce()
// inside commit_step(); rank, world size and the number of samples may differ in the next batch.
//
// Losses: when another worker dies, a call of this session waits until the run has recovered, and repeats the step's
// all-reduces among those that are left; no forward or backward pass is repeated. What that asks of the program:
//   - state is written only after the step's last all_reduce() (or wait_all_reduce()) has returned;
//   - every gradient buffer given to an all-reduce of the step stays valid and untouched until then, and valid until
//     commit_step(): a bucket that was reduced already may be reduced again, with another result.
// Rarely a worker finds itself behind the others. Then its all-reduces return zeros, what the program makes of that
// step is replaced by the others' state inside commit_step(), and its next batch is empty; committed_step() may have
// moved by more than one.
//
// Pools: a process that MPI started stays when its worker leaves. commit_step() then waits until it is needed again, as
// another worker: worker_id() is a new one, on_change() tells of its first generation, its next batch is empty, and the
// loop goes on. next_batch() returns nothing when it is not needed any more.
//
// Synchronization: with averaged gradients (S-SGD) all workers hold the same bits. A run may also be told, by its
// configuration, a policy or the program, to let every worker train a replica of its own: then all_reduce() gives back
// this worker's own gradient, and commit_step() moves what was shared with share_model() towards the average of all
// models (synchronous averaging) or halfway to another worker's (pair averaging). The program stays the same. At the
// end of the data, and when gradients are averaged again, all workers get the average of the models and the other state
// of one of them. A program that shares no model always trains with averaged gradients.
//
// GPUs: with use_device() state and gradients may lie in a CUDA device's memory. The program's streams are its own: a sum
// comes after what the stream holds when it is asked for, and what the program puts into the stream afterwards, its
// update, comes after the sum. Nothing else is waited for. Gradients are always averaged there.
//
// Signals: where the program has no way of its own with SIGTERM when it makes its session, one that does not come from
// its agent does not end it: a batch system sends it to all processes of a job that ends, and the run lets the worker
// go at a step boundary. A second one ends it.
//
// Errors: a call that cannot go on throws elastictrain::SessionError; its message says what to do. Leaving and
// finishing are not errors: next_batch() returns nothing and outcome() says which it was. Thread: one training thread
// makes all calls. State buffers must stay at their address until the session is destroyed and must be written only
// between the last successful all_reduce() and commit_step() of the same step.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#if defined(__GNUC__)
#define ELASTICTRAIN_CPP_API __attribute__((visibility("default")))
#else
#define ELASTICTRAIN_CPP_API
#endif

namespace elastictrain {

class ELASTICTRAIN_CPP_API SessionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// How the data is cut into steps. Sampler state is a few numbers, part of the replicated state.
struct DataOptions {
  std::uint64_t sample_count = 0;  // per epoch; 0: the program brings its own data, batches carry only counts
  std::uint64_t epochs = 1;
  std::uint64_t seed = 0;    // of the shuffle; must be equal on all workers
  std::uint32_t batch = 32;  // per worker, used when no launcher sets one
  bool shuffle = true;
  std::uint64_t max_steps = 0;  // stop after so many committed steps; 0: after the epochs
};

struct Batch {
  std::uint64_t step = 0;                  // number this step gets when it is committed; grows from batch to batch
  std::uint64_t epoch = 0;                 // from 0
  std::span<const std::uint64_t> samples;  // indices of this rank; valid until commit_step(); may be empty
  std::uint64_t local_samples = 0;         // of this rank; samples.size(), also where the program brings its own data
  std::uint64_t global_samples = 0;        // of all ranks in this step
  bool first_of_epoch = false;             // no sample of this epoch was used before this step
};

struct StepMetrics {
  double loss = 0;  // mean over this rank's samples; ignored for an empty batch
};

// Job-wide figures, the same on every worker. They ride on the all-reduce, which leaves before the program has given
// its loss: loss and compute time are those of the step before the last committed one.
struct StepReport {
  double loss = 0;
  std::uint64_t samples = 0;  // of the last committed step
  double gradient_norm = 0;   // of the averaged gradient, measured every 16 steps
  double slowest_compute_us = 0;
};

// What the session measures from work that it does anyway. The first part is known to all workers alike; 0: not known.
struct RunMonitors {
  bool has_noise_scale = false;
  double noise_scale = 0;        // in samples, over about the last ten of the steps measured, every 16th
  double gradient_norm = 0;      // of the averaged gradient, measured every 16 steps
  double gradient_variance = 0;  // of the last step measured; see measure_gradient_variance()
  std::uint32_t slowest_rank = 0;
  double slowest_compute_us = 0;
  // This worker's last step, …
  double step_us = 0;
  double data_wait_us = 0;
  double compute_us = 0;  // before the last all-reduce
  double communicate_us = 0;
  double update_us = 0;
  // … and its traffic since the last change: over sockets, and through shared memory.
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_shared = 0;
};

// This worker's traffic with one other, over the connections of the current generation; ranks without one have zeros.
struct PeerMonitors {
  std::uint64_t bytes_sent = 0;  // since the last change
  std::uint64_t bytes_received = 0;
  double round_trip_us = 0;  // the least that the kernel saw; 0: not known, or on this host
};

// What workers exchange in a step: the gradient of all, or their models, with all others or with one.
enum class Synchronization { kGradients, kAveraging, kPairAveraging };

struct StoreReply {
  bool found = false;
  std::uint64_t version = 0;
  std::string problem;  // why there is no answer; empty where there is one
};

struct TreeEdge {  // between ranks
  std::uint32_t from = 0;
  std::uint32_t to = 0;
};

// What changed at the last boundary; given to the callback on the training thread, inside commit_step() or start(). A
// recovery in the middle of a step is told at its end.
struct Change {
  std::uint64_t generation = 0;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::uint32_t previous_world_size = 0;
  bool joined_now = false;  // this worker's first generation
  std::string reason;
};

enum class Outcome {
  kRunning,
  kFinished,  // all epochs are done
  kLeft,      // this worker is not part of the next generation: end with success
  kStopped,   // the whole run is being stopped: end with success
};

class ELASTICTRAIN_CPP_API Session {
 public:
  // Finds its agent through the environment (ELASTICTRAIN_SOCKET); without one the session is a world of one.
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void share_state(std::string_view name, void* data, std::size_t bytes);
  // State that is a model of floats: replicas of it may be averaged (see "Synchronization" above).
  void share_model(std::string_view name, float* data, std::size_t count);
  void set_data(const DataOptions& options);
  void on_change(std::function<void(const Change&)> callback);

  // This worker trains on a CUDA device: the one of this number among those that the process sees, or that of its slot on
  // the host (several workers share one where there are more slots; it may set NCCL_HOSTID then, so call it before there
  // are threads). Before any state is shared; gives the number. CUDA and NCCL are found at run time; where they are
  // missing the error says what is.
  int use_device(int ordinal = -1);
  // State in the device's memory. start() waits for what the program's streams hold; later writes are part of a step if
  // they are in the stream of the step's last all_reduce_device() when commit_step() is called.
  void share_device_state(std::string_view name, void* device_data, std::size_t bytes);

  // Returns false when this worker is not needed after all (a dismissed spare): end with success.
  bool start();

  std::optional<Batch> next_batch();

  // In-place weighted mean over all ranks; blocks, also while the run recovers from a loss. An empty batch contributes
  // nothing, whatever the buffer holds. The result may be used once the step's last all-reduce has returned.
  void all_reduce(float* gradient, std::size_t count);

  // The same in the background, for overlap with the backward pass: buckets are reduced in the order of the calls,
  // which must be the same on all ranks; wait_all_reduce() returns when all are done. The buffer must stay valid and
  // untouched until wait_all_reduce() has returned or the session is destroyed, also when an exception unwinds: declare
  // gradients before the session.
  void all_reduce_async(float* gradient, std::size_t count);
  void wait_all_reduce();

  // The same for a gradient in the device's memory that `stream`, a cudaStream_t, brings (null: the default stream).
  // The call returns when the sum is there; with all_reduce_device_async() it is computed beside the backward pass.
  void all_reduce_device(float* device_gradient, std::size_t count, void* stream = nullptr);
  void all_reduce_device_async(float* device_gradient, std::size_t count, void* stream = nullptr);

  void commit_step(const StepMetrics& metrics = {});

  // The program's own data, between next_batch() and commit_step(), in the same order on all workers: the sum over all,
  // a new worker with an empty batch included, or what the first rank has. After a loss it is done again with what it
  // was on those that are left, like the step's gradients; the result may be used once the last of the step has
  // returned, and the memory must stay valid until commit_step().
  void sum(float* data, std::size_t count);
  void broadcast(void* data, std::size_t bytes);

  // A store of named, versioned copies that any other worker may read at any time, whatever this one is doing: who
  // saves takes no part in a request. enable_store() before start(), on all workers; others are known from the first
  // all-reduce after a change on. Versions count from 1, the newest three of a name are kept; request() of version 0
  // means the newest. What cannot be had is a reply, not an error of the session.
  void enable_store();
  void save(std::string_view name, const void* data, std::size_t bytes, std::uint64_t version);
  StoreReply request(std::uint32_t rank, std::string_view name, std::uint64_t version, void* data, std::size_t bytes,
                     std::chrono::milliseconds time_limit = std::chrono::seconds(5));
  // With the store enabled: how long a short question to each rank takes, with its connection; -1: no answer in time.
  std::vector<double> peer_latencies_us(std::chrono::milliseconds time_limit = std::chrono::seconds(1));
  // The tree of least total latency over all workers; like sum(), on all workers in the same step.
  std::vector<TreeEdge> minimum_spanning_tree(std::chrono::milliseconds time_limit = std::chrono::seconds(1));

  RunMonitors monitors() const;
  // One for each rank. Which ranks have a connection is the topology's choice (a clique: all), and what goes through
  // shared memory counts in RunMonitors only. All zeros while buckets are reduced in the background.
  std::vector<PeerMonitors> peer_monitors() const;
  // Every so many steps (0: never), the same on all workers: the sum over the step's all-reduces of
  // | avg(g^2) - avg(g)^2 |. It costs a second all-reduce of the gradient in the steps that are measured.
  void measure_gradient_variance(std::uint64_t every_steps);

  // Wishes about the run, taken like a user's: its limits hold, its journal says that the program asked, and what comes
  // of it comes at a step boundary, for all workers or for none. Every worker may call these; the first rank's count.
  void request_resize(std::uint32_t workers);
  void request_batch(std::uint32_t per_worker);
  void request_learning_rate_factor(double factor);  // in place of the configured rule's
  void request_synchronization(Synchronization synchronization);
  // As network.topology in the configuration, or an explicit tree as every rank's father: "1,1,1".
  void request_topology(std::string_view name);
  Synchronization synchronization() const;  // of the current step

  // "2:100,4:200": 2 in the first 100 steps, 4 from then on. 1 for an empty text. For request_resize(), for example.
  static std::uint32_t step_based_schedule(std::string_view schedule, std::uint64_t step);

  std::uint32_t rank() const;
  std::uint32_t world_size() const;
  std::uint32_t local_rank() const;
  std::uint64_t generation() const;
  std::uint64_t worker_id() const;  // stays, except in a pool
  std::uint64_t committed_step() const;
  double learning_rate_factor() const;
  bool launched() const;  // false: alone, without a launcher
  Outcome outcome() const;
  StepReport last_step() const;

  // Puts a named value into the run's journal and summary (test accuracy, for example); rank 0 only, others are
  // ignored.
  void note(std::string_view key, std::string_view value);

  // Optional: ends the session cleanly before destruction and tells the supervisor that the program is done.
  void finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

ELASTICTRAIN_CPP_API const char* version();

}  // namespace elastictrain
