// elastictrain: C++ API for training programs.
//
// A program that trains on its own becomes elastic with these calls:
//
//   elastictrain::Session session;                                  // joins the run; a world of one without a launcher
//   session.share_model("weights", weights.data(), weights.size()); // everything that an update changes: the model
//   session.share_state("momentum", momentum.data(), bytes);        // and all other state
//   session.set_data({.sample_count = n, .epochs = 5, .seed = 1, .batch = 32});
//   session.start();                                                // returns when this worker is a member
//   while (auto batch = session.next_batch()) {
//     compute_gradients(batch->samples, gradient);                  // mean over the samples; empty for a new worker
//     session.all_reduce(gradient.data(), gradient.size());         // weighted by samples, over all workers
//     update(weights, gradient, lr * session.learning_rate_factor());
//     session.commit_step({.loss = loss});                          // the step boundary: memberships change here
//   }
//
// Between two commit_step() calls the membership is fixed. A change of size swaps the communicator behind all_reduce()
// inside commit_step(); rank, world size and the number of samples may differ in the next batch.
//
// Failures: when another worker fails, a call of this session waits until the run has recovered, and then repeats the
// step's all-reduces among the survivors. No forward or backward pass is repeated. The program must keep two rules:
//   - write state only after the step's last all_reduce() (or wait_all_reduce()) has returned;
//   - keep every gradient buffer of the step valid and unmodified until then, and valid until commit_step():
//     a bucket may be reduced again, with another result.
// In rare cases a worker is behind the others. Its all-reduces then return zeros, the others' state replaces its result
// of that step inside commit_step(), and its next batch is empty. committed_step() may advance by more than one.
//
// Processes that stay: a process that MPI started keeps running when its worker leaves, and so does one that a shrink
// lets go, if hosts.keep_warm_s says so. commit_step() then waits until the process is needed again, as another worker:
// worker_id() changes, on_change() reports the new worker's first generation, its next batch is empty, and the loop
// continues. next_batch() returns nothing when the process is no longer needed.
//
// Synchronization: with averaged gradients (S-SGD) all workers hold the same bits. The configuration, a policy or the
// program may request that every worker trains its own replica. all_reduce() then returns this worker's own gradient,
// and commit_step() moves the buffers of share_model() towards the average of all models (synchronous averaging) or
// halfway to another worker's model (pair averaging). The program stays the same. At the end of the data, and when
// gradients are averaged again, all workers get the average of the models and the other state of one of them. A program
// that shares no model always trains with averaged gradients. With pair averaging workers may be at different batches
// for a while: committed_step() then advances by more than one, where they meet, and a collective of the program's own
// must be called in every step from the first one on, or between two epochs.
//
// GPUs: with use_device() state and gradients may be in a CUDA device's memory. The program keeps its streams: a sum
// runs after the work that the stream holds at the call, and work that the program adds afterwards (its update) runs
// after the sum. The session waits for nothing else. Gradients in device memory are always averaged.
//
// Processes: a worker is one process with one session. A forked child of it (a data loader, for example) is no worker:
// it has none of the session's connections and threads, may destroy what it inherited or exit, and every other call
// there throws. ELASTICTRAIN_SOCKET leaves the environment when the session is created, so that no child finds the
// agent.
//
// Signals: if the program has no SIGTERM handler when it creates its session, a SIGTERM that does not come from its
// agent does not end it. A batch system sends SIGTERM to all processes of a job that ends, and the run releases the
// worker at a step boundary. A second SIGTERM ends the process.
//
// Errors: a call that cannot continue throws elastictrain::SessionError; its message states what to do. What a callback
// throws comes out of the call that made it, and the session has failed then. Leaving and finishing are not errors:
// next_batch() returns nothing, and outcome() tells which it was. Thread: any thread, one call at a time; the text
// speaks of the training thread, whichever that is now. State buffers must keep their address until the session is
// destroyed and must be written only between the last successful all_reduce() and commit_step() of the same step.
#pragma once

#include <array>
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
#include <utility>
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

// The checkpoints that the run is to continue from are gone, damaged, or those of another model or data set.
class ELASTICTRAIN_CPP_API CheckpointError : public SessionError {
 public:
  using SessionError::SessionError;
};

