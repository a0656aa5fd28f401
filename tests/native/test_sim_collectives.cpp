// sim's collectives, sends and receives: values, between two and four processes.
#include <algorithm>
#include <cmath>
#include <memory>

#include "sim_ranks.h"

namespace {

using Bytes = std::vector<unsigned char>;

constexpr HpElement kElements[] = {HP_UINT8,   HP_INT8,     HP_INT16,   HP_INT32,  HP_INT64,
                                   HP_FLOAT16, HP_BFLOAT16, HP_FLOAT32, HP_FLOAT64};
constexpr HpReduction kReductions[] = {HP_SUM, HP_PRODUCT, HP_MIN, HP_MAX, HP_MEAN};
constexpr size_t kWidths[] = {1, 1, 2, 4, 8, 2, 2, 4, 8};

size_t width(HpElement element) { return kWidths[element]; }
bool is_float(HpElement element) { return element >= HP_FLOAT16; }

// The same on every rank, so that each knows what the others have.
uint64_t noise(uint64_t seed, int rank, size_t index) {
  uint64_t x = seed * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(rank) * 0xd1342543de82ef95u + index;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
Bytes noise_bytes(uint64_t seed, int rank, size_t count) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; i += 8) {
    const uint64_t next = noise(seed, rank, i);
    memcpy(&bytes[i], &next, std::min<size_t>(8, count - i));
  }
  return bytes;
}

// --- numbers: floats as doubles, integers with their bits cut to the width -----------------------------------------

struct Number {
  double real = 0;
  int64_t whole = 0;
};

int64_t wrapped(HpElement element, uint64_t bits) {
  switch (element) {
    case HP_UINT8:
      return static_cast<uint8_t>(bits);
    case HP_INT8:
      return static_cast<int8_t>(bits);
    case HP_INT16:
      return static_cast<int16_t>(bits);
    case HP_INT32:
      return static_cast<int32_t>(bits);
    default:
      return static_cast<int64_t>(bits);
  }
}

// Quarters from -2 to 2: sums are exact in every format.
Number input(HpElement element, uint64_t seed, int rank, size_t index) {
  const uint64_t x = noise(seed, rank, index);
  return {(static_cast<double>(x % 17) - 8) / 4, wrapped(element, x)};
}

void encode(HpElement element, const Number& number, unsigned char* to) {
  const float single = static_cast<float>(number.real);
  uint32_t bits;
  memcpy(&bits, &single, sizeof bits);
  uint16_t half = static_cast<uint16_t>(bits >> 16);  // bfloat16, exact for these numbers
  if (element == HP_FLOAT16) {
    int exponent;
    const double fraction = std::frexp(std::fabs(number.real), &exponent);
    const uint16_t magnitude =
        number.real == 0 ? 0 : static_cast<uint16_t>(((exponent + 14) << 10) + (fraction * 2 - 1) * 1024);
    half = static_cast<uint16_t>(magnitude | (std::signbit(number.real) ? 0x8000 : 0));
  }
  const void* from = &number.whole;
  if (element == HP_FLOAT16 || element == HP_BFLOAT16) from = &half;
  if (element == HP_FLOAT32) from = &single;
  if (element == HP_FLOAT64) from = &number.real;
  memcpy(to, from, width(element));
}

Number decode(HpElement element, const unsigned char* from) {
  Number number;
  uint64_t bits = 0;
  memcpy(&bits, from, width(element));
  number.whole = wrapped(element, bits);
  if (element == HP_FLOAT16) {
    const int exponent = static_cast<int>(bits >> 10 & 31);
    const double fraction = static_cast<double>(bits & 1023) / 1024;
    number.real = std::ldexp(exponent == 0 ? fraction : 1 + fraction, exponent == 0 ? -14 : exponent - 15);
    if (bits >> 15) number.real = -number.real;
  } else if (element == HP_BFLOAT16 || element == HP_FLOAT32) {
    const uint32_t wide = static_cast<uint32_t>(element == HP_FLOAT32 ? bits : bits << 16);
    float single;
    memcpy(&single, &wide, sizeof single);
    number.real = static_cast<double>(single);
  } else if (element == HP_FLOAT64) {
    memcpy(&number.real, &bits, sizeof bits);
  }
  return number;
}

