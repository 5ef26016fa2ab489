#include "models/host/cpu_thread.h"

#include <algorithm>

namespace marrow::host {

CpuThread::CpuThread(sc_core::sc_module_name name, const HostSpec& spec, HostMemory* memory)
    : Consumer(name), spec_(spec), memory_(memory), stores_("stores", [this](Store& store, Ps) {
        memory_->core_store(store.address, store.value, store.bytes);
      }) {}

Ps CpuThread::store_completion(std::uint64_t address, std::uint64_t value, std::uint32_t bytes,
                               Ps issue_ps) {
  stores_.push(std::max(issue_ps, now_ps()), {address, value, bytes});
  return issue_ps;
}

void CpuThread::watch(std::uint64_t begin, std::uint64_t end) {
  memory_->watch(begin, end, [this](std::uint64_t address, std::uint64_t, Ps at_ps) {
    announced(address, at_ps);
  });
}

Ps CpuThread::copy_ps(std::uint64_t bytes) const {
  if (bytes == 0) return 0;
  const auto size = static_cast<double>(bytes);
  const double rate = size <= spec_.copy_l1_bytes ? spec_.copy_l1_gb_per_s : spec_.copy_gb_per_s;
  return ps_from_ns(spec_.copy_overhead_ns + size / rate);
}

}  // namespace marrow::host
