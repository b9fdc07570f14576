#include "cli/config/cluster_file.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "cli/config/checks.h"
#include "cli/config/table_keys.h"
#include "cli/config/text.h"
#include "heuristics/sharing/policy.h"
#include "launcher/hostfile.h"

namespace elastictrain::cli {
namespace {

constexpr std::int64_t kMaxMs = 30LL * 24 * 3600 * 1000;

class ClusterReader : public TableReader {
 public:
  using TableReader::TableReader;

  void read(const toml::table& table) {
    TableKeys keys = top_keys();
    const std::vector<std::string> sections = {"hosts", "limits", "job"};
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      if (name == "policy" && node.is_table()) {
        policy_at_ = node.source();
        read_table(*node.as_table(), "policy", policy_keys());
      } else if (name == "hosts" && node.is_table()) {
        read_table(*node.as_table(), "hosts", host_keys());
      } else if (name == "limits" && node.is_table()) {
        read_limits(*node.as_table());
      } else if (name == "job" && node.is_array_of_tables()) {
        for (const toml::node& one : *node.as_array()) read_job(*one.as_table());
      } else {
        read_key(name, key.source(), node, "", keys, sections);
      }
    }
  }

  void finish() {
    if (result_.name.empty()) complain("name is missing: a cluster needs a name, or a directory and a name");
    if (result_.outside.any()) {
      complain_about_outside();
    } else if (!result_.outside.argument.empty()) {
      complain(policy_at_, "policy.argument needs policy.library");
    } else if (!decides_live(result_.policy)) {
      complain_policy();
    } else if (result_.packing && !heuristics::sharing::find_sharing_policy(result_.policy)->packs) {
      complain("packing = true needs a policy that packs two jobs into a slot: policy = \"gandiva\"");
    }
    if (!result_.host_list.empty() && !result_.host_file.empty()) {
      complain("hosts: give either hosts.list or hosts.file");
    }
    complain_about_growth();
    for (const std::string& host : result_.host_list) {
      const auto parsed = launcher::parse_host_list(host);
      if (!parsed.ok()) complain("hosts.list: " + parsed.error().message);
    }
  }

  std::variant<ClusterFile, ClusterFileError> take() {
    if (!messages().empty()) return ClusterFileError{std::move(messages())};
    return std::move(result_);
  }

 private:
  TableKeys top_keys() {
    ClusterFile& to = result_;
    TableKeys keys = {text_key("name", to.name),
                      text_key("directory", to.directory),
                      text_key("policy", to.policy),
                      whole_key("slice_ms", 100, kMaxMs, to.slice_ms),
                      whole_key("suspended_per_slot", 0, 100, to.suspended_per_slot),
                      flag_key("packing", to.packing),
                      flag_key("migration", to.migration),
                      whole_key("recall_timeout_ms", 100, kMaxMs, to.recall_timeout_ms),
                      whole_key("resume_timeout_ms", 100, kMaxMs, to.resume_timeout_ms),
                      whole_key("join_timeout_ms", 1000, kMaxMs, to.join_timeout_ms),
                      whole_key("orphan_grace_ms", 1000, kMaxMs, to.orphan_grace_ms),
                      whole_key("journal_max_bytes", 4096, 1ULL << 40, to.journal_max_bytes)};
    keys.push_back({"lengths", "\"said\" or \"estimated\"", [&to](const toml::node& node) {
                      const auto* value = node.as_string();
                      if (value == nullptr || (value->get() != "said" && value->get() != "estimated")) return false;
                      to.estimated_lengths = value->get() == "estimated";
                      return true;
                    }});
    keys.push_back({"access", "\"owner\" or \"everyone\"", [&to](const toml::node& node) {
                      const auto* value = node.as_string();
                      if (value == nullptr || (value->get() != "owner" && value->get() != "everyone")) return false;
                      to.everyone = value->get() == "everyone";
                      return true;
                    }});
    keys[2] = policy_name_key("policy");
    return keys;
  }

  TableKey policy_name_key(const char* name) {
    return {name, "a text", [this](const toml::node& node) {
              const auto* value = node.as_string();
              if (value == nullptr) return false;
              result_.policy = value->get();
              policy_at_ = node.source();
              is_policy_named_ = true;
              return true;
            }};
  }

  TableKeys policy_keys() {
    OutsidePolicyOfFile& outside = result_.outside;
    return {policy_name_key("name"), text_key("library", outside.library), text_key("argument", outside.argument),
            list_key("program", outside.program), whole_key("timeout_ms", 1, kMaxMs, outside.timeout_ms)};
  }

  void complain_about_outside() {
    const OutsidePolicyOfFile& outside = result_.outside;
    const int given =
        (outside.library.empty() ? 0 : 1) + (outside.program.empty() ? 0 : 1) + (is_policy_named_ ? 1 : 0);
    if (given > 1) complain(policy_at_, "give one of policy.name, policy.library and policy.program");
    if (!outside.argument.empty() && outside.library.empty()) {
      complain(policy_at_, "policy.argument needs policy.library");
    }
  }

