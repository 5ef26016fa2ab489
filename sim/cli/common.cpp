#include "sim/cli/common.h"

#include <unistd.h>

#include <filesystem>

#include "traces/importers/importers.h"

namespace marrow::cli {

const char* const kSetHelp =
    "Change a parameter: key=value, key+=x, key-=x or key*=x (`marrow config show` lists the "
    "keys);\n"
    "protocol.NAME=value changes a recipe's choice or cost, protocol.STEP.FIELD=value a step, "
    "e.g.\n"
    "--set protocol.wqe.bytes=16 --set protocol.wqe.count=3";

TraceFile::TraceFile(const std::string& path) : path_(path) {
  if (!path.ends_with(".yaml") && !path.ends_with(".yml")) return;
  path_ =
      (std::filesystem::temp_directory_path() / ("marrow-" + std::to_string(getpid()) + ".trace"))
          .string();
  trace::import_workload_yaml(path, path_);
  temporary_ = true;
}

TraceFile::~TraceFile() {
  std::error_code ignored;
  if (temporary_) std::filesystem::remove(path_, ignored);
}

std::string config_dir_of(const std::string& system_file) {
  namespace fs = std::filesystem;
  const fs::path beside = fs::path(system_file).parent_path() / "..";
  if (fs::is_directory(beside / "protocols")) return beside.lexically_normal().string();
  return MARROW_CONFIG_DIR;
}

Sets split_sets(const std::vector<std::string>& sets) {
  Sets split;
  const std::string prefix = "protocol.";
  for (const std::string& set : sets)
    if (set.rfind(prefix, 0) == 0)
      split.protocol.push_back(set.substr(prefix.size()));
    else
      split.system.push_back(set);
  return split;
}

}  // namespace marrow::cli