// A collective between two steps that a loss has ended. Call next_batch() again: the run has recovered, or is over.
// What the call was to change is undefined, and other workers may have completed it.
class ELASTICTRAIN_CPP_API SessionInterrupted : public SessionError {
 public:
  using SessionError::SessionError;
};

// Of a program's own values. Half-precision floats are summed in single precision and rounded once; integers wrap
// around; for bool, sum and maximum are "or", product and minimum are "and".
enum class DataType { kFloat32, kFloat16, kBFloat16, kFloat64, kInt32, kInt64, kUInt8, kBool };
enum class Operation { kSum, kMax, kMin, kProduct };

// How the data is divided into steps. The sampler's state is a few numbers that are part of the replicated state.
struct DataOptions {
  std::uint64_t sample_count = 0;  // per epoch; 0: the program brings its own data, batches carry only counts
  std::uint64_t epochs = 1;
  std::uint64_t seed = 0;    // of the shuffle; must be equal on all workers
  std::uint32_t batch = 32;  // per worker; batch.per_worker of the run counts before it
  bool shuffle = true;
  std::uint64_t max_steps = 0;  // stop after this many committed steps; 0: after the epochs
  // No batch that is not empty has fewer samples (batch statistics need two, for example): at the end of an epoch fewer
  // workers get samples, or the last ones get a few more. Every sample still counts. Equal on all workers.
  std::uint32_t min_local_samples = 0;
  // The rest of an epoch that does not fill a step of the present size is dropped, unless it is the whole epoch.
  // Without it every sample counts. Equal on all workers.
  bool drop_last = false;
  // Batches from which a program makes one step (accumulation of gradients): `batch` and min_local_samples are those of
  // a step, batch.per_worker of the run is of one of them. At least 1; equal on all workers.
  std::uint32_t batches_per_step = 1;
  // `batch` is that of all workers together, whatever their number. Equal on all workers.
  bool batch_of_all = false;
};

struct Batch {
  std::uint64_t step = 0;                  // the step's number once it is committed; increases with every batch
  std::uint64_t epoch = 0;                 // from 0
  std::span<const std::uint64_t> samples;  // indices of this rank; valid until commit_step(); may be empty
  std::uint64_t local_samples = 0;         // of this rank; the count also if the program brings its own data
  std::uint64_t global_samples = 0;        // of all ranks in this step
  bool first_of_epoch = false;             // no sample of this epoch was used before this step
};

// Samples of this rank in the next steps: those of the first batch, then those of the second one, and so on.
struct LookAhead {
  std::vector<std::uint64_t> samples;      // empty if the program brings its own data
  std::vector<std::uint64_t> batch_sizes;  // fewer than asked for at the end of the data
};

struct StepMetrics {
  double loss = 0;  // mean over this rank's samples; ignored for an empty batch
};

// Figures of the whole job, the same on every worker. They ride on the all-reduce, which is sent before the program
// reports its loss: loss and compute time are those of the step before the last committed one.
struct StepReport {
  double loss = 0;
  std::uint64_t samples = 0;  // of the last committed step
  double gradient_norm = 0;   // of the averaged gradient, measured every 16 steps
  double slowest_compute_us = 0;
};

// Measurements that the session makes at no extra work. The first part is the same on all workers. 0: not known.
struct RunMonitors {
  bool has_noise_scale = false;
  double noise_scale = 0;  // in samples, over about the last ten measured steps (every 16th step); alone: half_batch()
  double gradient_norm = 0;      // of the averaged gradient, measured every 16 steps
  double gradient_variance = 0;  // of the last step measured; see measure_gradient_variance()
  std::uint32_t slowest_rank = 0;
  double slowest_compute_us = 0;
  // This worker's last step:
  double step_us = 0;
  double data_wait_us = 0;
  double compute_us = 0;  // before the last all-reduce
  double communicate_us = 0;
  double update_us = 0;
  // Its traffic since the last change, over sockets and through shared memory:
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_shared = 0;
};

// This worker's traffic with one peer over the connections of the current generation; zeros for a rank without one.
struct PeerMonitors {
  std::uint64_t bytes_sent = 0;  // since the last change
  std::uint64_t bytes_received = 0;
  double round_trip_us = 0;  // the minimum that the kernel measured; 0: not known, or on this host
};

// What workers exchange in a step: gradients (all workers), or models, with all others or with one.
enum class Synchronization { kGradients, kAveraging, kPairAveraging };

