#include "tests/golden/story.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "supervisor/core/membership.h"
#include "supervisor/core/pure/failure_detector.h"
#include "supervisor/core/pure/invariants.h"
#include "supervisor/protocol/limits.h"
#include "supervisor/protocol/names.h"
#include "tests/golden/describe.h"
#include "tests/golden/worker_samples.h"
#include "tests/support/journal_check.h"

namespace elastictrain::core {
namespace {

using Words = std::vector<std::string>;

std::uint32_t number(const std::string& text) {
  return static_cast<std::uint32_t>(std::stoul(text));
}

class Story {
 public:
  explicit Story(std::vector<std::string>& sentences) : sentences_(sentences) {}

  std::string play(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind("> ", 0) == 0) {
        out_ << line << "\n";
        run(line.substr(2));
      } else if (line.empty() || line[0] == '#') {
        out_ << line << "\n";
      }
    }
    return out_.str();
  }

 private:
  void run(const std::string& line) {
    std::istringstream stream(line);
    Words words;
    for (std::string word; stream >> word;) words.push_back(word);
    const std::string command = words.at(0);
    words.erase(words.begin());
    const auto found = commands_.find(command);
    if (found == commands_.end()) throw std::runtime_error("unknown input: " + line);
    found->second(words);
  }

  Membership& machine() {
    if (!machine_) {
      machine_ = std::make_unique<Membership>(settings_, [this] { return next_token(); });
      journal_check_.emplace(settings_);
    }
    return *machine_;
  }

  Token next_token() {
    Token token{};
    token[0] = static_cast<std::uint8_t>(++tokens_);
    return token;
  }

  void feed(const Event& event) {
    for (const Action& action : machine().step(event, now_)) {
      if (const auto* journal = std::get_if<Journal>(&action)) journal_check_->take(journal->record);
      if (const auto* arm = std::get_if<ArmTimer>(&action)) timers_[{arm->when, arm->timer}] = arm->timer;
      if (const auto* cancel = std::get_if<CancelTimer>(&action)) drop_timer(cancel->timer);
      if (const auto* send = std::get_if<SendToWorkers>(&action)) note_sent(*send);
      if (const auto* spawn = std::get_if<SpawnWorker>(&action)) samples_.spawned(spawn->worker, spawn->agent);
      const std::string text = describe(action, [this](const std::string& sentence) { return number_of(sentence); });
      if (!text.empty()) out_ << "  " << text << "\n";
    }
    if (is_resumed_ || machine().ended()) return;  // a state that no journal of this story gives, or that nobody needs
    if (const auto difference = journal_check_->difference(machine())) out_ << "  DIFFERENCE " << *difference << "\n";
  }

  std::string number_of(const std::string& sentence) {
    if (sentence.empty()) return "<>";
    const auto found = std::find(sentences_.begin(), sentences_.end(), sentence);
    const auto index = found - sentences_.begin();
    if (found == sentences_.end()) sentences_.push_back(sentence);
    return "<" + std::to_string(index + 1) + ">";
  }

  void drop_timer(std::uint64_t timer) {
    std::erase_if(timers_, [&](const auto& entry) { return entry.second == timer; });
  }

  void note_sent(const SendToWorkers& send) {
    if (const auto* abort = std::get_if<protocol::Abort>(&send.message)) {
      fence_ = abort->fence;
      aborted_ = send.workers;
    }
    if (const auto* prepare = std::get_if<protocol::Prepare>(&send.message)) {
      generation_ = prepare->plan.generation;
      first_step_ = prepare->plan.fence != 0 ? prepare->plan.resume_step + 1 : 100 * generation_;
      addressed_ = send.workers;
      members_.clear();
      for (const auto& member : prepare->plan.members) members_.push_back(member.worker);
    }
  }

  void wait(const Words& words) {
    const bool seconds = words.at(0).find("ms") == std::string::npos;
    const Instant until = now_ + Millis(number(words[0]) * (seconds ? 1000 : 1));
    while (now_ < until) {
      for (AgentId id : alive_) feed(AgentReported{id, samples_.report(id, assignments_)});
      advance(std::min<Instant>(now_ + Millis(250), until));
    }
  }

  void advance(Instant until) {
    while (!timers_.empty() && timers_.begin()->first.first <= until) {
      const auto [when, timer] = timers_.begin()->first;
      timers_.erase(timers_.begin());
      now_ = std::max(now_, when);
      feed(TimerFired{timer});
    }
    now_ = until;
  }

