#include "troupe/cli/cluster/launcher_environment.h"

#include <initializer_list>

#include "troupe/cli/cluster/address.h"
#include "troupe/cli/cluster/machine_list.h"
#include "troupe/core/error.h"
#include "troupe/core/numbers.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

/// The variable's value; unset where it is missing or empty.
std::optional<std::string> value_of(const Environment& environment, const std::string& name) {
  const std::string value = variable_in(environment, name);
  if (value.empty()) return std::nullopt;
  return value;
}

/// The first of `names` that is set.
std::optional<std::string> first_of(const Environment& environment,
                                    std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (auto value = value_of(environment, name)) return value;
  }
  return std::nullopt;
}

bool any_of(const Environment& environment, std::initializer_list<const char*> names) {
  return first_of(environment, names).has_value();
}

std::string needed(const Environment& environment, const std::string& name,
                   const std::string& launcher) {
  if (auto value = value_of(environment, name)) return *value;
  throw ConfigError(text(launcher, " describes this worker only in part: ", name, " is missing."),
                    text("start the program through ", launcher, ", set ", name,
                         ", or use --rank, --world-size and --chief-address."));
}

std::int64_t number_in(const std::string& value, const std::string& name, std::int64_t least,
                       std::int64_t most) {
  const auto number = parse_integer<std::int64_t>(value);
  if (!number || *number < least || *number > most) {
    throw ConfigError(text(name, " is \"", value.substr(0, 80), "\"."),
                      text("it must be a whole number from ", least, " to ", most,
                           "; start the program through its launcher."));
  }
  return *number;
}

std::int64_t number(const Environment& environment, const std::string& name,
                    const std::string& launcher, std::int64_t least, std::int64_t most) {
  return number_in(needed(environment, name, launcher), name, least, most);
}

/// Rank and size from two variables.
LauncherPlace place(const Environment& environment, const std::string& launcher,
                    const std::string& rank, const std::string& size) {
  LauncherPlace made;
  made.world_size = static_cast<int>(number(environment, size, launcher, 1, kMaxWorkers));
  made.rank = static_cast<int>(number(environment, rank, launcher, 0, kMaxWorkers - 1));
  if (made.rank >= made.world_size) {
    throw ConfigError(text(rank, " is ", made.rank, ", but ", size, " is ", made.world_size, "."),
                      "ranks count from 0; start the program through its launcher.");
  }
  return made;
}

/// Workers on this machine from a variable that may be missing.
int workers_in(const Environment& environment, const std::string& name) {
  const auto value = value_of(environment, name);
  return value ? static_cast<int>(number_in(*value, name, 1, kMaxWorkers)) : 0;
}

/// A host and a port from two variables.
Endpoint main_address(const Environment& environment, const std::string& launcher,
                      const std::string& host, const std::string& port) {
  std::string address = needed(environment, host, launcher);
  if (address.find(':') != std::string::npos && address[0] != '[') address = "[" + address + "]";
  address += ":" + needed(environment, port, launcher);
  return parse_address(address, text(host, ":", port));
}

/// MASTER_ADDR and MASTER_PORT, where a user exported them for a launcher that has no such thing.
std::optional<Endpoint> exported_address(const Environment& environment,
                                         const std::string& launcher) {
  if (!any_of(environment, {"MASTER_ADDR"})) return std::nullopt;
  return main_address(environment, launcher, "MASTER_ADDR", "MASTER_PORT");
}

// --- torchrun ------------------------------------------------------------------------------------

bool torchrun_present(const Environment& environment) {
  return any_of(environment, {"RANK", "WORLD_SIZE", "PET_NODE_RANK", "PET_NNODES"});
}

/// PET_*: torchrun's own settings, which some schedulers set for a program that they start without
/// torchrun. They name machines, so they name workers only where each machine has one.
LauncherPlace read_pet(const Environment& environment) {
  const std::string launcher = "torchrun (PET_*)";
  const auto local = value_of(environment, "PET_NPROC_PER_NODE");
  if (local && *local != "1") {
    throw ConfigError(text("PET_NPROC_PER_NODE is \"", *local, "\", but RANK is missing."),
                      "start the program through torchrun --no-python, which starts that many, or "
                      "set PET_NPROC_PER_NODE=1.");
  }
  LauncherPlace made = place(environment, launcher, "PET_NODE_RANK", "PET_NNODES");
  if (made.world_size > 1) {
    made.chief_address = main_address(environment, launcher, "PET_MASTER_ADDR", "PET_MASTER_PORT");
  }
  made.on_this_machine = 1;
  return made;
}

