#include "models/nvlink/bulk.h"

#include <algorithm>

#include "models/nvlink/link.h"

namespace marrow::nvlink {

namespace {

/// The link's own time for a long train, or the SMs' together, whichever is longer.
double stream_us(const NvlinkSpec& spec, std::uint64_t sms, std::uint64_t bytes_each,
                 double sm_gbps) {
  const double sm_ns = static_cast<double>(bytes_each) * 8 / sm_gbps;
  return std::max(sm_ns, train_ns(spec, sms * bytes_each)) / 1000;
}

}  // namespace

double stream_store_us(const NvlinkSpec& spec, std::uint64_t sms, std::uint64_t bytes_each) {
  return stream_us(spec, sms, bytes_each, spec.sm_store_gbps);
}

double stream_load_us(const NvlinkSpec& spec, std::uint64_t sms, std::uint64_t bytes_each) {
  return stream_us(spec, sms, bytes_each, spec.sm_load_gbps);
}

double scattered_store_us(const NvlinkSpec& spec, std::uint64_t sms, std::uint64_t stores_each,
                          std::uint64_t bytes) {
  const double link_ns = train_ns(spec, bytes) * static_cast<double>(sms);
  return std::max(spec.sm_scattered_store_ns, link_ns) * static_cast<double>(stores_each) / 1000;
}

double copy_us(const NvlinkSpec& spec, std::uint64_t bytes, std::uint64_t copies) {
  return spec.copy_issue_us + spec.copy_start_us / static_cast<double>(copies) +
         train_ns(spec, bytes) / 1000;
}

double beside_copy_ns(const NvlinkSpec& spec) {
  return train_ns(spec, static_cast<std::uint64_t>(spec.copy_queue_bytes));
}

}  // namespace marrow::nvlink