  void connect(AgentId id) {
    alive_.insert(id);
    feed(AgentConnected{id});
  }

  void set(const Words& words) {
    for (const std::string& word : words) {
      const std::size_t at = word.find('=');
      const std::string name = word.substr(0, at);
      const std::string value = word.substr(at + 1);
      if (name == "start")
        settings_.start_workers = number(value);
      else if (name == "min")
        settings_.min_workers = number(value);
      else if (name == "max")
        settings_.max_workers = number(value);
      else if (name == "spares")
        settings_.spares = number(value);
      else if (name == "batch")
        settings_.batch.per_worker = number(value);
      else if (name == "limit")
        settings_.batch.max_global = number(value);
      else if (name == "at_limit")
        settings_.batch.at_limit = value == "stop" ? AtLimit::kStop : AtLimit::kSplit;
      else if (name == "rate")
        settings_.learning_rate.rule = value == "sqrt"       ? LearningRateRule::kSqrt
                                       : value == "adascale" ? LearningRateRule::kAdaScale
                                                             : LearningRateRule::kLinear;
      else if (name == "hosts_may_appear")
        settings_.hosts_may_appear = value != "0";
      else if (name == "last_call_s")
        settings_.last_call = Millis(number(value) * 1000);
      else if (name == "plain_restarts")
        settings_.failures.plain_restarts = number(value);
      else if (name == "max_crashes")
        settings_.failures.max_crashes = number(value);
      else if (name == "max_hangs")
        settings_.failures.max_hangs = number(value);
      else if (name == "max_infrastructure")
        settings_.failures.max_infrastructure = number(value);
      else if (name == "window_s")
        settings_.failures.window = Millis(number(value) * 1000);
      else if (name == "max_fruitless")
        settings_.failures.max_fruitless = number(value);
      else if (name == "on_failure")
        settings_.failures.on_failure = value == "stop"     ? OnFailure::kStop
                                        : value == "shrink" ? OnFailure::kShrink
                                                            : OnFailure::kReplace;
      else if (name == "keep_warm")
        settings_.keeps_warm = value != "0";
      else if (name == "leased")
        settings_.leased = settings_.hosts_may_appear = value != "0";
      else if (name == "keeps_first")
        settings_.keeps_first = value != "0";
      else if (name == "prepare_ms")
        settings_.prepare_timeout = Millis(number(value));
      else if (name == "checkpoints")
        settings_.has_checkpoints = value != "0";
      else
        throw std::runtime_error("unknown setting: " + word);
    }
  }

  void offer(const Words& words) {
    HostsOffered event;
    for (const std::string& word : words) {
      const std::size_t at = word.find(':');
      event.hosts.push_back({word.substr(0, at), number(word.substr(at + 1))});
    }
    feed(event);
  }

