// What the command line does with trace files. All throw InputError.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "traces/importers/importers.h"
#include "traces/trace.h"

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

/// marrow trace info: header, a table of runs, what was measured of them as a whole and what
/// devices counted; or one JSON object ("marrow.trace.info/1"). name: the file's, for a person.
void info(Reader& reader, const std::string& name, bool json, std::ostream& out);

/// marrow trace check: reads everything; says OK and how much there is.
void check(Reader& reader, const std::string& name, std::ostream& out);

/// marrow trace dump: one JSON object an operation and line; at most `limit` lines (0: all), of all
/// runs or the one named.
void dump(Reader& reader, const std::string& name, std::optional<std::string> only_run,
          std::uint64_t limit, std::ostream& out);

}  // namespace marrow::trace
