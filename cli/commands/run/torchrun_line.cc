#include "cli/commands/run/torchrun_line.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "cli/config/text.h"

namespace elastictrain::cli {
namespace {

Error wrong(std::string text) {
  return {ErrorCode::kInvalid, std::move(text)};
}

std::optional<std::uint32_t> number_of(std::string_view text) {
  const auto number = parse_whole_number(text);
  if (!number || *number > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

struct Nodes {
  std::uint32_t min = 1;
  std::uint32_t max = 1;
};

Result<Nodes> nodes_of(const std::string& text) {
  const auto parts = split(text, ':');
  const std::uint32_t min = parts.empty() ? 0 : number_of(parts.front()).value_or(0);
  const std::uint32_t max = parts.empty() ? 0 : number_of(parts.back()).value_or(0);
  if (parts.size() > 2 || min == 0 || min > max) {
    return wrong("--nnodes: '" + text + "' is neither a number nor MIN:MAX");
  }
  return Nodes{min, max};
}

Result<std::uint32_t> workers_per_node(const std::string& text, const TorchrunSurroundings& around) {
  if (text == "cpu" || (text == "auto" && around.gpus == 0)) return around.processors;
  if (text == "auto" || (text == "gpu" && around.gpus > 0)) return around.gpus;
  if (text == "gpu") return wrong("--nproc-per-node: gpu: this host has no GPU that its driver reports");
  const auto number = number_of(text);
  if (!number || *number == 0) return wrong("--nproc-per-node: '" + text + "' is none of auto, gpu, cpu and a number");
  return *number;
}

// "3" for all local ranks or "0:3,1:1"; the value says which of the two streams, as bits.
struct Streams {
  std::uint32_t of_all = 0;
  std::map<std::uint32_t, std::uint32_t> of_rank;

  bool any() const { return of_all != 0 || !of_rank.empty(); }
  std::uint32_t of(std::uint32_t rank) const {
    const auto found = of_rank.find(rank);
    return found == of_rank.end() ? of_all : found->second;
  }
};

Result<Streams> streams_of(const char* flag, const std::string& text) {
  constexpr std::uint32_t kBoth = 3;
  const auto bad = [&] { return wrong(std::string(flag) + ": '" + text + "' is neither 0 to 3 nor RANK:0 to 3,..."); };
  Streams streams;
  for (const std::string& part : split(text, ',')) {
    const auto words = split(part, ':');
    const auto colons = static_cast<std::size_t>(std::count(part.begin(), part.end(), ':'));
    if (colons > 1 || words.size() != colons + 1) return bad();
    const auto rank = number_of(words.front());
    const auto value = number_of(words.back());
    if (!rank || !value || *value > kBoth) return bad();
    if (words.size() == 2) {
      streams.of_rank[*rank] = *value;
    } else if (text == part) {
      streams.of_all = *value;
    } else {
      return bad();
    }
  }
  return streams;
}

// Writes the arguments of `run` one after the other.
class Line {
 public:
  Line(const TorchrunOptions& options, const TorchrunSurroundings& around) : options_(options), around_(around) {}

  Result<RunLine> make(const std::vector<std::string>& script) {
    using Part = Status (Line::*)();
    for (const Part part :
         {&Line::add_size, &Line::add_place, &Line::add_failures, &Line::add_output, &Line::add_rest}) {
      if (const Status added = (this->*part)(); !added.ok()) return added.error();
    }
    line_.program = program_of(script);
    return std::move(line_);
  }

 private:
  void add(std::string flag, std::string value) {
    line_.arguments.push_back(std::move(flag));
    line_.arguments.push_back(std::move(value));
  }

  Status add_size() {
    const auto nodes = nodes_of(options_.nnodes);
    if (!nodes) return nodes.error();
    const auto workers = workers_per_node(options_.nproc_per_node, around_);
    if (!workers) return workers.error();
    const auto size = number_of(options_.per_replica);
    if (!size || *size == 0) return wrong("--per-replica: '" + options_.per_replica + "' is no number of processes");
    several_hosts_ = nodes->max > 1;
    const auto counts = *size > *workers ? over_hosts(*nodes, *workers, *size) : on_hosts(*nodes, *workers, *size);
    if (!counts) return counts.error();
    const std::string min = std::to_string(counts->min);
    const std::string max = std::to_string(counts->max);
    add("-n", min == max ? min : min + ":" + max);
    if (meets()) add("--start", max);
    if (several_hosts_ || around_.names_hosts) add("--nproc-per-node", std::to_string(per_node_));
    if (*size > 1) add("--per-replica", std::to_string(*size));
    if (*size > *workers) add("--hosts-per-replica", std::to_string(*size / *workers));
    return {};
  }

  // Of workers that lie on one host each.
  Result<Nodes> on_hosts(const Nodes& nodes, std::uint32_t processes, std::uint32_t size) {
    if (processes % size != 0) {
      return wrong("--nproc-per-node: " + std::to_string(processes) +
                   " processes of a host are no whole number of replicas of " + std::to_string(size) +
                   " (--per-replica)");
    }
    per_node_ = processes / size;
    return Nodes{nodes.min * per_node_, nodes.max * per_node_};
  }

  // Of workers that take several hosts each.
  Result<Nodes> over_hosts(const Nodes& nodes, std::uint32_t processes, std::uint32_t size) {
    if (size % processes != 0) {
      return wrong("--per-replica: a replica of " + std::to_string(size) + " is no whole number of hosts of " +
                   std::to_string(processes) + " processes (--nproc-per-node)");
    }
    per_node_ = 1;
    const std::uint32_t hosts = size / processes;
    const Nodes counts{(nodes.min + hosts - 1) / hosts, nodes.max / hosts};
    const bool leaves_some = nodes.min == nodes.max && nodes.max % hosts != 0;
    if (counts.min <= counts.max && !leaves_some) return counts;
    return wrong("--nnodes: " + options_.nnodes + " hosts are no whole number of replicas over " +
                 std::to_string(hosts) + " hosts (--per-replica " + std::to_string(size) + ")");
  }

  Status add_place() {
    if (meets()) {
      if (const Status added = add_endpoint(); !added.ok()) return added;
    } else if (!options_.node_rank.empty() && options_.node_rank != "0") {
      return wrong(
          "--node-rank " + options_.node_rank +
          ": without --rdzv-endpoint or --master-addr one command starts the workers of all hosts; run it once, "
          "on the first host, and name the others with -H hostA,hostB");
    } else if (several_hosts_ && !around_.names_hosts && !around_.has_allocation) {
      return wrong("--nnodes " + options_.nnodes +
                   ": name the hosts with -H hostA,hostB, or run this on every host with --rdzv-endpoint HOST:PORT, or "
                   "once in a batch job");
    }
    if (options_.rdzv_id != "none") add("--name", options_.rdzv_id);
    if (!options_.master_port.empty() && !meets_at_master()) add("-x", "MASTER_PORT=" + options_.master_port);
    return {};
  }

  // Somebody else starts this command on every host.
  bool meets() const {
    const bool names_place = !options_.rdzv_endpoint.empty() || !options_.master_addr.empty();
    return several_hosts_ && names_place && !around_.names_hosts;
  }
  bool meets_at_master() const { return meets() && options_.rdzv_endpoint.empty(); }

  Status add_endpoint() {
    const std::string master_port = options_.master_port.empty() ? "29500" : options_.master_port;
    add("--endpoint", meets_at_master() ? options_.master_addr + ":" + master_port : options_.rdzv_endpoint);
    std::string role = "auto";
    if (!options_.node_rank.empty()) role = options_.node_rank == "0" ? "hold" : "join";
    for (const std::string& part : split(options_.rdzv_conf, ',')) {
      const auto equals = part.find('=');
      const std::string key = part.substr(0, equals);
      const std::string text = equals == std::string::npos ? "" : part.substr(equals + 1);
      if (key == "is_host") {
        role = text == "1" || text == "true" || text == "True" || text == "t" ? "hold" : "join";
      } else if (key == "join_timeout" || key == "last_call_timeout") {
        if (!number_of(text)) return wrong("--rdzv-conf: '" + part + "' is not a number of seconds");
        add("--set", (key == "join_timeout" ? "hosts.join_timeout_ms=" : "timeouts.start_ms=") + text + "000");
      }
    }
    if (role != "auto") add("--endpoint-role", role);
    return {};
  }

  Status add_failures() {
    if (!number_of(options_.max_restarts)) {
      return wrong("--max-restarts: '" + options_.max_restarts + "' is not a number");
    }
    add("--max-restarts", options_.max_restarts);
    if (options_.max_restarts != "0") add("--set", "failures.plain_restarts=" + options_.max_restarts);
    if (options_.shutdown_timeout.empty()) return {};
    if (!number_of(options_.shutdown_timeout)) {
      return wrong("--shutdown-timeout: '" + options_.shutdown_timeout + "' is not a number of seconds");
    }
    add("--grace", options_.shutdown_timeout + "s");
    return {};
  }

  Status add_output() {
    const auto redirects = streams_of("--redirects", options_.redirects);
    if (!redirects) return redirects.error();
    const auto tee = streams_of("--tee", options_.tee);
    if (!tee) return tee.error();
    writes_files_ = redirects->any() || tee->any() || !options_.log_dir.empty();
    if (writes_files_) {
      add("--log-dir", options_.log_dir.empty() ? around_.log_directory : options_.log_dir);
    }
    if (const Status added = add_shown(*redirects, *tee); !added.ok()) return added;
    return add_label();
  }

  Status add_shown(const Streams& redirects, const Streams& tee) {
    const bool by_rank = !redirects.of_rank.empty() || !tee.of_rank.empty() || !options_.local_ranks_filter.empty();
    if (by_rank && several_hosts_) {
      return wrong(
          "--redirects, --tee and --local-ranks-filter by local rank need one host; elsewhere use "
          "--show-ranks of `elastictrain run`");
    }
    const auto filter = filter_of(options_.local_ranks_filter);
    if (!filter) return filter.error();
    std::string shown;
    for (std::uint32_t rank = 0; rank < per_node_; ++rank) {
      const bool is_shown = redirects.of(rank) == 0 || tee.of(rank) != 0;
      const bool passes = filter->empty() || std::find(filter->begin(), filter->end(), rank) != filter->end();
      if (is_shown && passes) shown += (shown.empty() ? "" : ",") + std::to_string(rank);
    }
    if (!by_rank && (redirects.of_all == 0 || tee.of_all != 0)) return {};
    add(writes_files_ ? "--tee" : "--show-ranks", by_rank && !shown.empty() ? shown : "none");
    return {};
  }

  static Result<std::vector<std::uint32_t>> filter_of(const std::string& text) {
    std::vector<std::uint32_t> ranks;
    if (text.empty()) return ranks;
    for (const std::string& part : split(text, ',')) {
      const auto rank = number_of(part);
      if (!rank) return wrong("--local-ranks-filter: '" + text + "' is not a list of ranks");
      ranks.push_back(*rank);
    }
    return ranks;
  }

  Status add_label() {
    if (options_.label_template.empty()) return {};
    std::string label = options_.label_template;
    for (const auto& [theirs, ours] : {std::pair<std::string, std::string>{"${role_name}", options_.role},
                                       {"${rank}", "{rank}"},
                                       {"${local_rank}", "{local_rank}"}}) {
      for (auto at = label.find(theirs); at != std::string::npos; at = label.find(theirs, at + ours.size())) {
        label.replace(at, theirs.size(), ours);
      }
    }
    line_.arguments.push_back("--label=" + label);
    return {};
  }

  Status add_rest() {
    if (options_.role != "default") add("-x", "ROLE_NAME=" + options_.role);
    if (options_.numa_binding == "node") add("--bind", "numa");
    if (!options_.numa_binding.empty() && options_.numa_binding != "node") {
      return wrong(
          "--numa-binding: only 'node' is offered; --bind core of `elastictrain run` gives each worker "
          "processors of its own");
    }
    line_.arguments.insert(line_.arguments.end(), options_.passed_on.begin(), options_.passed_on.end());
    return {};
  }

  std::vector<std::string> program_of(const std::vector<std::string>& script) const {
    constexpr const char* kRunPath =
        "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')";
    std::vector<std::string> program;
    if (!options_.no_python) program = {around_.python, "-u"};
    if (options_.module) program.push_back("-m");
    if (options_.run_path) program.insert(program.end(), {"-c", kRunPath});
    program.insert(program.end(), script.begin(), script.end());
    return program;
  }

  const TorchrunOptions& options_;
  const TorchrunSurroundings& around_;
  bool several_hosts_ = false;
  bool writes_files_ = false;
  std::uint32_t per_node_ = 1;
  RunLine line_;
};

}  // namespace

Result<RunLine> run_line_of(const TorchrunOptions& options, const TorchrunSurroundings& around,
                            const std::vector<std::string>& script) {
  if (script.empty()) return wrong("name the program: elastictrain torchrun --nproc-per-node 2 train.py");
  if (options.no_python && options.module) return wrong("--no-python and --module exclude each other");
  if (options.no_python && options.run_path) return wrong("--no-python and --run-path exclude each other");
  return Line(options, around).make(script);
}

}  // namespace elastictrain::cli
