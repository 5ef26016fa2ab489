#include "validate/pcie_bench.h"

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace marrow::validate {

namespace {

constexpr std::uint64_t kLineBytes = 64;

constexpr std::array<std::pair<const char*, PcieTest>, 7> kTests = {{
    {"LAT_CMD_RD", PcieTest::kLatCmdRd},
    {"LAT_CMD_WRRD", PcieTest::kLatCmdWrRd},
    {"LAT_DMA_RD", PcieTest::kLatDmaRd},
    {"LAT_DMA_WRRD", PcieTest::kLatDmaWrRd},
    {"BW_DMA_RD", PcieTest::kBwDmaRd},
    {"BW_DMA_WR", PcieTest::kBwDmaWr},
    {"BW_DMA_RW", PcieTest::kBwDmaRw},
}};

/// The device's link, root complex and host memory.
struct Host {
  Host(const config::SystemSpec& system, bool remote) : link(system.pcie) {
    const double request_ns = system.pcie.round_trip_ns * system.pcie.request_share_ratio;
    path.out = {{&link, pcie::Way::kUp, ps_from_ns(request_ns)}};
    path.back = {{&link, pcie::Way::kDown, ps_from_ns(system.pcie.round_trip_ns - request_ns)}};
    if (remote) {
      const pcie::Hop socket{nullptr, pcie::Way::kUp, ps_from_ns(system.host.socket_hop_ns)};
      path.out.push_back(socket);
      path.back.insert(path.back.begin(), socket);
    }
    // The round trip includes memory's own latency.
    path.read_latency = [](std::uint64_t, std::uint64_t) { return Ps{0}; };
    buffer.bytes = system.host.write_buffer_bytes;
    buffer.ps_per_byte = 8000 / system.host.write_drain_gbps;
    path.buffer = &buffer;
  }
  pcie::Duplex link;
  pcie::WriteBuffer buffer;
  pcie::Path path;
};

double latency_ns(const config::SystemSpec& system, const PcieBenchCase& what,
                  pcie::DmaEngine::Detail detail) {
  DmaSpec dma = system.dma;
  if (what.test == PcieTest::kLatCmdRd || what.test == PcieTest::kLatCmdWrRd) {
    // A command carries its data from the device's memory: no descriptor, no bus to wait for.
    dma.setup_ns = dma.write_turn_ns = dma.write_beat_ns = 0;
  }
  Host host(system, what.remote);
  pcie::DmaEngine engine(dma, system.pcie, detail);
  Ps at_ps = 0;
  if (what.test == PcieTest::kLatCmdWrRd || what.test == PcieTest::kLatDmaWrRd)
    at_ps = engine.write(host.path, 0, 0, what.size_bytes).sent_ps;
  return static_cast<double>(engine.read(host.path, at_ps, 0, what.size_bytes).last_ps) / kPsPerNs;
}

double bandwidth_gbps(const config::SystemSpec& system, const PcieBenchCase& what,
                      pcie::DmaEngine::Detail detail) {
  // Threads of the device that each wait for their transfer and start the next: more than can be
  // under way, so that their number does not matter.
  constexpr int kThreads = 64;
  constexpr int kTransfers = 8192;
  Host host(system, what.remote);
  pcie::DmaEngine engine(system.dma, system.pcie, detail);
  const std::uint64_t stride = (what.size_bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
  const std::uint64_t units = std::max<std::uint64_t>(1, what.window_bytes / stride);
  std::priority_queue<Ps, std::vector<Ps>, std::greater<>> ready_ps;
  for (int i = 0; i < kThreads; ++i) ready_ps.push(0);
  Ps half_ps = 0, end_ps = 0;
  for (int i = 0; i < kTransfers; ++i) {
    const bool read =
        what.test == PcieTest::kBwDmaRd || (what.test == PcieTest::kBwDmaRw && i % 2 == 1);
    const Ps at_ps = ready_ps.top();
    ready_ps.pop();
    const std::uint64_t address = static_cast<std::uint64_t>(i) % units * stride;
    const Ps done_ps = read ? engine.read(host.path, at_ps, address, what.size_bytes).last_ps
                            : engine.write(host.path, at_ps, address, what.size_bytes).sent_ps;
    ready_ps.push(done_ps);
    end_ps = std::max(end_ps, done_ps);
    if (i == kTransfers / 2 - 1) half_ps = end_ps;
  }
  const double transfers = kTransfers / (what.test == PcieTest::kBwDmaRw ? 4.0 : 2.0);
  return transfers * static_cast<double>(what.size_bytes) * 8 /
         (static_cast<double>(end_ps - half_ps) / kPsPerNs);
}

}  // namespace

std::optional<PcieTest> pcie_test(const std::string& name) {
  for (const auto& [known, test] : kTests)
    if (name == known) return test;
  return std::nullopt;
}

double predict_pcie_bench(const config::SystemSpec& system, const PcieBenchCase& what,
                          pcie::DmaEngine::Detail detail) {
  switch (what.test) {
    case PcieTest::kBwDmaRd:
    case PcieTest::kBwDmaWr:
    case PcieTest::kBwDmaRw:
      return bandwidth_gbps(system, what, detail);
    default:
      return latency_ns(system, what, detail);
  }
}

}  // namespace marrow::validate