struct StoreReply {
  bool found = false;
  std::uint64_t version = 0;
  std::string problem;  // why there is no answer; empty if there is one
};

struct TreeEdge {  // between ranks
  std::uint32_t from = 0;
  std::uint32_t to = 0;
};

// What changed at the last boundary. Passed to the callback on the training thread, inside commit_step() or start(). A
// recovery in the middle of a step is reported at the end of the step.
// A checkpoint of another layout than the program's state has; its checksum is right. The callback fills the state and
// changes the values that the run goes on with, or says why it cannot be: then the checkpoint is skipped.
struct OtherLayout {
  struct Named {
    std::string name;
    std::span<std::byte> bytes;
  };
  std::string_view manifest;        // JSON
  std::string_view header;          // of the safetensors file, from its first byte
  std::span<const std::byte> data;  // of all its tensors
  std::vector<Named> state = {};    // of this program, with the values that it has now

  std::string refusal = {};
  std::uint64_t samples_used = 0;
  std::uint64_t epoch = 0;
  std::uint64_t cursor = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> returned = {};  // (first, count)
  std::vector<std::pair<std::string, std::vector<std::byte>>> early = {};
  std::vector<std::pair<std::string, std::vector<std::byte>>> attachments = {};
};

struct Change {
  std::uint64_t generation = 0;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::uint32_t previous_world_size = 0;  // for a worker that joins: the members that were there; 0 at a run's start
  bool joined_now = false;                // this worker's first generation
  std::string reason;
};

// What the open step's commit will do; the same on all members.
struct Boundary {
  bool checkpoint = false;  // a checkpoint of this step is written, unless the disk or a loss prevents it
  bool change = false;      // the membership changes: this worker gets another assignment, or leaves
  bool stop = false;        // the run stops
  bool end = false;         // the data end with this step
};

// Access to memory that this process cannot reach: another process's, or that of a device that the session does not
// know. Both copy, `offset` bytes behind its begin, and return when that is done: nothing, or a sentence that says why
// it cannot be. They are called until the session ends, on threads of its own too, several at once. The copy is of what
// the program has written before its last commit_step(), or before start().
struct MemoryAccess {
  std::function<std::string(std::uint64_t offset, std::span<std::byte> into)> read;
  std::function<std::string(std::uint64_t offset, std::span<const std::byte> from)> write;
};

// One bucket's sum that the program makes elsewhere: what it needs to know of the step and of this generation.
struct SumElsewhere {
  std::uint64_t step = 0;    // the same in every repetition of the open step, and in no other step of this process
  std::uint32_t bucket = 0;  // its place among such buckets of the step, from 0
  std::uint64_t generation = 0;
  std::uint32_t rank = 0;  // in this generation; after a loss in this step others than those of the session
  std::uint32_t world_size = 1;
  std::array<std::uint8_t, 16> token = {};  // secret of the generation, from which a plane derives its own
  std::uint32_t encryption = 0;             // of its connections; for PlaneWorld
  float scale = 0;                          // the weight of this worker's input; 0 without one
  bool has_input = false;                   // false: this worker adds nothing, whatever its memory holds
  bool keeps = false;                       // keep a copy of the input: the sum may be repeated
  // The sum was started before in this step, with `keeps`: its input is the copy, and where none was made, because the
  // sum did not get so far, what the memory holds.
  bool is_kept = false;
  bool wants_norms = false;
  // Of all workers of the generation, `mine` of each in the order of the ranks; all of them call it in the same order,
  // with as many bytes. Returns nothing or a sentence. Until the function returns that got it.
  std::function<std::string(std::span<const std::byte> mine, std::span<std::byte> all)> all_gather = {};
  // The generation is over, here or at another worker: what waits for others must end. Until the function returns that
  // got it, on the thread that called it.
  std::function<bool()> is_broken = {};
};

// The end of the sums that were started.
struct SumsElsewhere {
  bool failed = false;  // something else has: abort the sums, and return when none uses the program's memory
  std::function<bool()> is_broken = {};  // as that of SumElsewhere
  // To be set where the sums asked for norms: of the input of this worker, before it is scaled, and of the result; the
  // sums over all buckets.
  double local_square_sum = 0;
  double reduced_square_sum = 0;
};

