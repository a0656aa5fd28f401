#include "runtime/stream_threads.h"

#include <paddle/phi/backends/callback_manager.h>
#include <paddle/phi/common/place.h>

#include <atomic>
#include <future>
#include <memory>
#include <mutex>

#include "runtime/jump_table.h"

namespace hp::paddle_adapter {
namespace {

// The members of phi::CallbackManager. Its thread runs the callbacks of a stream; copies have none.
struct Manager {
  phi::stream::Stream* stream;
  std::shared_ptr<::ThreadPool> thread;
  std::mutex mutex;
  std::future<void> last_callback;
};
static_assert(sizeof(Manager) == sizeof(phi::CallbackManager) && alignof(Manager) == alignof(phi::CallbackManager));

// Constructors.
using MakeStream = void(void* self, const phi::Place& place, void* stream);
using MakeManager = void(void* self, phi::stream::Stream* stream);

std::atomic<MakeStream*> make_stream{nullptr};
std::atomic<MakeManager*> make_manager{nullptr};
thread_local bool wraps_stream = false;

// Never destroyed: its thread may run until the process exits.
const Manager& shared_manager() {
  static Manager* const shared = [] {
    void* const memory = ::operator new(sizeof(Manager));
    make_manager.load()(memory, nullptr);
    return static_cast<Manager*>(memory);
  }();
  return *shared;
}

// Of an object around a given stream. Streams that Paddle creates itself have another constructor.
void wrap_stream(void* self, const phi::Place& place, void* stream) {
  struct Scope {
    Scope() { wraps_stream = true; }
    ~Scope() { wraps_stream = false; }
  } scope;
  make_stream.load()(self, place, stream);
}

void make_manager_of(void* self, phi::stream::Stream* stream) {
  if (!wraps_stream) return make_manager.load()(self, stream);
  new (self) Manager{stream, shared_manager().thread, {}, {}};
}

}  // namespace

void share_stream_threads() {
  if (make_manager != nullptr) return;
  const JumpTable table("/libphi_core.so");
  table.replace("_ZN3phi15CallbackManagerC1EPNS_6stream6StreamE", &make_manager_of, make_manager);
  if (make_manager == nullptr) return;
  table.replace("_ZN3phi6stream6StreamC1ERKNS_5PlaceEPv", &wrap_stream, make_stream);
}

}  // namespace hp::paddle_adapter