Number expected(HpElement element, HpReduction reduction, uint64_t seed, int size, size_t index) {
  Number result = input(element, seed, 0, index);
  for (int rank = 1; rank < size; ++rank) {
    const Number next = input(element, seed, rank, index);
    const uint64_t a = static_cast<uint64_t>(result.whole), b = static_cast<uint64_t>(next.whole);
    switch (reduction) {
      case HP_PRODUCT:
        result = {result.real * next.real, wrapped(element, a * b)};
        break;
      case HP_MIN:
        result = {std::fmin(result.real, next.real), std::min(result.whole, next.whole)};
        break;
      case HP_MAX:
        result = {std::fmax(result.real, next.real), std::max(result.whole, next.whole)};
        break;
      default:
        result = {result.real + next.real, wrapped(element, a + b)};
    }
  }
  if (reduction == HP_MEAN) result = {result.real / size, result.whole / size};
  return result;
}

bool close(HpElement element, const Number& got, const Number& want) {
  if (!is_float(element)) return got.whole == want.whole;
  const double precision = element == HP_BFLOAT16 ? 0x1p-8 : element == HP_FLOAT16 ? 0x1p-11 : 0x1p-23;
  return std::fabs(got.real - want.real) <= precision * std::fabs(want.real);
}

// --- memory --------------------------------------------------------------------------------------------------------

// Device memory with a content; 0 bytes too.
struct Data : Memory {
  explicit Data(const Bytes& content) : Memory(content.size() + 1) {
    Bytes padded = content;
    padded.push_back(0);
    write(padded.data());
  }
  explicit Data(size_t size) : Data(Bytes(size, 0xcd)) {}
  Bytes content() {
    Bytes read_back(bytes);
    read(read_back.data());
    read_back.pop_back();
    return read_back;
  }
};

Bytes inputs(HpElement element, uint64_t seed, int rank, size_t count, size_t first = 0) {
  Bytes bytes(count * width(element));
  for (size_t i = 0; i < count; ++i) encode(element, input(element, seed, rank, first + i), &bytes[i * width(element)]);
  return bytes;
}
void check_reduced(const Bytes& got, HpElement element, HpReduction reduction, uint64_t seed, int size,
                   size_t first = 0) {
  for (size_t i = 0; i < got.size() / width(element); ++i) {
    const Number number = decode(element, &got[i * width(element)]);
    const Number want = expected(element, reduction, seed, size, first + i);
    if (!close(element, number, want))
      check::fail(__FILE__, __LINE__,
                  "element " + std::to_string(element) + ", reduction " + std::to_string(reduction) + ", place " +
                      std::to_string(first + i) + " of " + std::to_string(got.size() / width(element)) + ": got " +
                      std::to_string(number.real) + " / " + std::to_string(number.whole) + ", expected " +
                      std::to_string(want.real) + " / " + std::to_string(want.whole));
  }
}

void check_reductions(Rank& self, HpElement element, HpReduction reduction, size_t count) {
  const uint64_t seed = element * 100u + reduction + count;
  const size_t rank = static_cast<size_t>(self.rank), size = static_cast<size_t>(self.size);
  const size_t part = count * width(element);
  Data src(inputs(element, seed, self.rank, count)), dst(part), place(inputs(element, seed, self.rank, count));
  OK(self.table.all_reduce(self.communicator, dst.ptr, src.ptr, count, element, reduction, nullptr));
  OK(self.table.all_reduce(self.communicator, place.ptr, place.ptr, count, element, reduction, nullptr));
  check_reduced(dst.content(), element, reduction, seed, self.size);
  CHECK(place.content() == dst.content());

  const int root = self.size - 1;
  Data reduced(part);
  OK(self.table.reduce(self.communicator, self.rank == root ? reduced.ptr : nullptr, src.ptr, count, element, reduction,
                       root, nullptr));
  if (self.rank == root) CHECK(reduced.content() == dst.content());
  CHECK(src.content() == inputs(element, seed, self.rank, count));

  // The whole is `size` parts; the own part is taken in place as well.
  Data whole(inputs(element, seed, self.rank, count * size)), scattered(part);
  char* const own = static_cast<char*>(whole.ptr) + rank * part;
  OK(self.table.reduce_scatter(self.communicator, scattered.ptr, whole.ptr, count, element, reduction, nullptr));
  OK(self.table.reduce_scatter(self.communicator, own, whole.ptr, count, element, reduction, nullptr));
  check_reduced(scattered.content(), element, reduction, seed, self.size, rank * count);
  const Bytes after = whole.content();
  CHECK(std::equal(after.begin() + static_cast<ptrdiff_t>(rank * part),
                   after.begin() + static_cast<ptrdiff_t>((rank + 1) * part), scattered.content().begin()));
}

