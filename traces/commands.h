// What the command line does with trace files. All throw InputError.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "traces/importers.h"

namespace marrow::trace {

/// One format that `marrow import` reads.
struct ImportFormat {
  std::string_view name;
  std::string_view about;
  void (*import)(const std::string& in, const std::string& out, const ImportOptions& options);
};

/// Every format, in the order in which they are listed to a user.
const std::vector<ImportFormat>& import_formats();

/// marrow import FORMAT FILE --out OUT
void import_file(const std::string& format, const std::string& file, const std::string& out,
                 const ImportOptions& options);

/// marrow trace info: header and a table of runs, or one JSON object ("marrow.trace.info/1").
void info(const std::string& file, bool json, std::ostream& out);

/// marrow trace check: reads everything; says OK and how much there is.
void check(const std::string& file, std::ostream& out);

/// marrow trace dump: one JSON object an operation and line; at most `limit` lines (0: all), of all
/// runs or the one named.
void dump(const std::string& file, std::optional<std::string> only_run, std::uint64_t limit,
          std::ostream& out);

}  // namespace marrow::trace
