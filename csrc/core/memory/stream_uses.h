// Tracks memory that was freed while other streams still use it. Used by the device and the pinned allocator.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "core/runtime/runtime.h"

namespace hp {

// The streams, other than its own, that use one block. Owns the events recorded on them.
class StreamUses {
 public:
  StreamUses() = default;
  StreamUses(const StreamUses&) = delete;
  ~StreamUses();

  void add(Stream& stream);

  // The functions below call the plug-in: hold no lock.

  // Records an event on each stream. If that fails, done() and wait() use the stream itself.
  void record() noexcept;
  // Whether all recorded work is done. `busy` holds streams known to have unfinished work: they are not queried again,
  // and streams found to be busy are added.
  bool done(std::vector<Stream*>& busy);
  void wait();

 private:
  struct Use {
    Stream* stream;
    Event* event;
  };
  std::vector<Use> uses_;
};

// Freed blocks that wait for other streams. The allocator's lock guards the list; events are queried without it: a
// thread copies the list, queries the copy, then retires the finished entries under the lock. Entries stay on the list
// meanwhile, so several threads can do this at once and none sees an empty list too early. The shared pointers keep
// the events valid during the queries.
template <class Block>
class PendingFrees {
 public:
  struct Entry {
    Block* block;
    std::shared_ptr<StreamUses> uses;
  };

  void add(Block* block, std::shared_ptr<StreamUses> uses) { entries_.push_back({block, std::move(uses)}); }
  bool empty() const { return entries_.empty(); }
  std::vector<Entry> copy() const { return entries_; }

  // Without the lock: removes unfinished entries from `entries`, or waits for all of them if `wait` is set.
  static void keep_done(std::vector<Entry>& entries, bool wait) {
    std::vector<Stream*> busy;
    size_t count = 0;
    for (Entry& entry : entries) {
      if (wait) entry.uses->wait();
      if (wait || entry.uses->done(busy)) std::swap(entries[count++], entry);
    }
    entries.resize(count);
  }

  // Removes the entries of `done` that are still on the list and calls `release` on each block.
  template <class Release>
  void retire(const std::vector<Entry>& done, Release release) {
    if (done.empty()) return;
    std::vector<const StreamUses*> finished;
    for (const Entry& entry : done) finished.push_back(entry.uses.get());
    std::sort(finished.begin(), finished.end());
    size_t remaining = 0;
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (std::binary_search(finished.begin(), finished.end(), entries_[i].uses.get())) {
        release(entries_[i].block);
      } else {
        std::swap(entries_[remaining++], entries_[i]);
      }
    }
    entries_.resize(remaining);
  }

 private:
  std::vector<Entry> entries_;
};

}  // namespace hp