Bytes part_of(const Bytes& whole, int which, size_t bytes) {
  const auto begin = whole.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(which) * bytes);
  return Bytes(begin, begin + static_cast<ptrdiff_t>(bytes));
}

void check_movements(Rank& self, size_t bytes) {
  const size_t size = static_cast<size_t>(self.size);
  for (int root = 0; root < self.size; ++root) {
    Data data(noise_bytes(bytes, self.rank, bytes));
    OK(self.table.broadcast(self.communicator, data.ptr, bytes, root, nullptr));
    CHECK(data.content() == noise_bytes(bytes, root, bytes));
  }

  Data own(noise_bytes(bytes, self.rank, bytes)), gathered(bytes * size), in_place(bytes * size);
  char* const mine = static_cast<char*>(in_place.ptr) + static_cast<size_t>(self.rank) * bytes;
  OK(self.table.all_gather(self.communicator, gathered.ptr, own.ptr, bytes, nullptr));
  if (bytes > 0) OK(sim().copy_on_device(0, mine, own.ptr, bytes, nullptr));
  OK(self.table.all_gather(self.communicator, in_place.ptr, mine, bytes, nullptr));
  for (int rank = 0; rank < self.size; ++rank)
    CHECK(part_of(gathered.content(), rank, bytes) == noise_bytes(bytes, rank, bytes));
  CHECK(in_place.content() == gathered.content());

  const Bytes parts = noise_bytes(bytes + 1, self.rank, bytes * size);
  Data sent(parts), exchanged(bytes * size);
  OK(self.table.all_to_all(self.communicator, exchanged.ptr, sent.ptr, bytes, nullptr));
  CHECK(sent.content() == parts);
  OK(self.table.all_to_all(self.communicator, sent.ptr, sent.ptr, bytes, nullptr));
  for (int rank = 0; rank < self.size; ++rank)
    CHECK(part_of(exchanged.content(), rank, bytes) ==
          part_of(noise_bytes(bytes + 1, rank, bytes * size), self.rank, bytes));
  CHECK(sent.content() == exchanged.content());
}

}  // namespace

// --- collectives ---------------------------------------------------------------------------------------------------

CHILD(reductions) {
  Rank self;
  for (HpElement element : kElements)
    for (HpReduction reduction : kReductions) {
      for (size_t count : {0, 1, 37}) check_reductions(self, element, reduction, count);
      // Enough to be shared out; a sanitizer would take long over all of them.
      if (!kSanitized || reduction == HP_SUM) check_reductions(self, element, reduction, 20000 / width(element));
    }
}
TEST(every_element_and_reduction_of_two) { check_ranks("reductions", 2); }
TEST(every_element_and_reduction_of_four) { check_ranks("reductions", 4); }
// Three do not divide a slot.
TEST(every_element_and_reduction_of_three) { check_ranks("reductions", 3); }
TEST(a_group_of_one) {
  check_ranks("reductions", 1);
  check_ranks("movements", 1);
}

CHILD(many_steps) {
  Rank self;
  check_reductions(self, HP_FLOAT32, HP_SUM, 700001);
  check_reductions(self, HP_INT8, HP_SUM, 1100003);
  check_reductions(self, HP_FLOAT64, HP_MEAN, 131072 + 1);
}
TEST(reductions_of_many_steps) {
  check_ranks("many_steps", 2);
  if (!kSanitized) check_ranks("many_steps", 3);
}

