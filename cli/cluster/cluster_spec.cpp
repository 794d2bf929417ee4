#include "troupe/cli/cluster/cluster_spec.h"

#include <unistd.h>

#include <algorithm>
#include <set>

#include "troupe/cli/cluster/address.h"
#include "troupe/cli/cluster/launcher_environment.h"
#include "troupe/cli/cluster/tf_config.h"
#include "troupe/core/error.h"
#include "troupe/core/numbers.h"
#include "troupe/core/text.h"

namespace troupe {

Environment process_environment() {
  Environment variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string line = *entry;
    const auto equals = line.find('=');
    if (equals != std::string::npos)
      variables.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return variables;
}

std::string variable_in(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

const detail::GivenText* detail::given_for(const GivenTexts& given, const char* flag) {
  const auto found = given.find(flag);
  return found == given.end() ? nullptr : &found->second;
}

namespace {

using detail::given_for;
using detail::GivenText;
using detail::GivenTexts;

constexpr std::size_t kEchoedCharacters = 4000;  // of TF_CONFIG in the log

/// Ranks without addresses but the chief's: the others connect to it and say where they listen.
Cluster numbered_cluster(int rank, int world_size, std::optional<Endpoint> chief,
                         std::string origin) {
  Cluster cluster;
  cluster.members.clear();
  for (int i = 0; i < world_size; ++i) {
    cluster.members.push_back({text("worker/", i), std::nullopt});
  }
  cluster.members.front().address = std::move(chief);
  cluster.rank = rank;
  cluster.origin = std::move(origin);
  return cluster;
}

std::int64_t number_of(const GivenText& given) {
  return parse_integer<std::int64_t>(given.value).value();
}

std::optional<Endpoint> requested_chief(const GivenTexts& given) {
  const GivenText* const chief = given_for(given, "chief-address");
  if (chief == nullptr) return std::nullopt;
  return parse_address(chief->value, chief->origin);
}

[[noreturn]] void refuse_missing(const std::string& given, const char* missing) {
  throw ConfigError(text(given, " is given, but ", missing, " is missing."),
                    "give --rank, --world-size and --chief-address together; with parameter "
                    "servers --servers instead of the last.");
}

[[noreturn]] void refuse_variable(const std::string& name, const std::string& value) {
  throw ConfigError(text(name, " is \"", value.substr(0, 80), "\"."),
                    "leave it to troupe run, or unset it.");
}

/// A socket that `troupe run` opened before it started this process.
detail::InheritedSocket inherited_socket(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  if (found == environment.end()) return {};
  const auto descriptor = parse_integer<std::int32_t>(found->second);
  if (!descriptor || *descriptor < 3) refuse_variable(name, found->second);
  return detail::InheritedSocket(*descriptor);
}

/// What a worker of an elastic group has from `troupe run` beside its rank.
void add_rounds(Cluster& cluster, const Environment& environment) {
  cluster.rounds = inherited_socket(environment, "TROUPE_ROUNDS_FD");
  const auto joins = environment.find("TROUPE_JOINS");
  if (joins == environment.end()) return;
  if (joins->second != "1") refuse_variable("TROUPE_JOINS", joins->second);
  if (!cluster.rounds.is_there())
    throw ConfigError("TROUPE_JOINS is set, but TROUPE_ROUNDS_FD is not.",
                      "leave both to troupe run, or unset them.");
  cluster.joins = true;
}

/// `troupe run` tells its workers by a variable whether it starts an evaluator.
detail::Evaluator evaluator_beside(const Cluster& cluster, const Environment& environment) {
  const auto told = environment.find("TROUPE_EVALUATOR");
  const bool is_told = told != environment.end();
  if (is_told && told->second != "0") return detail::Evaluator::expected;
  const bool alone = (cluster.world_size() == 1 || is_told) && cluster.servers.empty();
  return alone ? detail::Evaluator::none : detail::Evaluator::possible;
}

/// Whether --task asks for this job: "ps" of "ps:1" or "ps/1".
bool asks_for_job(const GivenTexts& given, const std::string& job) {
  const GivenText* const task = given_for(given, "task");
  return task != nullptr && task->value.substr(0, task->value.find_first_of(":/")) == job;
}

/// Of two settings that exclude each other the one from the stronger source speaks, and the log
/// names the other. Returns whether `one` does. Throws: ConfigError where both come from one
/// source.
bool beats(const GivenText& one, const GivenText& other, const std::string& contradiction,
           const char* fix, ResolvedCluster& out) {
  if (one.source == other.source) throw ConfigError(contradiction, fix);
  const bool wins = one.source < other.source;
  out.notes.push_back(
      {LogLevel::info, text("cluster: ", wins ? other.origin : one.origin, " is ignored, since ",
                            wins ? one.origin : other.origin, " is given")});
  return wins;
}

std::vector<Member> server_list(const GivenText& given) {
  std::vector<Member> servers;
  std::set<std::string> seen;
  for (const std::string& each : split(given.value, ',')) {
    const std::string where = text(given.origin, " (ps/", servers.size(), ")");
    const Endpoint address = parse_address(each, where);
    if (!seen.insert(address_text(address)).second) {
      throw ConfigError(text(given.origin, " names ", address_text(address), " twice."),
                        "give every server an address of its own.");
    }
    servers.push_back({text("ps/", servers.size()), address});
    if (servers.size() > static_cast<std::size_t>(kMaxWorkers)) {
      throw ConfigError(text(given.origin, " names more than ", kMaxWorkers, " servers."),
                        "name fewer.");
    }
  }
  return servers;
}

/// N of "ps:N".
int server_index(const GivenText& task, std::size_t servers) {
  const auto cut = task.value.find_first_of(":/");
  const auto index =
      cut == std::string::npos ? std::nullopt : parse_integer<int>(task.value.substr(cut + 1));
  if (!index || *index < 0) {
    throw ConfigError(text(task.origin, " is \"", task.value, "\"."),
                      "write job and index, for example ps:0.");
  }
  if (static_cast<std::size_t>(*index) >= servers) {
    throw ConfigError(text(task.origin, " is ", task.value, ", but --servers names ", servers,
                           servers == 1 ? " server." : " servers."),
                      text("servers count from 0 to ", servers - 1, "."));
  }
  return *index;
}

/// Adds the servers of --servers to a group of workers and, where `serving` is --task ps:N, this
/// process's place among them.
void add_servers(Cluster& cluster, const GivenTexts& given, const GivenText* serving) {
  const GivenText* const servers = given_for(given, "servers");
  if (servers != nullptr) cluster.servers = server_list(*servers);
  if (serving == nullptr) return;
  if (servers == nullptr) {
    throw ConfigError(
        text(serving->origin, " asks for a parameter server, but --servers is missing."),
        "give --servers HOST:PORT,..., the same on every process.");
  }
  cluster.server = server_index(*serving, cluster.servers.size());
  cluster.origin = serving->origin;
}

Cluster from_numbers(const GivenTexts& given, const Environment& environment,
                     ResolvedCluster& out) {
  const GivenText* task = asks_for_job(given, "ps") ? given_for(given, "task") : nullptr;
  const GivenText* rank = given_for(given, "rank");
  if (task != nullptr && rank != nullptr) {
    const std::string both =
        text(task->origin, " asks for a parameter server, but ", rank->origin, " is given.");
    if (!beats(*task, *rank, both, "leave one of the two out: a server has no rank.", out))
      task = nullptr;
  }
  const GivenText* const workers = given_for(given, "world-size");
  if (workers == nullptr) refuse_missing(rank->origin, "--world-size");
  const std::int64_t size = number_of(*workers);
  if (rank == nullptr && size > 1 && task == nullptr) refuse_missing(workers->origin, "--rank");
  const std::string origin = rank != nullptr ? rank->origin : workers->origin;
  if (task != nullptr) rank = nullptr;
  const std::int64_t number = rank == nullptr ? 0 : number_of(*rank);
  if (number >= size) {
    throw ConfigError(
        text(rank->origin, " is ", number, ", but ", workers->origin, " is ", size, "."),
        text("ranks count from 0 to ", size - 1, "."));
  }
  if (given.count("chief-address") + given.count("servers") == 0 && task == nullptr && size > 1) {
    refuse_missing(workers->origin, "--chief-address");
  }
  Cluster cluster = numbered_cluster(static_cast<int>(number), static_cast<int>(size),
                                     requested_chief(given), origin);
  add_servers(cluster, given, task);
  const GivenText* const place = task != nullptr ? task : rank;
  if (place != nullptr && place->source == GivenText::Source::environment) {  // by a launcher
    if (task == nullptr) add_rounds(cluster, environment);
    if (task != nullptr) cluster.losses = inherited_socket(environment, "TROUPE_LOSSES_FD");
    if (task != nullptr || number == 0 || cluster.rounds.is_there())
      cluster.listener = inherited_socket(environment, "TROUPE_LISTEN_FD");
  }
  cluster.evaluator = evaluator_beside(cluster, environment);
  return cluster;
}

/// The place that a document gives this process; unset where it names no cluster.
std::optional<Cluster> place_in(const TfConfig& config, const GivenTexts& given,
                                ResolvedCluster& out) {
  out.model_dir = config.model_dir;
  out.model_dir_of = config.name;
  if (!config.cluster) return std::nullopt;
  const GivenText* const servers = given_for(given, "servers");
  if (servers != nullptr && !config.cluster->is_evaluator()) {
    out.notes.push_back({LogLevel::warning, text(servers->origin, " is ignored: ", config.name,
                                                 " describes the cluster")});
  }
  if (config.cluster->evaluator == detail::Evaluator::expected) {
    out.notes.push_back(
        {LogLevel::warning,
         text(config.cluster_path,
              ".evaluator does not count as a worker: an evaluator takes no part in training")});
  }
  return config.cluster;
}

std::optional<std::string> requested_task(const GivenTexts& given) {
  const GivenText* const task = given_for(given, "task");
  if (task == nullptr) return std::nullopt;
  return task->value;
}

/// What of the request names a group: a file, or numbers. The stronger source decides; from one
/// source the two contradict each other.
enum class Named { nothing, file, numbers };

Named named_by(const GivenTexts& given, ResolvedCluster& out) {
  const GivenText* number = given_for(given, "rank");
  const GivenText* const size = given_for(given, "world-size");
  if (number == nullptr || (size != nullptr && size->source < number->source)) number = size;
  if (number != nullptr && asks_for_job(given, "evaluator")) {
    const GivenText& task = *given_for(given, "task");
    const std::string both =
        text(task.origin, " asks for the evaluator, but ", number->origin, " is given.");
    if (beats(task, *number, both, "leave one of the two out: the evaluator has no rank.", out))
      number = nullptr;
  }
  const GivenText* const file = given_for(given, "cluster");
  if (file == nullptr) return number == nullptr ? Named::nothing : Named::numbers;
  if (number == nullptr) return Named::file;
  const bool file_wins =
      beats(*file, *number, text(file->origin, " and ", number->origin, " are both given."),
            "give --cluster with --task, or --rank, --world-size and --chief-address.", out);
  return file_wins ? Named::file : Named::numbers;
}

/// TF_CONFIG's cluster; unset where it names none. `name`: what messages call the document.
std::optional<Cluster> from_tf_config(const GivenTexts& given, const std::string& document,
                                      const std::string& name, ResolvedCluster& out) {
  const TfConfig config = parse_tf_config(document, requested_task(given), name);
  if (document != "{}") {
    out.notes.push_back(
        {LogLevel::info, text("TF_CONFIG: ", document.substr(0, kEchoedCharacters))});
  }
  return place_in(config, given, out);
}

Cluster from_launcher(const Launcher& launcher, const GivenTexts& given,
                      const Environment& environment) {
  const LauncherPlace place = launcher.read(environment);
  std::optional<Endpoint> chief = requested_chief(given);
  if (!chief) chief = place.chief_address;
  if (!chief && place.world_size > 1 && given.count("servers") == 0) {
    throw ConfigError(text(launcher.name, " started ", place.world_size,
                           " workers, but its variables do not say where rank 0 is found."),
                      "give every worker --chief-address HOST:PORT of the machine of rank 0, or "
                      "export MASTER_ADDR and MASTER_PORT.");
  }
  Cluster cluster = numbered_cluster(place.rank, place.world_size, chief, launcher.name);
  cluster.generation = place.generation;
  cluster.on_this_machine = std::min(place.on_this_machine, place.world_size);
  add_servers(cluster, given, nullptr);
  cluster.evaluator = evaluator_beside(cluster, environment);
  return cluster;
}

/// Every source of the environment that speaks, strongest first.
std::vector<std::string> present_sources(const Environment& environment) {
  std::vector<std::string> names;
  if (environment.count("TF_CONFIG") != 0) names.emplace_back("TF_CONFIG");
  for (const Launcher& launcher : launchers()) {
    if (launcher.present(environment)) names.emplace_back(launcher.name);
  }
  return names;
}

Cluster choose(const GivenTexts& given, const Environment& environment, ResolvedCluster& out) {
  const Named named = named_by(given, out);
  if (named == Named::numbers) return from_numbers(given, environment, out);
  if (named == Named::file) {
    const GivenText& file = *given_for(given, "cluster");
    return place_in(read_cluster_file(file.value, file.origin, requested_task(given)), given, out)
        .value();
  }
  const GivenText* const task = given_for(given, "task");
  const GivenText* const chief = given_for(given, "chief-address");
  const GivenText* const servers = given_for(given, "servers");
  const auto document = environment.find("TF_CONFIG");
  const bool has_document = document != environment.end();
  if (asks_for_job(given, "evaluator"))  // it needs no cluster, but a TF_CONFIG may say more
    return from_tf_config(given, has_document ? document->second : "{}",
                          has_document ? "TF_CONFIG" : task->origin, out)
        .value();
  if (has_document) {
    if (auto cluster = from_tf_config(given, document->second, "TF_CONFIG", out)) {
      if (chief != nullptr) {
        out.notes.push_back(
            {LogLevel::warning, text(chief->origin, " is ignored: TF_CONFIG names the chief")});
      }
      return *cluster;
    }
  }
  if (task != nullptr && !has_document) {
    if (servers != nullptr) refuse_missing(task->origin, "--world-size");
    throw ConfigError(
        text(task->origin, " is given, but no cluster is."),
        "add --cluster FILE, or set TF_CONFIG; a server (ps:0) may have --servers and "
        "--world-size instead.");
  }
  for (const Launcher& launcher : launchers()) {
    if (launcher.present(environment)) return from_launcher(launcher, given, environment);
  }
  if (chief != nullptr) refuse_missing(chief->origin, "--rank");
  if (servers != nullptr) refuse_missing(servers->origin, "--world-size");
  return Cluster();
}

}  // namespace

ResolvedCluster resolve_cluster(const GivenTexts& given, const Environment& environment) {
  ResolvedCluster out;
  out.cluster = choose(given, environment, out);
  if (const GivenText* const generation = given_for(given, "generation"))
    out.cluster.generation = parse_integer<std::uint64_t>(generation->value).value();
  std::vector<std::string> ignored = present_sources(environment);
  ignored.erase(std::remove(ignored.begin(), ignored.end(), out.cluster.origin), ignored.end());
  // Of our launcher, which hides all other sources, there is nothing to say either.
  const std::string& origin = out.cluster.origin;
  const bool is_plain = origin == "local" || origin == "TROUPE_RANK" || origin == "TROUPE_TASK";
  if (is_plain && ignored.empty()) return out;
  std::string line = text("cluster: ", place_text(out.cluster), ", from ", out.cluster.origin);
  if (!ignored.empty()) line += "; not used: " + join(ignored);
  out.notes.push_back({LogLevel::info, line});
  return out;
}

std::string place_text(const Cluster& cluster) {
  if (cluster.is_evaluator()) return "evaluator/0, beside the group";
  const std::size_t servers = cluster.servers.size();
  const std::string of_servers = text(servers, servers == 1 ? " server" : " servers");
  const int workers = cluster.world_size();
  if (cluster.is_server()) {
    return text(cluster.task(), ", one of ", of_servers, " for ", workers,
                workers == 1 ? " worker" : " workers");
  }
  return text(cluster.task(), ", rank ", cluster.rank, " of ", workers,
              servers == 0 ? "" : text(", with ", of_servers));
}

}  // namespace troupe
