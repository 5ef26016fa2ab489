#include "traces/guess.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/common/error.h"
#include "traces/importers/importers.h"
#include "traces/text.h"

namespace marrow::trace {

namespace {

/// What stands near the beginning of files that programs write; the first that is found counts.
struct Sign {
  std::string_view text, what, format;
};
constexpr std::string_view kCounters = "counters of a NIC";
constexpr Sign kSigns[] = {
    {"# nThread ", "output of nccl-tests", "nccl-tests"},
    {"\"nccl_version\"", "JSON of nccl-tests", "nccl-tests"},
    {"\"test_info\"", "JSON of perftest", "perftest"},
    {"&&&& PERF", "output of NVSHMEM's perftest", "nvshmem-perftest"},
    {"Runtime options after parsing command line", "output of NVSHMEM's perftest",
     "nvshmem-perftest"},
    {"#shmem_", "output of NVSHMEM's perftest", "nvshmem-perftest"},
    {" Dual-port       :", "output of perftest", "perftest"},
    {"#iterations", "output of perftest", "perftest"},
    {"NCCL TRACE ", "a log of NCCL", "gin-proxy-log"},
    {"NCCL INFO ", "a log of NCCL", "gin-proxy-log"},
    {"hw_counters/", kCounters, "mlx5-counters"},
    {"NIC statistics:", kCounters, "mlx5-counters"},
    {"rx_write_requests", kCounters, "mlx5-counters"},
};

}  // namespace

bool starts_like_trace(std::string_view head) {
  const auto skip_varint = [&] {
    std::size_t n = 0;
    while (n < head.size() && n < 4 && (head[n] & 0x80)) ++n;
    head.remove_prefix(std::min(n + 1, head.size()));
  };
  // Protobuf's wire format: (field number << 3) | type. A header's fields are 1 to 4.
  skip_varint();
  if (!head.starts_with((1 << 3) | 2)) return false;
  head.remove_prefix(1);
  skip_varint();
  return !head.empty() && head[0] >> 3 >= 1 && head[0] >> 3 <= 4;
}

Guess guess(std::string_view head, std::string_view path) {
  const auto import_as = [&](std::string_view format) {
    return fmt::format("import it: marrow import {} {} --out FILE.trace", format, path);
  };
  if (head.starts_with("version https://git-lfs"))
    return {"is a git-lfs pointer, not the file itself", "fetch the file: git lfs pull"};
  if (starts_like_trace(head))
    return {"is a marrow trace already", "look at it: marrow trace info " + std::string(path)};
  if (head.starts_with("PK\x03\x04")) return {"looks like a zip archive", "unpack it first"};
  if (head.starts_with("\x28\xb5\x2f\xfd"))
    return {"looks like zstd-compressed data", "unpack it first: zstd -d"};
  if (head.starts_with("\xfd"
                       "7zXZ"))
    return {"looks like xz-compressed data", "unpack it first: xz -d"};
  if (head.starts_with("SQLite format 3"))
    return {"looks like an SQLite database, perhaps an export of Nsight Systems",
            import_as("nsys-sqlite"), "nsys-sqlite"};
  const auto is_text = [](char c) {
    return c >= ' ' || c == '\n' || c == '\r' || c == '\t' || c < 0;
  };
  // A record's own header starts with bytes below ' '.
  if (head.empty() || !std::all_of(head.begin(), head.end(), is_text))
    return {"holds binary data of another kind", "traces are made by marrow import"};
  if (head.find("\"schema\":\"marrow.capture/") != std::string_view::npos)
    return {"looks like a capture of marrow-capture", import_as("capture"), "capture"};
  for (const Sign& sign : kSigns)
    if (head.find(sign.text) != std::string_view::npos)
      return {fmt::format("looks like {}", sign.what), import_as(sign.format),
              std::string(sign.format)};
  if (head.front() == '{' || head.front() == '[')
    return {"looks like JSON of an unknown kind",
            "importers read that of perftest --out_json and of nccl-tests -J"};
  const std::string_view line = head.substr(0, head.find_first_of("\r\n"));
  if (line.find(',') != std::string_view::npos && line.find(": ") == std::string_view::npos) {
    const std::string format = csv_format_of(line);
    if (!format.empty())
      return {fmt::format("looks like a CSV file in the {} layout", format), import_as(format),
              format};
    return {"looks like a CSV file of an unknown layout",
            "importers read host-consumer-csv, device-consumer-csv and peer-consumer-csv"};
  }
  if (head.find("runs:") != std::string_view::npos)
    return {"looks like a workload in YAML", import_as("workload-yaml"), "workload-yaml"};
  return {fmt::format("looks like text ('{}')", shown(line)), "traces are made by marrow import"};
}

void found_nothing(const std::string& path, std::string_view head, std::string_view format,
                   const std::string& what, const std::string& mend) {
  const Guess g = guess(head, path);
  const bool other = !g.format.empty() && g.format != format;
  throw InputError(
      path,
      other ? fmt::format("{}: it {}", what, g.looks)
            : fmt::format("{}{}", what, g.format == format ? ", though it " + g.looks : ""),
      other ? g.mend : mend);
}

}  // namespace marrow::trace