CHILD(precision) {
  Rank self;
  // One by one, the ones would be lost at this size in float16.
  const Number number = {self.rank == 0 ? 2048.0 : 1.0, 0};
  Bytes bytes(2 * 9000);
  for (size_t i = 0; i < bytes.size(); i += 2) encode(HP_FLOAT16, number, &bytes[i]);
  Data data(bytes);
  OK(self.table.all_reduce(self.communicator, data.ptr, data.ptr, 9000, HP_FLOAT16, HP_SUM, nullptr));
  const Bytes sums = data.content();
  for (size_t i = 0; i < sums.size(); i += 2) CHECK(decode(HP_FLOAT16, &sums[i]).real == 2050);

  // NaN and infinity.
  const float inf = INFINITY, nan = NAN;
  const float special[] = {self.rank == 1 ? nan : 1, self.rank == 2 ? inf : 1, self.rank == 0 ? nan : inf, -inf};
  Bytes raw(sizeof special);
  memcpy(raw.data(), special, sizeof special);
  for (HpReduction reduction : {HP_MIN, HP_MAX, HP_SUM}) {
    Data values(raw);
    OK(self.table.all_reduce(self.communicator, values.ptr, values.ptr, 4, HP_FLOAT32, reduction, nullptr));
    float got[4];
    memcpy(got, values.content().data(), sizeof got);
    CHECK(std::isnan(got[0]) && std::isnan(got[2]) && got[3] == -inf);
    CHECK(got[1] == (reduction == HP_MIN ? 1 : inf));
  }

  // Sums that do round: every rank has the same bits.
  for (size_t count : {100, 300000}) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(noise(count, self.rank, i)) * 1e-7f;
    Bytes content(count * 4);
    memcpy(content.data(), values.data(), content.size());
    Data summed(content), all(content.size() * 3);
    OK(self.table.all_reduce(self.communicator, summed.ptr, summed.ptr, count, HP_FLOAT32, HP_SUM, nullptr));
    OK(self.table.all_gather(self.communicator, all.ptr, summed.ptr, content.size(), nullptr));
    for (int rank = 0; rank < 3; ++rank) CHECK(part_of(all.content(), rank, content.size()) == summed.content());
  }
}
TEST(precision_and_equal_bits) { check_ranks("precision", 3); }

CHILD(movements) {
  Rank self;
  for (size_t bytes : {0, 1, 63, 4097, 131072, 2300001}) check_movements(self, bytes);
}
TEST(broadcast_all_gather_and_all_to_all) {
  check_ranks("movements", 2);
  if (!kSanitized) check_ranks("movements", 4);
}

// Queued on two streams in turn: the order of the calls is the order in which they run.
CHILD(two_streams) {
  Rank self;
  HpStream streams[] = {new_stream(), new_stream()};
  std::vector<std::unique_ptr<Data>> results;
  for (uint64_t i = 0; i < 40; ++i) {
    results.push_back(std::make_unique<Data>(inputs(HP_INT32, i, self.rank, 5000)));
    void* const data = results.back()->ptr;
    OK(self.table.all_reduce(self.communicator, data, data, 5000, HP_INT32, HP_SUM, streams[i % 2]));
  }
  for (HpStream stream : streams) synchronize(0, stream);
  for (uint64_t i = 0; i < 40; ++i) check_reduced(results[i]->content(), HP_INT32, HP_SUM, i, self.size);
}
TEST(collectives_of_two_streams) { check_ranks("two_streams", 2); }

// --- messages ------------------------------------------------------------------------------------------------------