// Both return nothing, or a sentence that says why not.
using StartElsewhere = std::function<std::string(const SumElsewhere&)>;
using FinishElsewhere = std::function<std::string(SumsElsewhere&)>;

enum class Outcome {
  kRunning,
  kFinished,  // all epochs are done
  kLeft,      // this worker is not part of the next generation: end with success
  kStopped,   // the whole run is being stopped: end with success
};

class ELASTICTRAIN_CPP_API Session {
 public:
  // Finds its agent through the environment (ELASTICTRAIN_SOCKET). Without an agent the session is a world of one. At
  // most one session of a process, and of its forked children, has an agent.
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void share_state(std::string_view name, void* data, std::size_t bytes);
  // State that is a model of floats: replicas of it may be averaged (see "Synchronization" above).
  void share_model(std::string_view name, float* data, std::size_t count);
  // State with the type and shape that checkpoints give it: their safetensors files then load as a model's tensors.
  // `dtype` as in that format (F32, F16, BF16, F64, I64, BOOL, ...); contiguous, the last dimension first.
  void share_tensor(std::string_view name, void* data, std::string_view dtype, std::span<const std::uint64_t> shape);
  // The same for a tensor that this process cannot reach itself. move_state() does not apply, and use_device() is not
  // possible beside it.
  void share_tensor_through(MemoryAccess access, std::string_view name, std::string_view dtype,
                            std::span<const std::uint64_t> shape);
  // The same for a tensor that the forward pass writes, such as running statistics and counters: it may be written at
  // any time in a step. At the step's commit its values become state, so by then every worker holds the same ones, from
  // sums to which a worker without samples adds nothing. Joiners, checkpoints and audits get the values of the last
  // committed step; a worker whose state has arrived gets them too, in place of what its pass wrote: it writes the
  // step's values after the last all-reduce, as the others do. In host memory; move_state() does not apply.
  void share_forward_tensor(std::string_view name, void* data, std::string_view dtype,
                            std::span<const std::uint64_t> shape);
  // The same for what the first rank alone keeps up to date, such as a best score, a history, or an average of the
  // weights: it may be written there at any time, and every worker registers it. In every `every_steps`-th step (equal
  // on all workers) the first rank's values travel to all: those as of the step's first all-reduce, or of commit_step()
  // without one. With that step's commit they are state, and in every other worker's memory. Joiners, checkpoints and
  // the next first rank get the last ones; what the first rank wrote since is lost with it. In a joiner's first step
  // as first rank nothing travels. In host memory; move_state() does not apply.
  void share_first_tensor(std::string_view name, void* data, std::string_view dtype,
                          std::span<const std::uint64_t> shape, std::uint64_t every_steps = 1);
  // State that each rank keeps for itself, such as a generator: never sent to a joiner, never compared, written at any
  // time; in host memory, and small, as all ranks' values together count as early values. A checkpoint has those of all
  // ranks as of its step's first all-reduce, or, at the end of the data, as of that end; one that is written at a stop
  // in between has those of the last step after which one was due. A run that resumes gives each rank of its first
  // generation the values of that rank; a rank that the checkpoint does not have keeps what it registered.
  void share_local_state(std::string_view name, void* data, std::size_t bytes);
  // State in host memory that the program has moved, with its content, to another address: before start(), or where it
  // may be written in a step.
  void move_state(std::string_view name, void* data);
  // A small value (all of them: 4 MiB) that is equal on all ranks, copied: what a worker needs before its first step,
  // such as the layout of its buckets. Before start(): its initial value; all workers of a first generation get the
  // first rank's. Later: a new one in a step, on all workers in the same one, which is state from that step's commit
  // on. start() brings a joiner the present values, and a run that resumes those of its checkpoint.
  void share_early(std::string_view name, const void* data, std::size_t bytes);
  // The value as of the last committed step, valid until the next call; nothing if there is none of this name.
  std::optional<std::span<const std::byte>> early(std::string_view name) const;
  void set_data(const DataOptions& options);
  // What a policy of the program's own does in every worker: `before` runs in next_batch() when a step (or a batch of a
  // round) has been opened, `after` in commit_step() with its report, on all members that made the step, those that
  // leave behind it too, and before any of them takes another assignment; a joiner's first one is that of its first
  // step. Both may ask for another size, batch, rate, synchronization or topology, and call collectives: `before` in
  // the step, `after` between two steps, where a loss throws SessionInterrupted: the hook is not repeated, and
  // commit_step() returns. Either may be empty.
  void step_hooks(std::function<void(const Batch&)> before, std::function<void(const StepReport&)> after);
  void on_change(std::function<void(const Change&)> callback);
  // For a program whose state is divided among several processes: called in start(), on the first rank, where the run
  // is to go on from a checkpoint of another layout. Without it such a checkpoint is skipped. `division`: the end of
  // the names of early values that say how the state is divided; where those of the checkpoint are others than the
  // program's own, its layout is another one, too.
  void on_other_layout(std::string division, std::function<void(OtherLayout&)> callback);