LauncherPlace read_torchrun(const Environment& environment) {
  if (!any_of(environment, {"RANK", "WORLD_SIZE"})) return read_pet(environment);
  LauncherPlace made = place(environment, "torchrun", "RANK", "WORLD_SIZE");
  if (const auto count = value_of(environment, "TORCHELASTIC_RESTART_COUNT")) {
    made.generation =
        static_cast<std::uint64_t>(number_in(*count, "TORCHELASTIC_RESTART_COUNT", 0, INT64_MAX));
  }
  if (made.world_size == 1) return made;
  made.on_this_machine = workers_in(environment, "LOCAL_WORLD_SIZE");
  made.chief_address = main_address(environment, "torchrun", "MASTER_ADDR", "MASTER_PORT");
  // torchrun's agent may itself serve its store at that port; then ours is another one.
  if (value_of(environment, "TORCHELASTIC_USE_AGENT_STORE") == "True") {
    const std::string run = value_of(environment, "TORCHELASTIC_RUN_ID").value_or("");
    made.chief_address->port = derived_port(text(run, '/', made.chief_address->port));
  }
  return made;
}

// --- Slurm ---------------------------------------------------------------------------------------

/// Whether srun started this very process; a batch script sees the job's variables as well.
bool slurm_step(const Environment& environment) {
  return any_of(environment,
                {"SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST"});
}

const char* slurm_size_name(const Environment& environment) {
  return any_of(environment, {"SLURM_STEP_NUM_TASKS"}) ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
}

