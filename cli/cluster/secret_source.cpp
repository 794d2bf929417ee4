#include "troupe/cli/cluster/secret_source.h"

#include <cstdlib>

#include "troupe/cli/cluster/sealed_secret.h"
#include "troupe/cli/cluster/secret_file.h"
#include "troupe/core/error.h"
#include "troupe/core/numbers.h"
#include "troupe/core/options/cluster_reach.h"
#include "troupe/core/text.h"
#include "troupe/core/unique_fd.h"

namespace troupe {
namespace {

constexpr const char* kGiveOne =
    "start the workers with `troupe run`, or make a secret with `troupe secret FILE`, copy it to "
    "every machine, and pass --secret-file FILE or set TROUPE_SECRET_FILE.";

}  // namespace

SecretSource choose_secret(const detail::GivenTexts& given, const Cluster& cluster, bool trains,
                           const Environment& environment) {
  using Kind = SecretSource::Kind;
  SecretSource source;
  const detail::GivenText* const file = detail::given_for(given, "secret-file");
  const detail::GivenText* const handed = detail::given_for(given, "secret-fd");
  if (handed != nullptr) source.descriptor = parse_integer<int>(handed->value).value();
  const bool alone = cluster.world_size() == 1 && cluster.servers.empty();
  if (alone || !trains || cluster.is_evaluator()) return source;
  if (file != nullptr && (handed == nullptr || file->source < handed->source)) {
    source.kind = Kind::file;
    source.path = file->value;
    source.origin = file->origin;
  } else if (handed != nullptr) {
    source.kind = Kind::descriptor;
    source.origin = "troupe run";
  } else if (leaves_machine(cluster)) {
    source.kind = Kind::missing;
  } else {
    source.path = user_key_path(environment);
    source.kind = source.path.empty() ? Kind::missing : Kind::user_key;
  }
  return source;
}

std::shared_ptr<const Secret> take_secret(const SecretSource& source, const Cluster& cluster) {
  using Kind = SecretSource::Kind;
  unsetenv(kSecretDescriptorVariable);
  // A number that came from elsewhere than a launcher may be that of any other file of this
  // process.
  const UniqueFd handed(is_sealed_secret(source.descriptor) ? source.descriptor : -1);
  switch (source.kind) {
    case Kind::none:
      return nullptr;
    case Kind::file:
      return read_secret_file(source.path, source.origin);
    case Kind::descriptor:
      return read_sealed(source.descriptor);
    case Kind::user_key:
      return read_user_key(source.path);
    case Kind::missing:
      break;
  }
  if (leaves_machine(cluster)) {
    throw ConfigError(text("the cluster of ", cluster.origin,
                           " reaches beyond this machine, and no secret is given."),
                      kGiveOne);
  }
  throw ConfigError("no secret is given, and without HOME this user has no key.", kGiveOne);
}

}  // namespace troupe