  TableKeys host_keys() {
    GrowthOfFile& growth = result_.growth;
    return {list_key("list", result_.host_list),
            text_key("file", result_.host_file),
            whole_key("slots", 1, 1024, result_.host_slots),
            whole_key("poll_ms", 100, kMaxMs, result_.poll_ms),
            text_key("expand", growth.expand),
            text_key("shrink", growth.shrink),
            text_key("alive", growth.alive),
            whole_key("most_slots", 1, 100'000, growth.most_slots),
            real_key("least_gain", 0, 1, growth.least_gain),
            whole_key("expand_after_ms", 0, kMaxMs, growth.expand_after_ms),
            whole_key("expand_timeout_ms", 100, kMaxMs, growth.expand_timeout_ms),
            whole_key("shrink_after_ms", 0, kMaxMs, growth.shrink_after_ms),
            whole_key("alive_interval_ms", 100, kMaxMs, growth.alive_interval_ms)};
  }

  static TableKeys limit_keys(LimitsOfFile& to) {
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    return {whole_key("slots", 0, most, to.slots), whole_key("running", 0, most, to.running),
            whole_key("queued", 0, most, to.queued), whole_key("priority", -1000, 1000, to.priority),
            flag_key("submit", to.submit)};
  }

  void read_limits(const toml::table& table) {
    TableKeys keys = limit_keys(result_.limits);
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      if ((name == "users" || name == "groups") && node.is_table()) {
        read_named_limits(*node.as_table(), name, name == "users" ? result_.users : result_.groups);
      } else {
        read_key(name, key.source(), node, "limits", keys, {"users", "groups"});
      }
    }
  }

  void read_named_limits(const toml::table& table, const std::string& kind, std::map<std::string, LimitsOfFile>& to) {
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      if (node.is_table()) {
        read_table(*node.as_table(), "limits." + kind + "." + name, limit_keys(to[name]));
      } else {
        complain(key.source(), "limits." + kind + "." + name + " must be a table of limits, such as {slots = 8}");
      }
    }
  }

  void read_job(const toml::table& table) {
    JobOfFile job;
    read_table(table, "job",
               {text_key("name", job.name), text_key("config", job.config), list_key("arguments", job.arguments),
                whole_key("priority", -1000, 1000, job.priority)});
    const auto is_same = [&](const JobOfFile& other) { return other.name == job.name; };
    if (job.name.empty()) {
      complain(table.source(), "job.name is missing: a job of this file needs a name, so that it is submitted once");
    } else if (const Status good = check_name(job.name); !good.ok()) {
      complain(table.source(), "job.name: " + good.error().message);
    } else if (std::any_of(result_.jobs.begin(), result_.jobs.end(), is_same)) {
      complain(table.source(), "job.name: another job of this file is named " + job.name);
    } else if (job.config.empty() && job.arguments.empty()) {
      complain(table.source(), "job " + job.name + " needs a config, or arguments as for elastictrain submit");
    }
    result_.jobs.push_back(std::move(job));
  }

  void complain_about_growth() {
    const GrowthOfFile& growth = result_.growth;
    if (!growth.expand.empty()) {
      if (growth.most_slots == 0) complain("hosts.expand needs hosts.most_slots, the slots up to which it brings more");
      return;
    }
    if (!growth.shrink.empty()) complain("hosts.shrink needs hosts.expand");
    if (!growth.alive.empty()) complain("hosts.alive needs hosts.expand");
    if (growth.most_slots > 0) complain("hosts.most_slots needs hosts.expand");
  }

  void complain_policy() {
    std::vector<std::string> names;
    for (const auto& one : heuristics::sharing::sharing_policies()) {
      if (decides_live(one.name)) names.push_back(one.name);
    }
    const auto meant = closest(result_.policy, names);
    const std::string what =
        result_.policy == "max-min-fluid"
            ? "policy max-min-fluid is a bound that no cluster can run; use max-min"
            : "there is no policy \"" + result_.policy + "\"" +
                  (meant ? "; did you mean \"" + *meant + "\"?" : "; there are " + join(names, ", "));
    complain(policy_at_, what);
  }

  static bool decides_live(const std::string& name) {
    const auto* const spec = heuristics::sharing::find_sharing_policy(name);
    return spec != nullptr && name != "max-min-fluid";
  }

  ClusterFile result_;
  toml::source_region policy_at_;
  bool is_policy_named_ = false;
};

}  // namespace

std::variant<ClusterFile, ClusterFileError> read_cluster_file(std::string_view text, const std::string& file_name) {
  ClusterReader reader(file_name);
  read_toml(text, file_name, reader, [&reader](const toml::table& table) {
    reader.read(table);
    reader.finish();
  });
  return reader.take();
}

}  // namespace elastictrain::cli