/// mpirun inside a Slurm job leaves Slurm's variables of the job, or of its own daemons, beside
/// those of MPI: then MPI's are nearer to this process.
bool mpi_contradicts_slurm(const Environment& environment) {
  const auto rank = first_of(environment, {"OMPI_COMM_WORLD_RANK", "PMI_RANK"});
  const auto size = first_of(environment, {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"});
  if (!rank || !size) return false;
  return rank != value_of(environment, "SLURM_PROCID") ||
         size != value_of(environment, slurm_size_name(environment)) || !slurm_step(environment);
}

bool slurm_present(const Environment& environment) {
  return any_of(environment, {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS"}) &&
         !mpi_contradicts_slurm(environment);
}

/// Elsewhere Slurm places task 0 on the first machine of its list.
void check_first_task(const Environment& environment) {
  const bool by_file = any_of(environment, {"SLURM_HOSTFILE"});
  const std::string distribution = value_of(environment, "SLURM_DISTRIBUTION").value_or("");
  if (!by_file && distribution.rfind("arbitrary", 0) != 0) return;
  throw ConfigError(text(by_file ? "SLURM_HOSTFILE is set" : "SLURM_DISTRIBUTION is arbitrary",
                         ": no variable tells which machine task 0 is on."),
                    "export MASTER_ADDR, the first line of SLURM_HOSTFILE, and a free MASTER_PORT; "
                    "or leave out --distribution=arbitrary.");
}

std::string slurm_job(const Environment& environment) {
  return text("slurm/", needed(environment, "SLURM_JOB_ID", "Slurm"), '.',
              first_of(environment, {"SLURM_STEP_ID", "SLURM_STEPID"}).value_or(""));
}

int slurm_tasks_here(const Environment& environment) {
  const auto counts = first_of(environment, {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
  const auto machine =
      parse_integer<std::int64_t>(value_of(environment, "SLURM_NODEID").value_or(""));
  return counts && machine ? tasks_on_machine(*counts, *machine).value_or(0) : 0;
}

LauncherPlace read_slurm_shell(const Environment& environment) {
  const std::int64_t tasks = number_in(value_of(environment, "SLURM_NTASKS").value_or("1"),
                                       "SLURM_NTASKS", 1, kMaxWorkers);
  const std::string rank = value_of(environment, "SLURM_PROCID").value_or("0");
  if (number_in(rank, "SLURM_PROCID", 0, kMaxWorkers - 1) > 0) {
    (void)needed(environment, "SLURM_STEP_NUM_TASKS", "Slurm");
  }
  if (tasks > 1) {
    throw ConfigError(text("SLURM_NTASKS is ", tasks,
                           ", but srun did not start this process: "
                           "SLURM_STEP_ID is missing."),
                      "start the program with srun, or give --world-size 1 to train alone.");
  }
  return {};
}

LauncherPlace read_slurm(const Environment& environment) {
  if (!slurm_step(environment)) return read_slurm_shell(environment);
  LauncherPlace made = place(environment, "Slurm", "SLURM_PROCID", slurm_size_name(environment));
  if (const auto count = value_of(environment, "SLURM_RESTART_COUNT")) {  // requeued so many times
    made.generation =
        static_cast<std::uint64_t>(number_in(*count, "SLURM_RESTART_COUNT", 0, INT64_MAX));
  }
  if (made.world_size == 1) return made;
  made.on_this_machine = slurm_tasks_here(environment);
  made.chief_address = exported_address(environment, "Slurm");
  if (made.chief_address) return made;
  const char* list =
      any_of(environment, {"SLURM_STEP_NODELIST"}) ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
  const std::string machines = needed(environment, list, "Slurm");
  // A step on one machine needs no name.
  const std::vector<std::string> names = expand_machine_list(machines, list);
  if (names.size() > 1) check_first_task(environment);
  const std::string host = names.size() == 1 ? std::string("127.0.0.1") : names.front();
  made.chief_address = parse_address(text(host, ':', derived_port(slurm_job(environment))), list);
  return made;
}

// --- MPI -----------------------------------------------------------------------------------------

bool open_mpi_present(const Environment& environment) {
  return any_of(environment, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"});
}

LauncherPlace read_open_mpi(const Environment& environment) {
  LauncherPlace made =
      place(environment, "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  if (made.world_size == 1) return made;
  made.chief_address = exported_address(environment, "Open MPI");
  made.on_this_machine = workers_in(environment, "OMPI_COMM_WORLD_LOCAL_SIZE");
  const auto job =
      first_of(environment, {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri"});
  if (!made.chief_address && job && made.on_this_machine == made.world_size) {
    made.chief_address = Endpoint{"127.0.0.1", derived_port(text("open-mpi/", *job))};
  }
  return made;
}

// --- Those that say rank and size, and not where rank 0 is
// ------------------------------------------

/// `here`: the variable that counts the workers on this machine, or "".
Launcher counting(const char* name, const char* rank, const char* size, const char* here) {
  const auto read = [=](const Environment& environment) {
    LauncherPlace made = place(environment, name, rank, size);
    made.on_this_machine = workers_in(environment, here);
    if (made.world_size > 1) made.chief_address = exported_address(environment, name);
    return made;
  };
  return {name,
          [=](const Environment& environment) {
            return any_of(environment, {rank, size});
          },
          read};
}

/// PMIx and Cray's PALS tell a process its rank, and how many there are only through a library.
constexpr std::initializer_list<const char*> kRankAlone = {"PMIX_RANK", "PALS_RANKID"};

bool rank_alone_present(const Environment& environment) { return any_of(environment, kRankAlone); }

LauncherPlace refuse_rank_alone(const Environment& environment) {
  const char* const name = any_of(environment, {"PMIX_RANK"}) ? "PMIX_RANK" : "PALS_RANKID";
  throw ConfigError(text(name,
                         " is set: this process is one of several, and no variable tells of "
                         "how many."),
                    text("give each --rank $", name,
                         ", --world-size and --chief-address; or --world-size 1 to train alone."));
}

}  // namespace

const std::vector<Launcher>& launchers() {
  static const std::vector<Launcher> all = {
      {"torchrun", torchrun_present, read_torchrun},
      {"Slurm", slurm_present, read_slurm},
      {"Open MPI", open_mpi_present, read_open_mpi},
      counting("MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"),
      counting("MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE",
               "MV2_COMM_WORLD_LOCAL_SIZE"),
      counting("Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", ""),
      counting("jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_SIZE"),
      counting("horovodrun", "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_SIZE"),
      {"PMIx", rank_alone_present, refuse_rank_alone},
  };
  return all;
}

std::uint16_t derived_port(const std::string& job) {
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a, 64 bits
  for (const char c : job) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  }
  return static_cast<std::uint16_t>(15'000 + hash % 15'000);
}

}  // namespace troupe
