// Streams and events. Handles are boxed: Paddle's may be NULL, which Hardpoint takes for the default stream.
#include <atomic>

#include "bridge.h"

namespace bridge {
namespace {

struct StreamBox {
  paddle::Stream handle = nullptr;
};

struct EventBox {
  paddle::Event handle = nullptr;
  int device = 0;
  // Hardpoint treats an event as complete before its first record; the plug-in is not called then.
  std::atomic<bool> recorded{false};
};

StreamBox* box(HpStream stream) { return reinterpret_cast<StreamBox*>(stream); }
EventBox* box(HpEvent event) { return reinterpret_cast<EventBox*>(event); }

// Like Paddle, treats every status except C_SUCCESS as "still running": synchronize reports a failure.
template <class Query>
HpStatus query(int device, const char* callback, const Query& body) {
  paddle::Status answer = paddle::kSuccess;
  const HpStatus status = call(device, callback, [&](paddle::Device d) {
    answer = body(d);
    return paddle::kSuccess;
  });
  if (status != HP_OK) return status;
  return answer == paddle::kSuccess ? HP_OK : HP_NOT_READY;
}

HpStatus stream_create(int device, int, HpStream* stream) {
  auto made = std::make_unique<StreamBox>();
  const HpStatus status =
      call(device, "create_stream", [&](paddle::Device d) { return plugin->table->create_stream(d, &made->handle); });
  if (status == HP_OK) *stream = reinterpret_cast<HpStream>(made.release());
  return status;
}

HpStatus stream_destroy(int device, HpStream stream) {
  const std::unique_ptr<StreamBox> owned(box(stream));
  return call(device, "destroy_stream",
              [&](paddle::Device d) { return plugin->table->destroy_stream(d, owned->handle); });
}

// Paddle plug-ins have no timed wait.
HpStatus stream_synchronize(int device, HpStream stream, uint32_t) {
  return call(device, "synchronize_stream",
              [&](paddle::Device d) { return synchronize(d, native_stream(device, stream)); });
}

HpStatus stream_query(int device, HpStream stream) {
  return query(device, "query_stream",
               [&](paddle::Device d) { return plugin->table->query_stream(d, native_stream(device, stream)); });
}

HpStatus event_create(int device, int, HpEvent* event) {
  auto made = std::make_unique<EventBox>();
  made->device = device;
  const HpStatus status =
      call(device, "create_event", [&](paddle::Device d) { return plugin->table->create_event(d, &made->handle); });
  if (status == HP_OK) *event = reinterpret_cast<HpEvent>(made.release());
  return status;
}

HpStatus event_destroy(int device, HpEvent event) {
  const std::unique_ptr<EventBox> owned(box(event));
  return call(device, "destroy_event",
              [&](paddle::Device d) { return plugin->table->destroy_event(d, owned->handle); });
}

HpStatus event_record(int device, HpEvent event, HpStream stream) {
  const HpStatus status = call(device, "record_event", [&](paddle::Device d) {
    return plugin->table->record_event(d, native_stream(device, stream), box(event)->handle);
  });
  if (status == HP_OK) box(event)->recorded = true;
  return status;
}

HpStatus event_synchronize(int, HpEvent event, uint32_t) {
  if (!box(event)->recorded) return HP_OK;
  return call(box(event)->device, "synchronize_event",
              [&](paddle::Device d) { return plugin->table->synchronize_event(d, box(event)->handle); });
}

HpStatus event_wait(int device, HpEvent event, HpStream stream) {
  if (!box(event)->recorded) return HP_OK;
  if (plugin->table->stream_wait_event == nullptr) return event_synchronize(device, event, 0);
  return call(device, "stream_wait_event", [&](paddle::Device d) {
    return plugin->table->stream_wait_event(d, native_stream(device, stream), box(event)->handle);
  });
}

HpStatus event_query(int device, HpEvent event) {
  if (!box(event)->recorded) return HP_OK;
  if (plugin->table->query_event == nullptr) return event_synchronize(device, event, 0);
  return query(box(event)->device, "query_event",
               [&](paddle::Device d) { return plugin->table->query_event(d, box(event)->handle); });
}

}  // namespace

paddle::Stream native_stream(int device, HpStream stream) {
  return stream != nullptr ? box(stream)->handle : plugin->devices[device]->default_stream;
}

paddle::Status synchronize(paddle::Device device, paddle::Stream stream) {
  const paddle::Interface& table = *plugin->table;
  if (!plugin->has_streams()) return paddle::kSuccess;
  return table.synchronize_stream != nullptr ? table.synchronize_stream(device, stream)
                                             : table.synchronize_device(device);
}

const HpStreams* streams_table() {
  if (!plugin->has_streams()) return nullptr;
  static HpStreams table{};
  table.struct_size = sizeof(table);
  table.create = stream_create;
  table.destroy = stream_destroy;
  table.synchronize = stream_synchronize;
  table.query = plugin->table->query_stream != nullptr ? stream_query : nullptr;
  return &table;
}

const HpEvents* events_table() {
  if (!plugin->has_streams()) return nullptr;
  static HpEvents table{};
  table.struct_size = sizeof(table);
  table.create = event_create;
  table.destroy = event_destroy;
  table.record = event_record;
  table.wait = event_wait;
  table.synchronize = event_synchronize;
  table.query = event_query;
  return &table;
}

}  // namespace bridge
