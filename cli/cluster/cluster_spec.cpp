#include "troupe/cli/cluster/cluster_spec.h"

#include <unistd.h>

#include <algorithm>

#include "troupe/cli/cluster/address.h"
#include "troupe/cli/cluster/cluster_servers.h"
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

namespace {

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

std::optional<Endpoint> requested_chief(const ClusterRequest& request) {
  if (!request.chief_address) return std::nullopt;
  return parse_address(request.chief_address->value, request.chief_address->origin);
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
InheritedSocket inherited_socket(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  if (found == environment.end()) return {};
  const auto descriptor = parse_integer<std::int32_t>(found->second);
  if (!descriptor || *descriptor < 3) refuse_variable(name, found->second);
  return InheritedSocket(*descriptor);
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
Evaluator evaluator_beside(const Cluster& cluster, const Environment& environment) {
  const auto told = environment.find("TROUPE_EVALUATOR");
  const bool is_told = told != environment.end();
  if (is_told && told->second != "0") return Evaluator::expected;
  const bool alone = (cluster.world_size() == 1 || is_told) && cluster.servers.empty();
  return alone ? Evaluator::none : Evaluator::possible;
}

Cluster from_numbers(const ClusterRequest& request, const Environment& environment,
                     ResolvedCluster& out) {
  const bool serves = asks_for_server(request, out.information);
  if (!request.world_size) refuse_missing(request.rank->origin, "--world-size");
  const auto& [size, size_origin, size_level] = *request.world_size;
  if (!request.rank && size > 1 && !serves) refuse_missing(size_origin, "--rank");
  const std::int64_t rank = request.rank && !serves ? request.rank->value : 0;
  if (rank >= size) {
    throw ConfigError(
        text(request.rank->origin, " is ", rank, ", but ", size_origin, " is ", size, "."),
        text("ranks count from 0 to ", size - 1, "."));
  }
  if (!request.chief_address && !request.servers && !serves && size > 1) {
    refuse_missing(size_origin, "--chief-address");
  }
  const std::string& origin = request.rank ? request.rank->origin : size_origin;
  Cluster cluster = numbered_cluster(static_cast<int>(rank), static_cast<int>(size),
                                     requested_chief(request), origin);
  add_servers(cluster, request, serves ? ServerRole::server : ServerRole::worker);
  const bool placed_by_launcher =
      serves ? request.task->level == 1 : request.rank && request.rank->level == 1;
  if (placed_by_launcher && !serves) add_rounds(cluster, environment);
  if (placed_by_launcher && (serves || rank == 0 || cluster.rounds.is_there()))
    cluster.listener = inherited_socket(environment, "TROUPE_LISTEN_FD");
  cluster.evaluator = evaluator_beside(cluster, environment);
  return cluster;
}

/// The place that a document gives this process; unset where it names no cluster.
std::optional<Cluster> place_in(const TfConfig& config, const ClusterRequest& request,
                                ResolvedCluster& out) {
  out.model_dir = config.model_dir;
  out.model_dir_of = config.name;
  if (!config.cluster) return std::nullopt;
  if (request.servers && !config.cluster->is_evaluator()) {
    out.warnings.push_back(
        text(request.servers->origin, " is ignored: ", config.name, " describes the cluster"));
  }
  if (config.cluster->evaluator == Evaluator::expected) {
    out.warnings.push_back(
        text(config.cluster_path,
             ".evaluator does not count as a worker: an evaluator takes no part in training"));
  }
  return config.cluster;
}

std::optional<std::string> requested_task(const ClusterRequest& request) {
  if (!request.task) return std::nullopt;
  return request.task->value;
}

bool asks_for_evaluator(const ClusterRequest& request) {
  return asks_for_job(request, "evaluator");
}

/// Whether --task evaluator is the stronger of the two; it has no rank, so one source cannot say
/// both.
bool evaluator_beats(const GivenValue<std::int64_t>& number, const ClusterRequest& request,
                     ResolvedCluster& out) {
  if (!asks_for_evaluator(request) || number.level < request.task->level) return false;
  if (number.level == request.task->level) {
    throw ConfigError(
        text(request.task->origin, " asks for the evaluator, but ", number.origin, " is given."),
        "leave one of the two out: the evaluator has no rank.");
  }
  out.information.push_back(text("cluster: ", number.origin, " is ignored, since ",
                                 request.task->origin, " asks for the evaluator"));
  return true;
}

/// What of the request names a group: a file, or numbers. The stronger source decides; from one
/// source the two contradict each other.
enum class Named { nothing, file, numbers };

Named named_by(const ClusterRequest& request, ResolvedCluster& out) {
  const GivenValue<std::int64_t>* number = nullptr;
  for (const auto* each : {&request.rank, &request.world_size}) {
    if (*each && (number == nullptr || (*each)->level < number->level)) number = &**each;
  }
  if (number != nullptr && evaluator_beats(*number, request, out)) number = nullptr;
  if (!request.cluster_file) return number == nullptr ? Named::nothing : Named::numbers;
  const GivenValue<std::string>& file = *request.cluster_file;
  if (number == nullptr) return Named::file;
  if (number->level == file.level) {
    throw ConfigError(text(file.origin, " and ", number->origin, " are both given."),
                      "give --cluster with --task, or --rank, --world-size and --chief-address.");
  }
  const bool file_wins = file.level < number->level;
  out.information.push_back(text("cluster: ", file_wins ? number->origin : file.origin,
                                 " is ignored, since ", file_wins ? file.origin : number->origin,
                                 " is given"));
  return file_wins ? Named::file : Named::numbers;
}

/// TF_CONFIG's cluster; unset where it names none.
std::optional<Cluster> from_tf_config(const ClusterRequest& request, const std::string& document,
                                      ResolvedCluster& out) {
  const TfConfig config = parse_tf_config(document, requested_task(request));
  if (document != "{}") {
    out.information.push_back(text("TF_CONFIG: ", document.substr(0, kEchoedCharacters)));
  }
  return place_in(config, request, out);
}

/// The evaluator as --task asks for it: it needs no cluster, but a TF_CONFIG may say more.
Cluster from_evaluator_task(const ClusterRequest& request, const Environment& environment,
                            ResolvedCluster& out) {
  const auto document = environment.find("TF_CONFIG");
  if (document != environment.end()) return from_tf_config(request, document->second, out).value();
  const TfConfig config = parse_tf_config("{}", requested_task(request), request.task->origin);
  return place_in(config, request, out).value();
}

Cluster from_launcher(const Launcher& launcher, const ClusterRequest& request,
                      const Environment& environment) {
  const LauncherPlace place = launcher.read(environment);
  std::optional<Endpoint> chief = requested_chief(request);
  if (!chief) chief = place.chief_address;
  if (!chief && place.world_size > 1 && !request.servers) {
    throw ConfigError(text(launcher.name, " started ", place.world_size,
                           " workers, but its variables do not say where rank 0 is found."),
                      "give every worker --chief-address HOST:PORT of the machine of rank 0, or "
                      "export MASTER_ADDR and MASTER_PORT.");
  }
  Cluster cluster = numbered_cluster(place.rank, place.world_size, chief, launcher.name);
  cluster.generation = place.generation;
  cluster.on_this_machine = std::min(place.on_this_machine, place.world_size);
  add_servers(cluster, request, ServerRole::worker);
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

Cluster choose(const ClusterRequest& request, const Environment& environment,
               ResolvedCluster& out) {
  const Named named = named_by(request, out);
  if (named == Named::numbers) return from_numbers(request, environment, out);
  if (named == Named::file) {
    const auto& [path, flag, level] = *request.cluster_file;
    return place_in(read_cluster_file(path, flag, requested_task(request)), request, out).value();
  }
  if (asks_for_evaluator(request)) return from_evaluator_task(request, environment, out);
  const auto document = environment.find("TF_CONFIG");
  if (document != environment.end()) {
    if (auto cluster = from_tf_config(request, document->second, out)) {
      if (request.chief_address) {
        out.warnings.push_back(
            text(request.chief_address->origin, " is ignored: TF_CONFIG names the chief"));
      }
      return *cluster;
    }
  }
  if (request.task && document == environment.end()) {
    if (request.servers) refuse_missing(request.task->origin, "--world-size");
    throw ConfigError(
        text(request.task->origin, " is given, but no cluster is."),
        "add --cluster FILE, or set TF_CONFIG; a server (ps:0) may have --servers and "
        "--world-size instead.");
  }
  for (const Launcher& launcher : launchers()) {
    if (launcher.present(environment)) return from_launcher(launcher, request, environment);
  }
  if (request.chief_address) refuse_missing(request.chief_address->origin, "--rank");
  if (request.servers) refuse_missing(request.servers->origin, "--world-size");
  return Cluster();
}

/// "worker/1, rank 1 of 3": this process's place, for the log.
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

}  // namespace

ResolvedCluster resolve_cluster(const ClusterRequest& request, const Environment& environment) {
  ResolvedCluster out;
  out.cluster = choose(request, environment, out);
  if (request.generation) out.cluster.generation = request.generation->value;
  std::vector<std::string> ignored = present_sources(environment);
  ignored.erase(std::remove(ignored.begin(), ignored.end(), out.cluster.origin), ignored.end());
  // Of our launcher, which hides all other sources, there is nothing to say either.
  const std::string& origin = out.cluster.origin;
  const bool is_plain = origin == "local" || origin == "TROUPE_RANK" || origin == "TROUPE_TASK";
  if (is_plain && ignored.empty()) return out;
  std::string line = text("cluster: ", place_text(out.cluster), ", from ", out.cluster.origin);
  if (!ignored.empty()) line += "; not used: " + join(ignored);
  out.information.push_back(line);
  return out;
}

}  // namespace troupe
