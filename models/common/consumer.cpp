#include "models/common/consumer.h"

#include <algorithm>

namespace marrow {

Consumer::Consumer(sc_core::sc_module_name name)
    : sc_module(name), wakes_("wakes", [this](Wake& wake, Ps at_ps) { on_wake(wake, at_ps); }) {}

void Consumer::start(const Program* program, const QueueLayout* layout, std::uint32_t queues,
                     JourneyBook* book,
                     std::function<std::uint64_t(std::uint32_t, std::uint64_t)> payload_bytes) {
  program_ = program;
  layout_ = layout;
  queues_ = queues;
  book_ = book;
  payload_bytes_ = std::move(payload_bytes);
  head_.assign(queues, 0);
  waiting_.clear();
  busy_ = false;
  ++generation_;
  const std::uint32_t region = program->words[program->consumer.announcement].region;
  watch(layout->region_begin(region), layout->region_end(region));
  period_ps_ = std::max<Ps>(poll_period_ps(layout->region_begin(region)), 1);
  idle_from(now_ps(), 0);
}

bool Consumer::pending(std::uint32_t queue, std::uint64_t& next) const {
  const ConsumerProgram& c = program_->consumer;
  const Word& word = program_->words[c.announcement];
  const std::uint64_t value =
      load(layout_->address(*program_, c.announcement, queue, head_[queue]), word.bytes);
  if (c.per_entry) {
    next = head_[queue] + 1;
    return value == next;
  }
  next = value;
  return value > head_[queue];
}

void Consumer::announced(std::uint64_t address, Ps at_ps) {
  const ConsumerProgram& c = program_->consumer;
  const Word& word = program_->words[c.announcement];
  const std::uint64_t offset = address - layout_->region_begin(word.region);
  const auto queue =
      static_cast<std::uint32_t>(offset / program_->regions[word.region].stride_bytes);
  const std::uint64_t value = load(address, word.bytes);
  if (c.per_entry) {
    // Only the announcement word of an entry counts, not the entry's other words.
    if (value == 0 || address != layout_->address(*program_, c.announcement, queue, value - 1))
      return;
    book_->arrived_one(queue, value - 1, at_ps);
  } else {
    if (address != layout_->address(*program_, c.announcement, queue, 0)) return;
    book_->arrived(queue, value, at_ps);
  }
  std::uint64_t next = 0;
  if (!pending(queue, next)) return;
  waiting_.insert(queue);
  if (!busy_) look_for(queue, at_ps + notice_ps());
}

Ps Consumer::look_at(std::uint32_t queue, Ps not_before_ps) const {
  const Ps first =
      anchor_ps_ + static_cast<Ps>((queue + queues_ - anchor_queue_) % queues_) * period_ps_;
  if (not_before_ps <= first) return first;
  const Ps cycle = period_ps_ * queues_;
  return first + (not_before_ps - first + cycle - 1) / cycle * cycle;
}

void Consumer::look_for(std::uint32_t queue, Ps not_before_ps) {
  wakes_.push(look_at(queue, std::max(not_before_ps, now_ps())),
              {Wake::Kind::kLook, queue, generation_, 0, 0});
}

void Consumer::idle_from(Ps look_ps, std::uint32_t queue) {
  anchor_ps_ = look_ps;
  anchor_queue_ = queue;
}

void Consumer::on_wake(Wake& wake, Ps at_ps) {
  switch (wake.kind) {
    case Wake::Kind::kComplete: {
      book_->completed(wake.queue, wake.value - 1, wake.visible_ps);
      ++completed_;
      return;
    }
    case Wake::Kind::kIdle: {
      if (wake.generation != generation_) return;
      busy_ = false;
      // The first queue in turn that has something waiting; it looks at the others in between.
      if (waiting_.empty()) return;
      auto it = waiting_.lower_bound(anchor_queue_);
      if (it == waiting_.end()) it = waiting_.begin();
      look_for(*it, at_ps);
      return;
    }
    case Wake::Kind::kLook: {
      if (wake.generation != generation_ || busy_) return;
      std::uint64_t next = 0;
      if (!pending(wake.queue, next)) return;
      const std::uint64_t address =
          layout_->address(*program_, program_->consumer.announcement, wake.queue, 0);
      looks_ += static_cast<std::uint64_t>((at_ps - anchor_ps_) / period_ps_) + 1;
      serve(wake.queue, next, at_ps + poll_return_ps(address));
      return;
    }
  }
}

Ps Consumer::look_under_way_ps(Ps at_ps, Ps ahead_ps, std::uint64_t address) const {
  const Ps first_issue_ps = anchor_ps_ - ahead_ps;
  if (busy_ || at_ps < first_issue_ps) return -1;
  const Ps looks = (at_ps - first_issue_ps) / period_ps_;
  const auto queue =
      static_cast<std::uint32_t>((anchor_queue_ + static_cast<std::uint64_t>(looks)) % queues_);
  if (address != 0 &&
      address != layout_->address(*program_, program_->consumer.announcement, queue, 0))
    return -1;
  return anchor_ps_ + looks * period_ps_;
}

void Consumer::serve(std::uint32_t queue, std::uint64_t next, Ps from_ps) {
  const ConsumerProgram& c = program_->consumer;
  const Word& completion = program_->words[c.completion];
  busy_ = true;
  ++notices_;
  ++generation_;
  Ps at_ps = from_ps + cycles_ps(c.notice_cycles);
  while (head_[queue] < next) {
    // The longest group that what is left fills; its rows are used entry by entry.
    const std::uint64_t left = next - head_[queue];
    const ConsumerProgram::Group* group = &c.groups.back();
    for (const auto& candidate : c.groups)
      if (candidate.read_cycles.size() <= left) {
        group = &candidate;
        break;
      }
    const std::size_t rows = group->read_cycles.size();
    for (std::size_t k = 0; (k < rows || group->and_more) && head_[queue] < next; ++k) {
      const std::size_t row = std::min(k, rows - 1);
      const std::uint64_t index = head_[queue]++;
      Flight& flight = book_->flight(queue, index);
      flight.started_ps = at_ps;
      at_ps += cycles_ps(group->read_cycles[row]) + entry_read_ps();
      flight.fetched_ps = at_ps;
      if (c.copies_payload) at_ps += copy_ps(payload_bytes_(queue, index));
      at_ps += completion_fence_ps() + cycles_ps(group->done_cycles[row]);
      const Ps visible_ps = store_completion(layout_->address(*program_, c.completion, queue, 0),
                                             head_[queue], completion.bytes, at_ps);
      wakes_.push(std::max(visible_ps, now_ps()),
                  {Wake::Kind::kComplete, queue, 0, head_[queue], visible_ps});
    }
  }
  if (observer_ && observer_->wants_activity())
    observer_->on_activity({name(), "entries", from_ps, at_ps});
  busy_ps_ += at_ps - from_ps;
  waiting_.erase(queue);
  std::uint64_t more = 0;
  if (pending(queue, more)) waiting_.insert(queue);
  const Ps idle_ps = at_ps + cycles_ps(c.after_cycles) +
                     poll_return_ps(layout_->address(*program_, c.announcement, queue, 0));
  idle_from(idle_ps, (queue + 1) % queues_);
  wakes_.push(idle_ps, {Wake::Kind::kIdle, queue, generation_, 0, 0});
}

void Consumer::report(CounterSink& sink) const {
  sink.add(name(), "polls", static_cast<double>(looks_), "count");
  sink.add(name(), "notices", static_cast<double>(notices_), "count");
  sink.add(name(), "entries", static_cast<double>(completed_), "count");
  sink.add(name(), "busy", static_cast<double>(busy_ps_) / 1000, "ns");
}

}  // namespace marrow