  // This worker trains on a CUDA device: the one with this ordinal among those that the process sees, or -1 for that of
  // its slot on the host. Workers share a device if a host has more slots than devices; the call may then set
  // NCCL_HOSTID, so make it before starting threads. Call it before any state is shared. Returns the ordinal. CUDA and
  // NCCL are found at run time; the error names a library that is missing.
  int use_device(int ordinal = -1);
  // The program uses gradients in device memory only in the stream that it has passed with them: neither another stream
  // nor the host reads them. Then wait_all_reduce() of a worker alone may return before the device has computed them,
  // and the update is queued behind. After use_device(), before start().
  void use_stream_order();
  // Memory for the copies of a step's gradients in device memory, from which the step is repeated after a loss: `bytes`
  // is the sum of their sizes and 16 for each bucket. Without this call the first step asks for it, and a device that
  // has no more memory costs a worker that others wait for. `device_memory`: the program's, for the session's lifetime;
  // null: the session allocates it, at once if this worker has peers, otherwise when others join, and if there is none,
  // they do not. Returns whether it is needed at once; with 0 bytes the call only asks that. After use_device(), before
  // start().
  bool reserve_gradient_copies(std::size_t bytes, void* device_memory = nullptr);
  // State in device memory. start() waits for the work in the program's streams. Later writes are part of a step if
  // they are in the stream of the step's last all_reduce_device() when commit_step() is called.
  void share_device_state(std::string_view name, void* device_data, std::size_t bytes);

  // For a program that goes through the epochs that are over until it is in the present one: it may do so before
  // start(), while the others train. `epoch`: where it is. Returns `epoch` once start() would not wait any more, or
  // earlier the run's present epoch, if that is a later one: go there and call again. The first call that finds no
  // later one reports this worker as ready; describe state and data before. The run is at most about a second ahead of
  // what is known.
  std::uint64_t await_start(std::uint64_t epoch);
  // Returns false if this worker is not needed (a dismissed spare): exit with success.
  bool start();

  std::optional<Batch> next_batch();

  // What the next batches of this rank will be, so that a program can load them early: after the open step, or from the
  // next one on if none is open. It holds as long as the membership and the batch stay as they are, or become what the
  // change says that is ready here; look again after each batch.
  LookAhead look_ahead(std::uint32_t batches) const;

  // In-place weighted mean over all ranks. Blocks, also while the run recovers from a failure. An empty batch
  // contributes nothing, whatever the buffer holds. Use the result only after the step's last all-reduce has returned.
  void all_reduce(float* gradient, std::size_t count);

  // The same in the background, to overlap with the backward pass. Buckets are reduced in the order of the calls, which
  // must be the same on all ranks; wait_all_reduce() returns when all are done. The buffer must stay valid and
  // unmodified until wait_all_reduce() has returned or the session is destroyed, also when an exception unwinds:
  // declare gradients before the session.
  void all_reduce_async(float* gradient, std::size_t count);
  // Also without a gradient: when it returns, this worker's state is complete, which a new worker's is not before its
  // first all-reduce, and it may be written. So a step without an all-reduce in which state is written begins with it.
  void wait_all_reduce();

  // The same for a gradient in device memory that `stream`, a cudaStream_t, produces (null: the default stream). The
  // call returns when the sum is complete. all_reduce_device_async() computes it in parallel with the backward pass;
  // see use_stream_order().
  void all_reduce_device(float* device_gradient, std::size_t count, void* stream = nullptr);
  void all_reduce_device_async(float* device_gradient, std::size_t count, void* stream = nullptr);

