// Memory that was freed while work on other streams still uses it. Shared by the device and the pinned allocator.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "runtime.h"

namespace hp {

// The streams that use one block besides its own. Gives its events back when it goes.
class StreamUses {
 public:
  StreamUses() = default;
  StreamUses(const StreamUses&) = delete;
  ~StreamUses();

  void add(Stream& stream);

  // The functions below call the plug-in: never with a lock held.

  // Marks the present end of each stream. A stream on which no event can be recorded is asked itself later.
  void record() noexcept;
  // Whether all of that work is done. `busy` are streams known to have unfinished earlier work, which are not asked
  // again; a stream that turns out to be busy is added.
  bool done(std::vector<Stream*>& busy);
  void wait();

 private:
  struct Use {
    Stream* stream;
    Event* event;
  };
  std::vector<Use> uses_;
};

// Freed blocks that wait for other streams. The list is guarded by its allocator's lock, the events are asked outside
// of it: a thread takes a copy of the list, asks, and retires under the lock what is done. Entries stay on the list
// meanwhile, so that several threads can do this at once and none believes that nothing is pending; the shared pointers
// keep the events alive while anybody asks them.
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

  // Outside of the lock: leaves in `entries` what is done, asking (wait = false) or waiting for all.
  static void keep_done(std::vector<Entry>& entries, bool wait) {
    std::vector<Stream*> busy;
    size_t kept = 0;
    for (Entry& entry : entries) {
      if (wait) entry.uses->wait();
      if (wait || entry.uses->done(busy)) std::swap(entries[kept++], entry);
    }
    entries.resize(kept);
  }

  // Takes the entries of `done` that are still on the list off it, and hands each block to `release`.
  template <class Release>
  void retire(const std::vector<Entry>& done, Release release) {
    if (done.empty()) return;
    std::vector<const StreamUses*> finished;
    for (const Entry& entry : done) finished.push_back(entry.uses.get());
    std::sort(finished.begin(), finished.end());
    size_t kept = 0;
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (std::binary_search(finished.begin(), finished.end(), entries_[i].uses.get())) {
        release(entries_[i].block);
      } else {
        std::swap(entries_[kept++], entries_[i]);
      }
    }
    entries_.resize(kept);
  }

 private:
  std::vector<Entry> entries_;
};

}  // namespace hp
