#include "sim/config/system.h"

#include <cmath>
#include <functional>

#include "models/common/error.h"

namespace marrow::config {

namespace {

struct Binding {
  Declaration declaration;
  std::function<double&(SystemSpec&)> field;
};

// One line declares, reads, checks and documents a parameter.
#define GPU(key, member, min, max, doc)                                                       \
  {                                                                                           \
    {"gpu." key, min, max, doc, "gpu"}, [](SystemSpec& s) -> double& { return s.gpu.member; } \
  }
#define PCIE(key, member, min, max, doc)                                                 \
  {                                                                                      \
    {"pcie." key, min, max, doc}, [](SystemSpec& s) -> double& { return s.pcie.member; } \
  }
#define DMA(key, member, min, max, doc)                                                       \
  {                                                                                           \
    {"dma." key, min, max, doc, "dma"}, [](SystemSpec& s) -> double& { return s.dma.member; } \
  }
// Of a host's parameters some are about GPU and CPU threads, some about its root complex and
// sockets as pcie-bench sees them.
#define HOST(group, key, member, min, max, doc)                                                 \
  {                                                                                             \
    {"host." key, min, max, doc, group}, [](SystemSpec& s) -> double& { return s.host.member; } \
  }
#define NET(key, member, min, max, doc)                                            \
  {                                                                                \
    {key, min, max, doc, "nic"}, [](SystemSpec& s) -> double& { return s.member; } \
  }
#define NVLINK(key, member, min, max, doc)                       \
  {                                                              \
    {"nvlink." key, min, max, doc, "nvlink"},                    \
        [](SystemSpec& s) -> double& { return s.nvlink.member; } \
  }

const std::vector<Binding>& bindings() {
  static const std::vector<Binding> table = {
      {{"prediction.stage_error_percent", 0, 100,
        "what a stage's median may be off, 90 %, besides what the parameters' intervals say",
        "prediction"},
       [](SystemSpec& s) -> double& { return s.stage_error_percent; }},
      GPU("sm.clock_ghz", sm_clock_ghz, 0.1, 5, "SM clock"),
      GPU("sm.nominal_clock_ghz", sm_nominal_clock_ghz, 0.1, 5,
          "SM clock at which the L2 clock is the one given"),
      GPU("sm.units_count", sm_count, 1, 1024, "number of SMs"),
      GPU("sm.store_cycles", store_cycles, 0, 1000, "between stores of at most 8 B of one lane"),
      GPU("sm.store16_cycles", store16_cycles, 0, 1000, "between 16 B stores of one lane"),
      GPU("sm.store_lane_cycles", store_lane_cycles, 0, 1000,
          "of the SM's port to the L2, for each store of at most 8 B of a lane"),
      GPU("l2.clock_ghz", l2_clock_ghz, 0.1, 5,
          "clock of crossbar, L2 and fence costs, at the SM's nominal clock"),
      GPU("l2.follows_sm_ratio", l2_follows_sm, 0, 1,
          "share of an L2-side cost whose time goes with the SM clock"),
      GPU("l2.load_cycles", load_cycles, 1, 10000,
          "round trip of a load that hits the SM's partition"),
      GPU("l2.load_far_extra_cycles", load_far_extra_cycles, 0, 10000,
          "more, once, after the line was written in the far partition"),
      GPU("l2.near_cycles", near_cycles, 1, 10000,
          "round trip to a line's home in the SM's partition"),
      GPU("l2.far_cycles", far_cycles, 1, 10000,
          "round trip to a line's home in the other partition"),
      GPU("l2.distance_spread_cycles", distance_spread_cycles, 0, 1000,
          "half width of the distance of a line, where it is drawn"),
      GPU("l2.atomic_interval_cycles", atomic_interval_cycles, 0, 10000,
          "between atomics on one word"),
      GPU("l2.jitter_cycles", jitter_cycles, 0, 1000, "half width of a round trip's variation"),
      GPU("l2.capacity_bytes", l2_bytes, 65536, 1 << 30, "capacity"),
      GPU("hbm.extra_cycles", hbm_cycles, 0, 100000,
          "a load that misses the L2, beyond a hit (L2 clock)"),
      GPU("hbm.rate_gbps", hbm_gbps, 1, 1e6, "rate of all channels"),
      GPU("hbm.channels_count", hbm_channels, 1, 1024, "channels, interleaved by line"),
      GPU("fence.cta_cycles", fence_cta_cycles, 0, 10000, "CTA-scope fence (SM clock)"),
      GPU("fence.gpu_cycles", fence_gpu_cycles, 0, 100000,
          "GPU-scope fence with nothing stored since the last"),
      GPU("fence.gpu_near_cycles", fence_gpu_near_cycles, 0, 100000,
          "GPU-scope fence, lines stored to since the last are near"),
      GPU("fence.gpu_far_cycles", fence_gpu_far_cycles, 0, 100000,
          "the same, far lines among them"),
      GPU("fence.gpu_host_cycles", fence_gpu_host_cycles, 0, 100000,
          "the same, host memory among them"),
      GPU("fence.gpu_beside_host_reads_cycles", fence_gpu_beside_host_reads_cycles, 0, 100000,
          "GPU-scope fence at least, while another SM keeps reading host memory"),
      GPU("fence.gpu_peer_cycles", fence_gpu_peer_cycles, 0, 100000,
          "GPU-scope fence, once a peer's memory has been stored to"),
      GPU("fence.sys_peer_cycles", fence_sys_peer_cycles, 0, 100000,
          "store to a peer's memory until a system-scope fence sees it done"),
      GPU("fence.sys_cycles", fence_sys_cycles, 0, 100000, "system-scope fence"),
      GPU("fence.sys_host_extra_cycles", fence_sys_host_extra_cycles, 0, 100000,
          "more at most, by line, after stores to host memory"),
      GPU("fence.sys_after_read_cycles", fence_sys_after_read_cycles, 0, 100000,
          "end of a host read that a system-scope fence waits for until the fence's own end"),
      GPU("fence.arrival_cycles", fence_arrival_cycles, 0, 100000,
          "issue of a fence until it meets the host reads in flight"),
      GPU("fence.sys_host_peer_cycles", fence_sys_host_peer_cycles, 0, 100000,
          "system-scope fence after stores to host memory, where NVLink reaches a peer"),
      GPU("kernel.start_ns", kernel_start_ns, 0, 1e6,
          "GPU's doorbell rung until a launched kernel's first instruction"),
      GPU("kernel.end_ns", kernel_end_ns, 0, 1e6,
          "a kernel's last instruction until the write that tells the host leaves"),
      GPU("copy.start_ns", copy_start_ns, 0, 1e6,
          "GPU's doorbell rung until the copy engine turns to a copy"),
      GPU("copy.turn_ns", copy_turn_ns, 0, 1e6, "of each copy with host memory, besides its bytes"),
      PCIE("generation_count", generation, 1, 6, "PCIe generation"),
      PCIE("lanes_count", lanes, 1, 16, "link width"),
      PCIE("tlp_overhead_bytes", tlp_overhead_bytes, 0, 64,
           "TLP header, sequence number, LCRC and framing"),
      PCIE("completion_overhead_bytes", completion_overhead_bytes, 0, 64,
           "the same of a completion"),
      PCIE("dllp_ratio", dllp_ratio, 0, 0.5,
           "share of the rate that neither TLPs nor the DLLPs below get"),
      PCIE("ack_bytes", ack_bytes, 0, 64, "DLLPs that acknowledge one TLP"),
      PCIE("credit_bytes", credit_bytes, 0, 64, "DLLPs that give one request's credits back"),
      PCIE("mps_bytes", mps_bytes, 64, 4096, "maximum payload size"),
      PCIE("mrrs_bytes", mrrs_bytes, 64, 4096, "maximum read request size, a power of two"),
      PCIE("rcb_bytes", rcb_bytes, 64, 128, "read completion boundary"),
      PCIE("combine_bytes", combine_bytes, 0, 8192,
           "shortest read request that is answered in completions filled up to MPS, not to RCB"),
      PCIE("round_trip_ns", round_trip_ns, 1, 100000,
           "from the L2 to host memory and back, read of a line no core has written"),
      {{"pcie.jitter_ns", 0, 10000, "half width of a read's variation", "gpu"},
       [](SystemSpec& s) -> double& { return s.pcie.jitter_ns; }},
      PCIE("request_share_ratio", request_share_ratio, 0, 1,
           "share of the round trip until memory is reached"),
      DMA("tags_count", tags_count, 1, 4096, "read requests of the device on their way"),
      DMA("outstanding_bytes", outstanding_bytes, 64, 1e9, "bytes read by the device on their way"),
      DMA("setup_ns", setup_ns, 0, 100000, "descriptor handed over until the engine works on it"),
      DMA("request_ns", request_ns, 0, 10000, "between read requests of one transfer"),
      DMA("completion_ns", completion_ns, 0, 10000, "between completions that the engine takes in"),
      DMA("read_turn_ns", read_turn_ns, 0, 10000,
          "of each read, on the bus that delivers what was read inside the device"),
      DMA("read_beat_bytes", read_beat_bytes, 1, 4096, "width of that bus"),
      DMA("read_beat_ns", read_beat_ns, 0, 10000,
          "a beat of that bus; 0: nothing is stored, data go on as they come"),
      DMA("gather_ns", gather_ns, 0, 100000,
          "latency of the device's own memory, where what is written comes from"),
      DMA("write_turn_ns", write_turn_ns, 0, 10000,
          "of each write, on the bus that gathers what is written, and between writes on the link"),
      DMA("write_beat_bytes", write_beat_bytes, 1, 4096, "width of that bus"),
      DMA("write_beat_ns", write_beat_ns, 0, 10000, "a beat of that bus; 0: nothing is stored"),
      HOST("root", "write_buffer_bytes", write_buffer_bytes, 64, 1e9,
           "posted writes that the root complex holds: what it gives credits for"),
      HOST("root", "write_drain_gbps", write_drain_gbps, 0.1, 1e6,
           "rate at which memory takes them"),
      HOST("root", "socket_hop_ns", socket_hop_ns, 0, 10000, "to the other socket, one way"),
      HOST("gpu", "clock_ghz", clock_ghz, 0.1, 10,
           "clock of a core that is busy without pause, for which its times here hold"),
      HOST("gpu", "cold_clock_ghz", cold_clock_ghz, 0.1, 10,
           "clock of a core that has been idle; its times grow as its clock falls"),
      HOST("gpu", "cold_extra_ratio", cold_extra, 1, 10,
           "how much longer a cold core's times are than its clock says"),
      HOST("gpu", "window_cycles", window_cycles, 0, 10000,
           "how far a core's loads run ahead of what it does"),
      HOST("gpu", "line_ns", line_ns, 0, 100000,
           "a line that a device wrote some time ago, until a core that reads it has it"),
      HOST("gpu", "poll_ns", poll_ns, 0.1, 100000, "a look of a polling thread at one cached word"),
      HOST("gpu", "notice_ns", notice_ns, 0, 100000,
           "device write at the memory until a polling core can have the word"),
      HOST("gpu", "notice_spread_ns", notice_spread_ns, 0, 100000, "half width of its variation"),
      HOST("gpu", "fence_ns", fence_ns, 0, 100000, "store fence or locked instruction of a core"),
      HOST("gpu", "mmio_ns", mmio_ns, 0, 100000,
           "a core's store to a device's register until the root complex has it"),
      HOST("gpu", "snoop_ns", snoop_ns, 0, 100000,
           "more for a device read of a line a core wrote last"),
      HOST("gpu", "device_written_ns", device_written_ns, 0, 100000,
           "more for a device read of a line a device wrote last"),
      HOST("gpu", "read_after_store_ns", read_after_store_ns, 0, 100000,
           "a device write at the memory until a read behind it is served"),
      HOST("gpu", "copy_overhead_ns", copy_overhead_ns, 0, 100000, "memcpy, fixed part"),
      HOST("gpu", "copy_l1_gbps", copy_l1_gb_per_s, 0.1, 10000,
           "memcpy within the L1, GB/s times 8"),
      HOST("gpu", "copy_l1_bytes", copy_l1_bytes, 0, 1e9, "largest memcpy that runs within the L1"),
      HOST("gpu", "copy_gbps", copy_gb_per_s, 0.1, 10000, "memcpy beyond the L1, GB/s times 8"),
      HOST("gpu", "launch_call_ns", launch_call_ns, 0, 1e6,
           "a thread's call that launches a kernel into an idle stream"),
      HOST("gpu", "launch_behind_ratio", launch_behind_ratio, 0.1, 10,
           "the same into a stream with work before it, to that"),
      HOST("gpu", "copy_call_ns", copy_call_ns, 0, 1e6,
           "a thread's call that starts a copy by the copy engine"),
      NET("cluster.pes_count", pes, 2, 64, "processing elements, each a GPU with its NIC"),
      NET("switch.gpu_ns", pcie_switch.gpu_ns, 0, 10000,
          "between the GPU's L2 and its end of the PCIe link, one way"),
      NET("switch.hop_ns", pcie_switch.hop_ns, 0, 10000,
          "between the links of GPU and NIC, one way, beyond serialisation"),
      NET("switch.host_ns", pcie_switch.host_ns, 0, 10000,
          "between the NIC's link and host memory, one way"),
      NET("switch.host_read_ns", pcie_switch.host_read_ns, 0, 10000,
          "more for the NIC's reads of host memory, which its writes need not wait for"),
      NET("nic.pcie.generation_count", nic_pcie.generation, 1, 6, "PCIe generation of its link"),
      NET("nic.pcie.lanes_count", nic_pcie.lanes, 1, 16, "width of its link"),
      NET("nic.doorbell_ns", nic.doorbell_ns, 0, 100000,
          "register write decoded, queue pair made active"),
      NET("nic.fetch.entries_count", nic.fetch_entries, 1, 64,
          "64 B entries that one read fetches at most"),
      NET("nic.fetch.outstanding_count", nic.fetches, 1, 4096, "entry fetches under way at once"),
      NET("nic.fetch.turn_count", nic.turn_fetches, 1, 1024,
          "entry fetches of one queue pair in a row, where others wait"),
      NET("nic.decode_ns", nic.decode_ns, 0, 100000, "entry at the NIC until it is understood"),
      NET("nic.message_interval_ns", nic.message_interval_ns, 0, 100000,
          "between messages of all queue pairs"),
      NET("nic.queue_interval_ns", nic.queue_interval_ns, 0, 100000,
          "between messages of one queue pair"),
      NET("nic.translate_ns", nic.translate_ns, 0, 100000,
          "address and connection looked up, both cached"),
      NET("nic.miss_ns", nic.miss_ns, 0, 100000,
          "more for a context or translation that comes from host memory"),
      NET("nic.contexts_count", nic.contexts, 1, 1e7, "connection contexts cached"),
      NET("nic.context_fetches_count", nic.context_fetches, 1, 1024,
          "contexts that received requests have fetched at once"),
      NET("nic.translations_count", nic.translations, 1, 1e7, "address translations cached"),
      NET("nic.page_bytes", nic.page_bytes, 4096, 1e12, "memory that one translation covers"),
      NET("nic.transmit_ns", nic.transmit_ns, 0, 100000,
          "payload ready until the packet's head is at the port"),
      NET("nic.receive_ns", nic.receive_ns, 0, 100000,
          "packet's end at the port until its write may leave for memory"),
      NET("nic.receive_interval_ns", nic.receive_interval_ns, 0, 100000,
          "between messages received"),
      NET("nic.ack_ns", nic.ack_ns, 0, 100000, "write issued until the ACK is at the port"),
      NET("nic.ack_receive_ns", nic.ack_receive_ns, 0, 100000,
          "ACK at the port until the entry is complete"),
      NET("nic.cqe_ns", nic.cqe_ns, 0, 100000, "entry complete until its CQE leaves for memory"),
      NET("nic.dc_connect_ns", nic.dc_connect_ns, 0, 100000,
          "a DC initiator turning to a destination"),
      NET("nic.ack_timeout_us", nic.ack_timeout_us, 1, 1e8, "until unacknowledged requests repeat"),
      NET("nic.retries_count", nic.retries, 0, 7, "repetitions before a queue pair gives up"),
      NET("wire.rate_gbps", wire.gbps, 1, 10000, "a port's data rate"),
      NET("wire.mtu_bytes", wire.mtu_bytes, 256, 65536, "payload of a packet at most"),
      NET("wire.header_bytes", wire.header_bytes, 0, 1000,
          "of every packet: link, network, BTH, checksums, gap"),
      NET("wire.request_header_bytes", wire.request_header_bytes, 0, 1000,
          "more in a request's first packet (RETH)"),
      NET("wire.ack_header_bytes", wire.ack_header_bytes, 0, 1000,
          "more in an acknowledgement (AETH)"),
      NET("wire.cable_ns", wire.cable_ns, 0, 100000,
          "one cable one way, with PHY and FEC at both ends"),
      NET("wire.switches_count", wire.switches, 0, 10, "switches on the way"),
      NET("wire.switch_ns", wire.switch_ns, 0, 100000, "one switch, cut-through"),
      NET("wire.buffer_bytes", wire.buffer_bytes, 0, 1e9,
          "queued at an egress until credits or PFC stop the sender"),
      NET("wire.pauses_count", wire.pauses, 0, 1,
          "1: a full egress stops the sender (credits, PFC); 0: it drops what comes"),
      NET("wire.loss_ratio", wire.loss_ratio, 0, 0.5, "share of packets lost"),
      NVLINK("peers_count", peers, 0, 15, "other GPUs of the host that NVLink reaches"),
      NVLINK("rate_gbps", rate_gbps, 1, 1e6, "all links of a GPU, each way"),
      NVLINK("packet_overhead_bytes", packet_overhead_bytes, 0, 256, "header of a packet"),
      NVLINK("link_layer_ratio", link_layer_ratio, 0, 0.5,
             "share of the rate that CRC, credits and acknowledgements take"),
      NVLINK("partial_bytes", partial_bytes, 0, 256,
             "byte enables of a packet that does not fill its sectors"),
      NVLINK("packet_bytes", packet_bytes, 32, 4096, "largest payload of a packet"),
      NVLINK("sector_bytes", sector_bytes, 1, 4096, "payloads are whole sectors"),
      NVLINK("load_round_trip_ns", load_round_trip_ns, 1, 100000,
             "from the L2 to a line in a peer's L2 and back, load"),
      NVLINK("atomic_round_trip_ns", atomic_round_trip_ns, 1, 100000, "the same, atomic"),
      NVLINK("store_ns", store_ns, 1, 100000, "from the L2 until a store is visible in a peer's"),
      NVLINK("load_spread_ns", load_spread_ns, 0, 10000, "half width of a load's variation"),
      NVLINK("sm_store_gbps", sm_store_gbps, 1, 1e6, "16 B stores in order of one SM"),
      NVLINK("sm_load_gbps", sm_load_gbps, 1, 1e6, "16 B loads in order of one SM"),
      NVLINK("sm_scattered_store_ns", sm_scattered_store_ns, 0, 1000,
             "between stores of one SM of which no two share a packet"),
      NVLINK("round_cycles", round_cycles, 0, 100000,
             "SM cycles of a round of a block that copies to a peer, besides its load"),
      NVLINK("warp_cycles", warp_cycles, 0, 1000, "SM cycles of such a round for each warp"),
      NVLINK("chunk_bytes", chunk_bytes, 16, 1 << 20, "one bulk copy, through shared memory"),
      NVLINK("chunk_cycles", chunk_cycles, 0, 100000,
             "SM cycles of a chunk, besides its load and bytes"),
      NVLINK("bulk_cycles", bulk_cycles, 0, 100000,
             "SM cycles of a chunk, until its buffer is free again"),
      NVLINK("bulk_gbps", bulk_gbps, 1, 1e6, "one SM's bulk copies"),
      NVLINK("turn_bytes", turn_bytes, 16, 1e9, "of one SM in its turn at the link"),
      NVLINK("queue_bytes", queue_bytes, 16, 1e9, "stores of one block, waiting for the link"),
      NVLINK("turn_spread_ratio", turn_spread_ratio, 0, 1, "half width of that, by pair of SMs"),
      NVLINK("fence_cycles", fence_cycles, 0, 100000,
             "L2 cycles until a system fence asks for a flush of the way to peers"),
      NVLINK("flush_cycles", flush_cycles, 0, 100000, "L2 cycles of the shortest flush"),
      NVLINK("sm_way_cycles", sm_way_cycles, 0, 10000,
             "half width, in L2 cycles, of an SM's way to there"),
      NVLINK("ack_wait_ratio", ack_wait_ratio, 0, 1,
             "what an acknowledgement waits for the link, to what a store would"),
      NVLINK("busy_line_cycles", busy_line_cycles, 0, 10000,
             "mean L2 cycles that a line's load takes more while SMs read the L2 at full speed"),
      NVLINK("copy_outstanding_bytes", copy_outstanding_bytes, 0, 1e9,
             "of the copy engine, under way, that a system fence waits for"),
      NVLINK("copy_outstanding_spread_bytes", copy_outstanding_spread_bytes, 0, 1e9,
             "half width of that"),
      NVLINK("copy_issue_us", copy_issue_us, 0, 1000, "a copy behind another, besides its bytes"),
      NVLINK("copy_start_us", copy_start_us, 0, 1000, "the first of a row of copies, more"),
      NVLINK("copy_queue_bytes", copy_queue_bytes, 0, 1e9,
             "waiting in front of the link while a copy saturates it"),
  };
  return table;
}

#undef NET
#undef GPU
#undef PCIE
#undef DMA
#undef HOST
#undef NVLINK

}  // namespace

std::span<const Declaration> declarations() {
  static const std::vector<Declaration> list = [] {
    std::vector<Declaration> all;
    for (const Binding& binding : bindings()) all.push_back(binding.declaration);
    return all;
  }();
  return list;
}

ParameterSet load_system(const std::string& path, const std::vector<std::string>& sets) {
  ParameterSet parameters = ParameterSet::load(path, declarations());
  for (const std::string& assignment : sets) parameters.set(assignment);
  for (const Parameter& parameter : parameters.all())
    if ((unit_of(parameter.key) == "count" || unit_of(parameter.key) == "bytes") &&
        parameter.value != std::floor(parameter.value))
      throw InputError(parameter.place, parameter.key + " is not a whole number",
                       "write one without a fraction");
  if (parameters.has("nic.doorbell_ns") && !parameters.has("dma.tags_count"))
    throw InputError(path, "gives a NIC and not its DMA engine",
                     "include configs/devices/connectx7-dma.yaml, or add dma.* parameters");
  return parameters;
}

SystemSpec bind(const ParameterSet& parameters) {
  SystemSpec spec;
  for (const Binding& binding : bindings())
    if (parameters.has(binding.declaration.key))
      binding.field(spec) = parameters.get(binding.declaration.key);
  spec.has_gpu = parameters.has("gpu.sm.clock_ghz");
  spec.has_nic = parameters.has("nic.doorbell_ns");
  if (spec.has_nic) {
    const PcieSpec link = spec.nic_pcie;
    spec.nic_pcie = spec.pcie;
    spec.nic_pcie.generation = link.generation;
    spec.nic_pcie.lanes = link.lanes;
  }
  // Part of the way to the L2 and back runs with the SM's clock: a lock on the SM clock lengthens
  // that part of each L2 cycle in proportion, and the rest stays. DRAM is not on the way.
  const double stretch =
      1 + spec.gpu.l2_follows_sm * (spec.gpu.sm_nominal_clock_ghz / spec.gpu.sm_clock_ghz - 1);
  spec.gpu.l2_clock_ghz /= stretch;
  spec.gpu.hbm_cycles /= stretch;
  // Gigabit a second in files, gigabyte a second in the model.
  spec.host.copy_l1_gb_per_s /= 8;
  spec.host.copy_gb_per_s /= 8;
  return spec;
}

}  // namespace marrow::config