  // The same for gradients of kFloat16 or kBFloat16 (or kFloat32), as mixed precision has them. They are weighted and
  // summed in single precision and rounded once.
  void all_reduce(void* gradient, std::size_t count, DataType type);
  void all_reduce_async(void* gradient, std::size_t count, DataType type);
  void all_reduce_device(void* device_gradient, std::size_t count, DataType type, void* stream = nullptr);
  void all_reduce_device_async(void* device_gradient, std::size_t count, DataType type, void* stream = nullptr);

  // One bucket of the step whose sum the program makes elsewhere, in other processes of this worker for example (see
  // plane.hpp), as all_reduce_async() does: in the order of the calls, also among other buckets, on all ranks alike.
  // `start` is called in that order, on a thread of the session, and returns at once; where the generation is a new one
  // it may connect the workers first. `finish` is called once for all that were started, on the thread that waits for
  // them: that of the last one. It returns when all sums are complete, and may wait for that, as long as is_broken()
  // is false. It is called after a failure, too, but not where the session ends in an open step.
  // A sentence of either counts as the loss of a worker: the session waits for the recovery, and the step is repeated,
  // as for any bucket. Sums in which the ranks do not do the same cannot be told from that. A worker that is alone
  // calls nothing as long as its gradient is its own sum: not after a loss in this step, without samples, or in a step
  // that asks for norms. A step that is given up calls nothing: what the memory holds then is replaced with the state.
  // Memory must not belong to two buckets of a step. Not with use_device(), with the gradient variance, or while
  // workers average models.
  void all_reduce_elsewhere_async(StartElsewhere start, FinishElsewhere finish);

  // What the commit of the open step will do. Known from the step's first sum on, with which the workers agree on it;
  // call it behind the step's last sum, where it makes one if there was none (then on all workers). A loss before the
  // commit may still prevent the change or the stop. Nothing for a worker that is behind, whose step is given up, and
  // in the batches of a round before its last one.
  Boundary boundary();
  // Values or calls that must be equal on all ranks are not, as this worker sees behind the step's sums and before its
  // update. If a member is newer than the last agreement, the newest ones go, and the call returns when the others have
  // repeated the sums without them: their results are others. If nobody is, or alone, it throws SessionError, as a
  // collective does in which the ranks disagree. A member is newer until the end of an epoch and two more steps have
  // passed.
  void disagree(std::string_view reason);
  // Of a worker that is no member yet: it cannot join, and `reason` is a sentence for the user. End the program then,
  // with any status: it is no failure. Once the second new worker has declined the run stays at its size.
  void decline(std::string_view reason);
  // Adds a value to the checkpoint of the open step, if one is written: that of the worker that writes it counts, which
  // is the first rank (in an emergency one worker of each host). Call it before commit_step(), at least where
  // boundary() says so. All values of a step together: 8 MiB. A checkpoint has only what was attached to its very step:
  // without it, it has none, and the journal says so (checkpoint_unattached).
  void attach(std::string_view name, const void* data, std::size_t bytes);
  // What was attached to the checkpoint with which this run has begun: after start(), on each worker of the first
  // generation, whatever its size. Nothing otherwise. Valid as long as the session.
  std::optional<std::span<const std::byte>> attachment(std::string_view name) const;
  void commit_step(const StepMetrics& metrics = {});

  // For a program that ends by a condition of its own: its data end, for all workers, with the step whose first
  // all-reduce follows this call (the open one, if it has not reduced anything yet). next_batch() then returns nothing
  // on every worker, and outcome() is kFinished; go on calling it until then. One worker's call suffices.
  void end_data();

  // States that what follows may take long, inside or outside of a step: "data" (the program waits for its own loader),
  // "evaluation", "compile" or "checkpoint". It ends with an empty name, or where another phase begins. Meanwhile this
  // worker does not count as hanging, for at most failures.phase_timeout_ms, and `status` shows the phase. Time in
  // "data" counts as data wait; time in another phase is part of no step.
  void phase(std::string_view name);

  // For the program's own data, between next_batch() and commit_step(), in the same order on all workers: the sum over
  // all ranks (including a new worker with an empty batch), or a copy of the first rank's data. After a failure the
  // call is repeated with its original input among the survivors, like the step's gradients. Use the result only after
  // the last such call of the step has returned; the memory must stay valid until commit_step(). Before the step's
  // first all-reduce it does not wait for the state of new workers, so state must not be written after it alone.
  void sum(float* data, std::size_t count);
  void broadcast(void* data, std::size_t bytes);

