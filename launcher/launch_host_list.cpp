#include "launcher/launch_host_list.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string_view>

#include "cluster/cluster_spec.h"
#include "cluster/json_document.h"
#include "core/error.h"
#include "core/numbers.h"
#include "core/text.h"
#include "launcher/launch.h"

namespace troupe {
namespace {

constexpr const char* kListFix = "write --hosts NAME:WORKERS,NAME:WORKERS, such as a:2,b:2.";
constexpr const char* kFileFix = "write one host in a line: NAME slots=WORKERS.";
constexpr std::string_view kSlots = "slots=";

/// Where a host is named, for messages.
struct Place {
  std::string text;  // "--hosts[1]", "hosts.txt, line 3"
  const char* fix;
};

/// Nothing that ssh would take for an option, and nothing that a name cannot have.
void check_name(const std::string& name, const Place& place) {
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("-._@:%").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (name.empty() || name.front() == '-' || name.back() == '@' || name.size() > 255 ||
      !std::all_of(name.begin(), name.end(), fits))
    throw ConfigError(text(place.text, " is not the name of a host: \"", name, "\"."), place.fix);
}

int parse_count(const std::string& word, const Place& place) {
  const auto count = parse_integer<std::int64_t>(word);
  if (!count || *count < 1 || *count > kMaxLocalWorkers)
    throw ConfigError(text(place.text, ": the number of workers is \"", word, "\", not from 1 to ",
                           kMaxLocalWorkers, "."),
                      place.fix);
  return static_cast<int>(*count);
}

void add(std::vector<HostSlots>& hosts, HostSlots host, const Place& place) {
  const auto same = std::find_if(hosts.begin(), hosts.end(),
                                 [&](const HostSlots& known) { return known.name == host.name; });
  if (same == hosts.end()) {
    hosts.push_back(std::move(host));
  } else {
    same->workers += host.workers;
    if (same->workers > kMaxLocalWorkers)
      throw ConfigError(text(place.text, ": with it ", same->name, " has ", same->workers,
                             " workers; ", kMaxLocalWorkers, " are possible."),
                        "name fewer.");
  }
  int workers = 0;
  for (const HostSlots& each : hosts) workers += each.workers;
  if (workers > kMaxWorkers || static_cast<int>(hosts.size()) > kMaxNodes)
    throw ConfigError(
        text(place.text, ": with it there are ", workers, " workers on ", hosts.size(), " hosts; ",
             kMaxWorkers, " on ", kMaxNodes, " are possible."),
        "name fewer.");
}

/// "a", "a:2", "[fd00::1]:2"
HostSlots parse_entry(const std::string& entry, const Place& place) {
  HostSlots host;
  std::string rest;
  if (!entry.empty() && entry.front() == '[') {
    const std::size_t end = entry.find(']');
    if (end == std::string::npos)
      throw ConfigError(text(place.text, ": \"", entry, "\" lacks its ]."), place.fix);
    host.name = entry.substr(1, end - 1);
    rest = entry.substr(end + 1);
  } else {
    const std::size_t colon = entry.find(':');
    host.name = entry.substr(0, colon);
    rest = colon == std::string::npos ? "" : entry.substr(colon);
  }
  check_name(host.name, place);
  if (rest.empty()) return host;
  if (rest.front() != ':')
    throw ConfigError(text(place.text, ": \"", rest, "\" follows the ]."), place.fix);
  host.workers = parse_count(rest.substr(1), place);
  return host;
}

}  // namespace

std::string address_of(const HostSlots& host) {
  return host.name.substr(host.name.rfind('@') + 1);  // npos + 1 is 0
}

std::vector<HostSlots> parse_host_list(const std::string& list) {
  std::vector<HostSlots> hosts;
  int number = 0;
  for (const std::string& entry : split(list, ',')) {
    const Place place{text("--hosts, entry ", ++number), kListFix};
    add(hosts, parse_entry(entry, place), place);
  }
  return hosts;
}

std::vector<HostSlots> parse_host_file(const std::string& contents, const std::string& shown) {
  std::vector<HostSlots> hosts;
  std::istringstream lines(contents);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    const Place place{text(shown, ", line ", ++number), kFileFix};
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name;
    if (!(words >> name)) continue;
    HostSlots host = parse_entry(name, place);
    for (std::string word; words >> word;) {
      const std::size_t equals = word.find('=');
      if (equals == std::string::npos || equals == 0)
        throw ConfigError(text(place.text, ": \"", word, "\" is not a setting."), place.fix);
      if (word.rfind(kSlots, 0) == 0) host.workers = parse_count(word.substr(kSlots.size()), place);
    }
    add(hosts, std::move(host), place);
  }
  if (hosts.empty()) throw ConfigError(text(shown, " names no host."), kFileFix);
  return hosts;
}

std::vector<HostSlots> read_host_file(const std::string& path) {
  return parse_host_file(read_document(path, "--hostfile"), path);
}

}  // namespace troupe
