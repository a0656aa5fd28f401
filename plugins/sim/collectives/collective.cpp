#include "collectives/collective.h"

#include <algorithm>
#include <cstring>

#include "collectives/reduction.h"
#include "host.h"

namespace sim {

namespace {

constexpr size_t kSmallReduction = 16 << 10;
constexpr size_t kCacheLine = 64;

void copy(char* dst, const char* src, size_t bytes) {
  if (bytes > 0 && dst != src) memcpy(dst, src, bytes);
}

}  // namespace

Collective::Collective(Group& group, CollectiveProgress& progress, const Signature& signature, char* dst,
                       const char* src)
    : group_(group),
      progress_(progress),
      signature_(signature),
      label_(signature.label()),
      dst_(dst),
      src_(src),
      unit_(signature.reduces() ? element_bytes(signature.element) : 1),
      split_(signature.kind == CollectiveKind::reduce ||
             (signature.kind == CollectiveKind::all_reduce && signature.size * unit_ > kSmallReduction)) {
  const size_t ranks = static_cast<size_t>(group.size);
  part_ = kSlotBytes / ranks / kCacheLine * kCacheLine / unit_;
  switch (signature.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce:
      step_size_ = part_ * ranks;
      break;
    case CollectiveKind::broadcast:
    case CollectiveKind::all_gather:
      step_size_ = kSlotBytes;
      break;
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_to_all:
      step_size_ = part_;
      break;
  }
  steps_ = (signature.size + step_size_ - 1) / step_size_;
}

void Collective::run(const std::function<void()>& poll) {
  poll_ = &poll;
  if (group_.failed()) group_.throw_failure();
  group_.wait(label_, [this] {
    (*poll_)();
    return progress_.finished.load(std::memory_order_acquire) + 1 == signature_.number ? 0 : rank_bit(group_.rank);
  });
  first_step_ = progress_.steps;
  post();
  check_signatures();

  const bool reads = signature_.kind != CollectiveKind::reduce || signature_.root == group_.rank;
  const RankSet from = signature_.kind == CollectiveKind::broadcast ? rank_bit(signature_.root) : group_.all_ranks();
  for (uint64_t step = 0; step < steps_; ++step) {
    const uint64_t number = first_step_ + step;
    if (split_) {
      wait(group_.all_ranks(), &Member::written, number + 1);
      reduce_share(range(step), number);
      publish(&Member::reduced, number + 1);
    }
    if (step + 1 < steps_) write_step(step + 1);
    if (reads) {
      wait(from, split_ ? &Member::reduced : &Member::written, number + 1);
      read_slots(range(step), number);
    }
    publish(&Member::read_done, number + 1);
  }
  progress_.steps += steps_;
  progress_.finished.store(signature_.number, std::memory_order_release);
  group_.wake(group_.rank);
}

// --- signatures ------------------------------------------------------------------------------------------------------

void Collective::post() {
  group_.self().signatures[signature_.number % 2] = signature_;
  group_.self().posted.store(signature_.number, std::memory_order_release);
  // Publish the first data together with the signature, to wake the other ranks only once.
  if (steps_ > 0) {
    write_step(0);
  } else {
    group_.wake_others();
  }
}

void Collective::check_signatures() {
  wait(group_.all_ranks(), &Member::posted, signature_.number);
  const auto signature_of = [this](int r) -> const Signature& {
    return group_.member(r).signatures[signature_.number % 2];
  };
  bool agreed = true;
  for (int r = 0; r < group_.size; ++r) {
    const Signature& other = signature_of(r);
    agreed &= other.matches(signature_);
    if (other.number == signature_.number) continue;
    group_.fail(HP_ERROR,
                label_ + ": rank " + std::to_string(r) + " did not run this call and went on to " + other.text());
    group_.throw_failure();
  }
  if (agreed) return;
  // The message is the same on every rank.
  std::string text;
  RankSet named = 0;
  for (int r = 0; r < group_.size; ++r) {
    if (named & rank_bit(r)) continue;
    RankSet matching = 0;
    for (int other = r; other < group_.size; ++other)
      if (signature_of(other).matches(signature_of(r))) matching |= rank_bit(other);
    text += (named == 0 ? "" : ", ") + group_.describe(matching) + (matching == rank_bit(r) ? " calls " : " call ") +
            signature_of(r).text();
    named |= matching;
  }
  group_.fail(HP_INVALID_ARGUMENT, signature_of(0).label() + ": " + text);
  group_.throw_failure();
}

void Collective::wait(RankSet among, std::atomic<uint64_t> Member::* counter, uint64_t target) {
  group_.wait(label_, [&] {
    (*poll_)();
    return group_.select_unfinished(
        among, [&](const Member& m) { return (m.*counter).load(std::memory_order_acquire) >= target; });
  });
}

void Collective::publish(std::atomic<uint64_t> Member::* counter, uint64_t value) {
  (group_.self().*counter).store(value, std::memory_order_release);
  group_.wake_others();
}

// --- data ------------------------------------------------------------------------------------------------------------

Collective::Range Collective::range(uint64_t step) const {
  const size_t first = step * step_size_;
  return {first, std::min(step_size_, signature_.size - first)};
}

Collective::Range Collective::share(const Range& range, int of) const {
  const size_t ranks = static_cast<size_t>(group_.size), line = kCacheLine / unit_;
  const size_t size = ((range.size + ranks - 1) / ranks + line - 1) / line * line;
  const size_t begin = std::min(size * static_cast<size_t>(of), range.size), end = std::min(begin + size, range.size);
  return {begin, end - begin};
}

void Collective::write_step(uint64_t step) {
  const uint64_t number = first_step_ + step;
  // The slot is reused every two steps: wait until all ranks have read it.
  if (number >= 2) wait(group_.all_ranks(), &Member::read_done, number - 1);
  write_slot(range(step), group_.slot(group_.rank, number));
  publish(&Member::written, number + 1);
}

void Collective::write_slot(const Range& range, char* slot) const {
  const char* const from = src_ + range.first * unit_;
  switch (signature_.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce: {
      const Range own = split_ ? share(range, group_.rank) : Range{0, 0};  // no other rank reads it
      const size_t rest = own.first + own.size;
      copy(slot, from, own.first * unit_);
      copy(slot + rest * unit_, from + rest * unit_, (range.size - rest) * unit_);
      break;
    }
    case CollectiveKind::broadcast:
      if (signature_.root == group_.rank) copy(slot, from, range.size);
      break;
    case CollectiveKind::all_gather:
      copy(slot, from, range.size);
      break;
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_to_all:
      for (size_t r = 0; r < static_cast<size_t>(group_.size); ++r)
        if (r != static_cast<size_t>(group_.rank))
          copy(slot + r * part_ * unit_, from + r * signature_.size * unit_, range.size * unit_);
      break;
  }
}

void Collective::reduce(const Range& range, uint64_t number, size_t slot_offset, const char* own, char* out,
                        char* copy) const {
  if (range.size == 0) return;
  const char* sources[kMaxRanks];
  for (int r = 0; r < group_.size; ++r)
    sources[r] = r == group_.rank ? own : group_.slot(r, number) + slot_offset * unit_;
  reduce_elements(signature_.element, signature_.reduction, sources, group_.size, range.size, out, copy);
}

void Collective::reduce_share(const Range& range, uint64_t number) const {
  const Range own = share(range, group_.rank);
  const size_t offset = (range.first + own.first) * unit_;
  const bool needs_result = signature_.kind == CollectiveKind::all_reduce || signature_.root == group_.rank;
  reduce(own, number, own.first, src_ + offset, needs_result ? dst_ + offset : nullptr,
         group_.slot(group_.rank, number) + own.first * unit_);
}

void Collective::read_slots(const Range& range, uint64_t number) const {
  char* const to = dst_ + range.first * unit_;
  const size_t rank = static_cast<size_t>(group_.rank), size = signature_.size * unit_;
  if (signature_.kind == CollectiveKind::reduce_scatter)
    return reduce(range, number, rank * part_, src_ + rank * size + range.first * unit_, to, nullptr);
  if (signature_.kind == CollectiveKind::all_reduce && !split_)
    return reduce(range, number, 0, src_ + range.first * unit_, to, nullptr);
  for (int r = 0; r < group_.size; ++r) {
    const char* const slot = group_.slot(r, number);
    const size_t place = static_cast<size_t>(r) * size;
    switch (signature_.kind) {
      case CollectiveKind::all_reduce:
      case CollectiveKind::reduce: {
        const Range part = share(range, r);
        if (r != group_.rank) copy(to + part.first * unit_, slot + part.first * unit_, part.size * unit_);
        break;
      }
      case CollectiveKind::broadcast:
        if (r == signature_.root && r != group_.rank) copy(to, slot, range.size);
        break;
      case CollectiveKind::all_gather:
        copy(to + place, r == group_.rank ? src_ + range.first : slot, range.size);
        break;
      case CollectiveKind::all_to_all:
        copy(to + place, r == group_.rank ? src_ + place + range.first : slot + rank * part_, range.size);
        break;
      case CollectiveKind::reduce_scatter:
        break;
    }
  }
}

}  // namespace sim