  // The same for values of any type, from any rank, and more. They may also be called between two steps, from start()
  // until the end of the program, in the same order on all workers; a loss then throws SessionInterrupted. A worker
  // that joins begins with next_batch(): call them where it can know of them. Every rank gets the same bits. Sums of
  // floats travel as gradients do; all else is gathered by every rank, so it is meant for small data. In a step, rank()
  // and world_size() stay what they are; blocks of ranks that are lost in it are zeros.
  void reduce_values(void* data, std::size_t count, DataType type, Operation operation = Operation::kSum);
  void broadcast_from(void* data, std::size_t bytes, std::uint32_t root);
  // The same into memory of its own, without a copy on the ranks that receive: `data` is read until the call returns.
  // If the root is lost before any rank has its value, the first rank's counts.
  void broadcast_into(const void* data, std::size_t bytes, std::uint32_t root, void* received);
  // `bytes` of each rank; `gathered` has room for world_size() as many, in the order of the ranks.
  void all_gather(const void* data, std::size_t bytes, void* gathered);
  // `data` has `count_per_rank` elements for each rank; `result` gets those of this rank.
  void reduce_scatter(const void* data, std::size_t count_per_rank, DataType type, Operation operation, void* result);
  // `equal`: 1 if all ranks passed the same bytes, as many each, and 0 if not; the same on all ranks.
  void agree(const void* data, std::size_t bytes, int* equal);
  void barrier();
  // Collectives of groups: all workers call, each with the number of its group, and data passes only within a group
  // (the workers of one host, or those that train the same part). The order of a group is that of the ranks.
  void reduce_values_in(std::uint64_t group, void* data, std::size_t count, DataType type,
                        Operation operation = Operation::kSum);
  // `gathered` has room for world_size() blocks. Returns how many there are: as many as the group has workers.
  std::uint32_t all_gather_in(std::uint64_t group, const void* data, std::size_t bytes, void* gathered);
  // `root`: a place in the group, from 0; beyond its end: the last.
  void broadcast_in(std::uint64_t group, void* data, std::size_t bytes, std::uint32_t root = 0);
  // In a step, in the background, until wait_all_reduce() or commit_step(): the ranks may start these in different
  // orders, because a key says which belong together. Between two other calls of the step all ranks start the same
  // keys, each once, of at most 120 bytes. `data` must stay valid and unmodified until then.
  void reduce_values_async(std::string_view key, void* data, std::size_t count, DataType type,
                           Operation operation = Operation::kSum);
  void broadcast_async(std::string_view key, void* data, std::size_t bytes, std::uint32_t root = 0);
  // Memory of the session for the calls above and for gradients, where the program's own would not live until
  // commit_step(): put values into it, pass it, and read the result there. Aligned for every type; valid until the next
  // call of next_batch() or the end of the session.
  void* step_memory(std::size_t bytes);

  // A store of named, versioned copies that any other worker may read at any time, whatever this one is doing: the
  // worker that saves takes no part in a request. Call enable_store() before start(), on all workers. The others'
  // stores are known after the first all-reduce that follows a change. Versions count from 1; the newest three of a
  // name are kept; request() with version 0 means the newest. Missing data is reported in the reply and is not an error
  // of the session.
  void enable_store();
  void save(std::string_view name, const void* data, std::size_t bytes, std::uint64_t version);
  StoreReply request(std::uint32_t rank, std::string_view name, std::uint64_t version, void* data, std::size_t bytes,
                     std::chrono::milliseconds time_limit = std::chrono::seconds(5));
  // Requires the store: how long a short request to each rank takes, including its connection. -1: no answer in time.
  std::vector<double> peer_latencies_us(std::chrono::milliseconds time_limit = std::chrono::seconds(1));
  // The tree of minimum total latency over all workers. Like sum(), call it on all workers in the same step.
  std::vector<TreeEdge> minimum_spanning_tree(std::chrono::milliseconds time_limit = std::chrono::seconds(1));