CHILD(messages) {
  Rank self;
  const int next = (self.rank + 1) % self.size, previous = (self.rank + self.size - 1) % self.size;
  // All round the ring, each way of queueing in its turn.
  for (size_t bytes : {0, 1, 5000, 1200001}) {
    Data sent(noise_bytes(bytes, self.rank, bytes)), received(bytes);
    OK(self.table.group_start(self.communicator));
    OK(self.table.send(self.communicator, sent.ptr, bytes, next, nullptr));
    OK(self.table.receive(self.communicator, received.ptr, bytes, previous, nullptr));
    OK(self.table.group_end(self.communicator));
    CHECK(received.content() == noise_bytes(bytes, previous, bytes));

    Data again(bytes);
    const HpStream sends = new_stream(), receives = new_stream();
    OK(self.table.send(self.communicator, sent.ptr, bytes, next, sends));
    OK(self.table.receive(self.communicator, again.ptr, bytes, previous, receives));
    synchronize(0, sends);
    synchronize(0, receives);
    CHECK(again.content() == received.content());
    OK(sim().streams->destroy(0, sends));
    OK(sim().streams->destroy(0, receives));
  }

  // Several to everybody, itself included, with a collective between them, all in one group.
  std::vector<std::unique_ptr<Data>> received;
  Data sum(inputs(HP_INT64, 7, self.rank, 9000));
  OK(self.table.group_start(self.communicator));
  std::vector<std::unique_ptr<Data>> sent;
  for (uint64_t i = 0; i < 3; ++i) {
    for (int peer = 0; peer < self.size; ++peer) {
      const size_t bytes = 1 + i * 200000;
      sent.push_back(std::make_unique<Data>(noise_bytes(i * 10 + static_cast<uint64_t>(peer), self.rank, bytes)));
      OK(self.table.send(self.communicator, sent.back()->ptr, bytes, peer, nullptr));
      received.push_back(std::make_unique<Data>(bytes));
      OK(self.table.receive(self.communicator, received.back()->ptr, bytes, peer, nullptr));
    }
    if (i == 1) OK(self.table.all_reduce(self.communicator, sum.ptr, sum.ptr, 9000, HP_INT64, HP_SUM, nullptr));
  }
  OK(self.table.group_end(self.communicator));
  for (uint64_t i = 0, at = 0; i < 3; ++i)
    for (int peer = 0; peer < self.size; ++peer, ++at)
      CHECK(received[at]->content() ==
            noise_bytes(i * 10 + static_cast<uint64_t>(self.rank), peer, received[at]->bytes - 1));
  check_reduced(sum.content(), HP_INT64, HP_SUM, 7, self.size);
}
TEST(messages_of_two) { check_ranks("messages", 2); }
TEST(messages_of_four) { check_ranks("messages", 4); }

// A group's send goes on while its collective waits, so that the other side may have them one after the other.
CHILD(grouped_with_a_collective) {
  Rank self;
  constexpr size_t kBytes = 1 << 20;
  Data from(noise_bytes(1, 0, kBytes)), to(kBytes), sum(inputs(HP_INT32, 2, self.rank, 9000));
  const auto all_reduce = [&] {
    OK(self.table.all_reduce(self.communicator, sum.ptr, sum.ptr, 9000, HP_INT32, HP_SUM, nullptr));
  };
  if (self.rank == 0) {
    OK(self.table.group_start(self.communicator));
    OK(self.table.group_start(self.communicator));
    all_reduce();
    OK(self.table.group_end(self.communicator));
    OK(self.table.send(self.communicator, from.ptr, kBytes, 1, nullptr));
    OK(self.table.group_end(self.communicator));
  } else {
    OK(self.table.receive(self.communicator, to.ptr, kBytes, 0, nullptr));
    all_reduce();
    CHECK(to.content() == noise_bytes(1, 0, kBytes));
  }
  check_reduced(sum.content(), HP_INT32, HP_SUM, 2, self.size);
}
TEST(a_send_goes_on_beside_a_collective) { check_ranks("grouped_with_a_collective", 2); }

TEST(with_every_setting) {
  for (const Settings& settings : {Settings{{"HARDPOINT_SIM_DETERMINISTIC", "1"}},
                                   Settings{{"HARDPOINT_SIM_JITTER", "3"}}, Settings{{"HARDPOINT_SIM_CHECKED", "1"}}}) {
    check_ranks("messages", 2, settings);
    check_ranks("two_streams", 2, settings);
  }
}

SIM_MAIN