  // "VERSION A:0,1,3/4 B:2": slots 0, 1 and 3 of the four that A has. With "hold" or "moves".
  void lease(const Words& words) {
    LeaseGiven event{.version = number(words.at(0)), .hosts = {}, .reason = "share " + words[0]};
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (words[i] == "hold") event.hold = true;
      if (words[i] == "moves") event.moves = true;
      const std::size_t colon = words[i].find(':');
      if (colon == std::string::npos) continue;
      const std::size_t slash = words[i].find('/');
      HostSlots host{words[i].substr(0, colon)};
      for (const std::string& slot : split(words[i].substr(colon + 1, slash - colon - 1))) {
        host.only.push_back(number(slot));
      }
      host.slots = slash == std::string::npos ? host.only.back() + 1 : number(words[i].substr(slash + 1));
      event.hosts.push_back(std::move(host));
    }
    feed(event);
  }

  static AgentId agent(const std::string& word) { return AgentId{number(word.substr(1))}; }
  static WorkerId worker(const std::string& word) { return WorkerId{number(word.substr(1))}; }

  // "a1 w2:1": those with a slot.
  static std::vector<protocol::WarmProcess> warm_of(const Words& words) {
    std::vector<protocol::WarmProcess> list;
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::size_t colon = words[i].find(':');
      if (colon == std::string::npos) continue;
      const WorkerId was = worker(words[i].substr(0, colon));
      list.push_back({was, number(words[i].substr(colon + 1)), 1000 + static_cast<std::int64_t>(was.value)});
    }
    return list;
  }

  static std::string rest(const Words& words, std::size_t from) {
    std::string text;
    for (std::size_t i = from; i < words.size(); ++i) text += (i > from ? " " : "") + words[i];
    return text;
  }

  void say(WorkerId id, protocol::WorkerUp message) { feed(WorkerMessage{id, std::move(message)}); }

  void hello(WorkerId id) {
    if (!greeted_.insert(id).second) return;
    say(id, protocol::WorkerHello{limits::kProtocolVersion, id, 1000 + static_cast<std::int64_t>(id.value), "test"});
  }

  void ready(WorkerId id) {
    hello(id);
    say(id, protocol::WorkerReady{{}, 1000, 7, 60000, 0, 0, 0, {}, "weights, 1000 bytes\n"});
  }

  static Words split(const std::string& text) {
    std::istringstream stream(text);
    Words words;
    for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
    return words;
  }

  static void resume_item(Resumed& event, const std::string& name, const std::string& item) {
    const std::size_t at = item.find_first_of(":@");
    const std::string before = item.substr(0, at);
    if (name == "agents") {
      event.agents.push_back({AgentId{++event.last_agent}, before, number(item.substr(at + 1)), false});
    } else if (name == "workers") {
      const std::uint32_t slot = number(item.substr(item.find(':') + 1));
      event.workers.push_back({worker(before), agent(item.substr(at + 1)), slot});
      event.last_worker = event.workers.back().worker.value;
    } else if (name == "members") {
      event.members.push_back(worker(item));
      event.shares.push_back(32);
    } else if (name == "lineage") {
      event.lineage.push_back({number(before), number(item.substr(at + 1))});
    } else if (name == "lease") {
      event.lease = {number(before), number(item.substr(at + 1)), "share " + before};
    } else if (name == "only") {
      event.agents.back().only.push_back(number(item));
    } else if (name == "drained" || name == "noticed") {
      Resumed::AgentPlace& place = event.agents.at(agent(item).value - 1);
      place.drain = place.drained = true;
      place.noticed = name == "noticed";
    } else if (name == "finished") {
      event.finished.push_back(worker(item));
    } else if (name == "left") {
      const auto is_it = [&](const Resumed::WorkerPlace& place) { return place.worker == worker(item); };
      std::find_if(event.workers.begin(), event.workers.end(), is_it)->left = true;
    } else if (name == "unsettled" && item != "nobody") {
      event.unsettled_members.push_back(worker(item));
    }
  }

  void resume(const Words& words) {
    Resumed event;
    event.target_reason = "the size to start with";
    for (const std::string& word : words) {
      const std::size_t at = word.find('=');
      const std::string name = word.substr(0, at);
      const std::string value = word.substr(at + 1);
      if (name == "generation") event.generation = number(value);
      if (name == "issued") event.issued = number(value);
      if (name == "target") event.target = number(value);
      if (name == "unsettled") event.unsettled = true;
      for (const std::string& item : split(value)) resume_item(event, name, item);
    }
    is_resumed_ = true;
    generation_ = event.generation;
    for (WorkerId id : event.members) assignments_[id] = event.generation;
    feed(event);
  }

  // "STEP w1 w2", or "STEP all" for the receivers of the last Abort.
  void halt(const Words& words, bool has_state) {
    const Words who(words.begin() + 1, words.end());
    each(who, std::vector<WorkerId>(aborted_), [&](WorkerId id) {
      say(id, protocol::WorkerHalted{fence_, assignments_[id], number(words.at(0)), has_state, true, ""});
    });
  }

  // The named workers; for "all", the given ones.
  static std::vector<WorkerId> named(const Words& words, const std::vector<WorkerId>& all) {
    if (words.size() == 1 && words[0] == "all") return all;
    std::vector<WorkerId> list;
    for (const std::string& word : words) list.push_back(worker(word));
    return list;
  }

  void each(const Words& words, const std::vector<WorkerId>& all, const std::function<void(WorkerId)>& action) {
    for (WorkerId id : named(words, all)) action(id);
  }

  // "w1 STEP FIRST COUNT": which samples of the epoch it used in a step.
  void account(const Words& words) {
    const protocol::AuditStep step{.generation = generation_,
                                   .step = number(words.at(1)),
                                   .first_position = number(words.at(2)),
                                   .count = number(words.at(3))};
    say(worker(words.at(0)), protocol::WorkerAudit{.steps = {step}});
  }

  void stop(const Words& words) {
    const std::map<std::string, StopCause> causes{{"user", StopCause::kUser},
                                                  {"interrupt", StopCause::kInterrupt},
                                                  {"preempted", StopCause::kPreempted},
                                                  {"time", StopCause::kTimeLimit},
                                                  {"cancelled", StopCause::kCancelled}};
    feed(Stop{++requests_, causes.at(words.at(0))});
  }

  void update(const Words& words) {
    UpdatePlan event{.request = ++requests_, .speeds = std::map<WorkerId, double>{}, .reason = "a slow host"};
    for (const std::string& word : words) {
      const std::size_t equals = word.find('=');
      (*event.speeds)[worker(word.substr(0, equals))] = std::stod(word.substr(equals + 1));
    }
    feed(std::move(event));
  }

  void asks(const Words& words) {
    protocol::WorkerRequest request;
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::size_t equals = words[i].find('=');
      const std::string key = words[i].substr(0, equals);
      const std::string value = words[i].substr(equals + 1);
      if (key == "workers") request.workers = number(value);
      if (key == "batch") request.per_worker = number(value);
      if (key == "factor") request.learning_rate_factor = std::stod(value);
      if (key == "topology") request.topology = value;
      if (key == "train-by") request.synchronization = value;
    }
    say(worker(words.at(0)), request);
  }

  void view() {
    const RunView view = machine().view();
    out_ << "  " << name_of(view.phase) << ", generation " << view.generation << ", " << view.world_size << " of "
         << view.target_size << " workers, batch " << view.global_batch << ", because: " << view.size_reason << "\n";
    for (const WorkerView& w : view.workers) {
      out_ << "  " << to_string(w.worker) << " " << w.host << ":" << w.slot << " rank "
           << (w.rank ? std::to_string(*w.rank) : "-") << " share " << w.share << " phase " << static_cast<int>(w.phase)
           << "\n";
    }
    const bool all_up = std::all_of(view.agents.begin(), view.agents.end(),
                                    [](const AgentView& agent) { return agent.phase == AgentPhase::kUp; });
    for (const AgentView& agent : view.agents) {
      if (!all_up) out_ << "  host " << agent.host << " " << name_of(agent.phase) << "\n";
    }
    for (const FailureView& failure : view.failures) {
      out_ << "  failures of the class " << failure.name << ": " << failure.within_window << " count, " << failure.total
           << " in all\n";
    }
    for (const CooledHostView& host : view.cooled_hosts) {
      out_ << "  host " << host.host << " is left alone for " << host.left_ms << " ms after " << host.failures
           << " failures: " << host.reason << "\n";
    }
  }

  void stand(const Words& words, bool works) {
    using protocol::StepPlace;
    for (int place = 0; place <= static_cast<int>(StepPlace::kHalted); ++place) {
      if (words.at(1) == place_name(static_cast<StepPlace>(place))) {
        samples_.stands(worker(words[0]), static_cast<StepPlace>(place), works);
      }
    }
  }

  std::map<std::string, std::function<void(const Words&)>> commands_{
      {"settings", [this](const Words& w) { set(w); }},
      {"hosts", [this](const Words& w) { offer(w); }},
      {"up",
       [this](const Words& w) {
         for (const auto& word : w) connect(agent(word));
       }},
      {"lost",
       [this](const Words& w) {
         alive_.erase(agent(w.at(0)));
         feed(AgentLost{agent(w.at(0)), rest(w, 1), LossEvidence::kProcess});
       }},
      {"broken",
       [this](const Words& w) {
         alive_.erase(agent(w.at(0)));
         feed(AgentLost{agent(w.at(0)), rest(w, 1), LossEvidence::kConnection});
       }},
      {"back",
       [this](const Words& w) {
         AgentConnected event{agent(w.at(0)), {}};
         for (std::size_t i = 1; i < w.size(); ++i) {
           if (w[i].find(':') == std::string::npos) event.workers.push_back(worker(w[i]));
         }
         event.warm = warm_of(w);
         alive_.insert(event.agent);
         feed(event);
       }},
      {"warm",
       [this](const Words& w) {
         feed(WarmReported{agent(w.at(0)), warm_of(w)});
       }},
      {"notice",
       [this](const Words& w) {
         feed(HostNoticed{agent(w.at(0)), rest(w, 1)});
       }},
      {"term",
       [this](const Words& w) {
         each(w, std::vector<WorkerId>(members_), [this](WorkerId id) {
           say(id, protocol::WorkerNote{std::string(protocol::kTermNote), "from process 4711"});
         });
       }},
      {"held",
       [this](const Words& w) {
         say(worker(w.at(0)), protocol::WorkerNote{std::string(protocol::kHeldNote), rest(w, 1)});
       }},
      {"steps",
       [this](const Words& w) {
         for (std::size_t i = 1; i < w.size(); ++i) samples_.steps(worker(w[i]), Millis(number(w[0])));
       }},
      {"stands", [this](const Words& w) { stand(w, false); }},
      {"works", [this](const Words& w) { stand(w, true); }},
      {"stops", [this](const Words& w) { samples_.stops(worker(w.at(0))); }},
      {"stacks",
       [this](const Words& w) {
         feed(AgentAnswered{{}, {protocol::Question::kStacks, worker(w.at(0)), {rest(w, 1)}}});
       }},
      {"collectives",
       [this](const Words& w) {
         feed(AgentAnswered{agent(w.at(0)), {protocol::Question::kCollectives, {}, {rest(w, 1)}}});
       }},
      {"resumed", [this](const Words& w) { resume(w); }},
      {"halted", [this](const Words& w) { halt(w, true); }},
      {"halted-behind", [this](const Words& w) { halt(w, false); }},
      {"halted-starting",
       [this](const Words& w) {
         each(w, std::vector<WorkerId>(aborted_), [this](WorkerId id) {
           say(id, protocol::WorkerHalted{fence_, 0, 0, false, false, ""});
         });
       }},
      {"halts",
       [this](const Words& w) {
         const WorkerId id = worker(w.at(0));
         say(id, protocol::WorkerHalted{0, assignments_[id], 0, true, true, rest(w, 1)});
       }},
      {"disagrees",
       [this](const Words& w) {
         const WorkerId id = worker(w.at(0));
         say(id, protocol::WorkerHalted{0, assignments_[id], 0, true, true, rest(w, 1), true, true});
       }},
      {"declines", [this](const Words& w) { say(worker(w.at(0)), protocol::WorkerDeclines{rest(w, 1)}); }},
      {"finished-alone",
       [this](const Words& w) {
         say(worker(w.at(0)), protocol::WorkerFinished{999, true});
       }},
      {"at",
       [this](const Words& w) {
         for (std::size_t i = 2; i < w.size(); ++i) samples_.at(worker(w[i]), number(w[0]), number(w[1]));
       }},
      {"silent",
       [this](const Words& w) {
         for (const auto& word : w) alive_.erase(agent(word));
       }},
      {"hello", [this](const Words& w) { each(w, {}, [this](WorkerId id) { hello(id); }); }},
      {"ready", [this](const Words& w) { each(w, {}, [this](WorkerId id) { ready(id); }); }},
      {"ready-other",
       [this](const Words& w) {
         each(w, {}, [this](WorkerId id) {
           hello(id);
           say(id, protocol::WorkerReady{{}, 2000, 8, 60000, 0, 0, 0, {}, "weights, 2000 bytes\n"});
         });
       }},
      {"prepared",
       [this](const Words& w) {
         each(w, std::vector<WorkerId>(addressed_),
              [this](WorkerId id) { say(id, protocol::WorkerPrepared{generation_}); });
       }},
      {"prepare-failed",
       [this](const Words& w) {
         say(worker(w.at(0)), protocol::WorkerPrepareFailed{generation_, rest(w, 1)});
       }},
      {"active",
       [this](const Words& w) {
         each(w, std::vector<WorkerId>(members_), [this](WorkerId id) {
           assignments_[id] = generation_;
           say(id, protocol::WorkerActive{generation_, first_step_, 0});
         });
       }},
      {"assigned",  // they have taken their assignments, but cannot begin
       [this](const Words& w) {
         each(w, std::vector<WorkerId>(members_), [this](WorkerId id) { assignments_[id] = generation_; });
       }},
      {"left",
       [this](const Words& w) {
         each(w, {}, [this](WorkerId id) { say(id, protocol::WorkerLeft{generation_, 100 * generation_ - 1}); });
       }},
      {"finished",
       [this](const Words& w) { each(w, {}, [this](WorkerId id) { say(id, protocol::WorkerFinished{999}); }); }},
      {"accounts", [this](const Words& w) { account(w); }},
      {"exit",
       [this](const Words& w) {
         feed(WorkerExited{worker(w.at(0)), static_cast<std::int32_t>(number(w.at(1))), 0, {}});
       }},
      {"killed",
       [this](const Words& w) {
         feed(WorkerExited{worker(w.at(0)), 0, static_cast<std::int32_t>(number(w.at(1))), {"last words"}});
       }},
      {"oom",
       [this](const Words& w) {
         const auto mib = [](const std::string& text) { return std::uint64_t{number(text)} << 20; };
         feed(WorkerExited{worker(w.at(0)), 0, 9, {"last words"}, true, mib(w.at(1)), mib(w.at(2))});
       }},
      {"spawn-failed",
       [this](const Words& w) {
         feed(WorkerSpawnFailed{worker(w.at(0)), rest(w, 1)});
       }},
      {"lease", [this](const Words& w) { lease(w); }},
      {"resize", [this](const Words& w) { feed(Resize{.request = ++requests_, .target = number(w.at(0))}); }},
      {"replace",
       [this](const Words& w) {
         feed(ReplaceWorker{++requests_, number(w.at(0))});
       }},
      {"replace-host",
       [this](const Words& w) {
         feed(ReplaceHost{++requests_, w.at(0)});
       }},
      {"drain",
       [this](const Words& w) {
         feed(DrainHost{++requests_, w.at(0)});
       }},
      {"undrain",
       [this](const Words& w) {
         feed(UndrainHost{++requests_, w.at(0)});
       }},
      {"update_plan", [this](const Words& w) { update(w); }},
      {"batch",
       [this](const Words& w) {
         feed(UpdatePlan{.request = ++requests_, .per_worker = number(w.at(0)), .reason = "a batch of " + w.at(0)});
       }},
      {"topology",
       [this](const Words& w) {
         const auto choice = *protocol::topology_choice(w.at(0));
         UpdatePlan event{.request = ++requests_, .reason = "a busy link"};
         if (choice.parents.empty()) event.topology = choice.topology;
         if (!choice.parents.empty()) event.parents = choice.parents;
         feed(event);
       }},
      {"train-by",
       [this](const Words& w) {
         feed(UpdatePlan{.request = ++requests_,
                         .reason = "the network is slow",
                         .synchronization = protocol::synchronization_named(w.at(0))});
       }},
      {"factor",
       [this](const Words& w) {
         feed(UpdatePlan{.request = ++requests_, .reason = "less noise", .learning_rate_factor = std::stod(w.at(0))});
       }},
      {"asks", [this](const Words& w) { asks(w); }},
      {"noise",
       [this](const Words& w) {
         feed(UpdatePlan{
             .request = ++requests_, .reason = "the gradients are noisy", .noise_scale = std::stod(w.at(0))});
       }},
      {"stop", [this](const Words& w) { stop(w); }},
      {"stop-now", [this](const Words& w) { feed(StopNow{w.empty() ? StopCause::kInterrupt : StopCause::kUser}); }},
      {"wait", [this](const Words& w) { wait(w); }},
      {"view", [this](const Words&) { view(); }},
  };

  RunSettings settings_;
  std::unique_ptr<Membership> machine_;
  std::optional<testing::JournalCheck> journal_check_;
  bool is_resumed_ = false;
  Instant now_{};
  std::map<std::pair<Instant, std::uint64_t>, std::uint64_t> timers_;
  std::set<WorkerId> greeted_;
  WorkerSamples samples_;
  std::set<AgentId> alive_;  // report every 250 ms
  std::vector<WorkerId> addressed_;
  std::vector<WorkerId> members_;
  Generation generation_ = 0;
  Step first_step_ = 0;
  Generation fence_ = 0;
  std::vector<WorkerId> aborted_;
  std::map<WorkerId, Generation> assignments_;
  std::uint64_t requests_ = 0;
  std::uint32_t tokens_ = 0;
  std::vector<std::string>& sentences_;
  std::ostringstream out_;
};

}  // namespace

std::string play_story(const std::string& text, std::vector<std::string>& sentences) {
  return Story(sentences).play(text);
}

}  // namespace elastictrain::core