  RunMonitors monitors() const;
  // One entry for each rank. The topology determines which ranks have a connection (a clique: all). Traffic through
  // shared memory counts in RunMonitors only. All zeros while buckets are reduced in the background.
  std::vector<PeerMonitors> peer_monitors() const;
  // Every `every_steps` steps (0: never), the same on all workers: the sum over the step's all-reduces of
  //  avg(g^2) - avg(g)^2 |. It costs a second all-reduce of the gradient in each measured step.
  void measure_gradient_variance(std::uint64_t every_steps);

  // While a worker trains alone, no other gradient shows how noisy its own is, but two halves of its batch do. Above 0:
  // the open step asks for them (every 16th step, with a single worker, two samples or more, and monitors on): compute
  // the mean gradient of the batch's first half_batch() samples and that of the others, report the sums of their
  // squares, and reduce the mean of all samples, which is the mean of both, weighted by samples. That takes no further
  // pass. A program that reports nothing trains just as well, but alone its noise scale is not known, and policies that
  // follow it wait for a second worker.
  std::uint64_t half_batch() const;
  void report_halves(double first_square, double second_square);

  // Requests about the run, treated like those of a user: the run's limits apply, and the journal records that the
  // program asked. A change takes effect at a step boundary, for all workers or for none. Every worker may call these;
  // the first rank's request counts.
  void request_resize(std::uint32_t workers);
  void request_batch(std::uint32_t per_worker);
  void request_learning_rate_factor(double factor);  // replaces that of the configured rule
  void request_synchronization(Synchronization synchronization);
  // A name as in network.topology of the configuration, or an explicit tree as the parent of every rank: "1,1,1".
  void request_topology(std::string_view name);
  Synchronization synchronization() const;  // of the current step

  // "2:100,4:200": 2 in the first 100 steps, 4 afterwards; 1 for an empty text. For request_resize(), for example.
  static std::uint32_t step_based_schedule(std::string_view schedule, std::uint64_t step);
  // In a process that a worker, `worker`, has started to load data or for another part of its work, without a session:
  // TERM of any other process than the worker, the parent and the agent does nothing, nor do INT, USR1 and USR2 unless
  // the program handles them.
  static void ignore_notices(std::int64_t worker);

  std::uint32_t rank() const;
  std::uint32_t world_size() const;
  std::uint32_t local_rank() const;
  std::uint64_t generation() const;
  std::uint64_t worker_id() const;  // constant, except in a pool
  std::uint64_t committed_step() const;
  double learning_rate_factor() const;
  bool launched() const;  // false: a world of one, without a launcher
  Outcome outcome() const;
  StepReport last_step() const;

  // The board of the run: small values by key that its workers leave for one another, from the construction of the
  // session on, members or not, in a step or outside. A value stays until it is replaced, or the run ends; also through
  // a supervisor that is lost. A key has at most 200 bytes, a value 4 MiB, all of the run together 64 MiB; SessionError
  // otherwise, from the next call where only the supervisor knows it. board_put() does not wait: what is put while the
  // supervisor is away arrives later, and of values of one key the newest. board_get() waits for the key for at most
  // `wait`; nothing: it has no value, or the supervisor has not answered, for which it waits at least 5 seconds.
  // Without a launcher the board is this process's own. Any thread.
  void board_put(std::string_view key, const void* value, std::size_t bytes);
  std::optional<std::vector<std::byte>> board_get(std::string_view key,
                                                  std::chrono::milliseconds wait = std::chrono::milliseconds(0));

  // The memory of the devices on which this worker computes, for a program that uses them itself: of the one with the
  // least free memory. `status` shows it, and a worker whose device is more than half full is replaced by a successor
  // that starts when it has left. Call it now and then; the last call counts. With use_device() the session asks
  // itself.
  void device_memory(std::uint64_t total_bytes, std::uint64_t free_bytes);

  // Writes a named value to the run's journal and summary (test accuracy, for example). Only rank 0's call has an
  // effect. A key of up to 256 bytes, a value of up to 64 KiB; longer ones are refused with SessionError. A worker may
  // write 1,000 notes at once and 50 a second (one for each KiB of a value); the rest is dropped and counted.
  void note(std::string_view key, std::string_view value);

  // Optional: ends the session cleanly before destruction and reports to the supervisor that the program is done.
  void finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

ELASTICTRAIN_CPP_API const char* version();

}  // namespace elastictrain
