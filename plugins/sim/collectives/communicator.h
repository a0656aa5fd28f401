// The contract's collectives, between processes on one machine.
#pragma once

#include "hardpoint/plugin.h"

namespace sim {

HpStatus group_id(unsigned char* id);
HpStatus can_join(int device, const unsigned char* id);
HpStatus create_communicator(int device, const unsigned char* id, int rank, int size, uint32_t timeout_ms,
                             HpCommunicator* communicator);
HpStatus destroy_communicator(HpCommunicator communicator);
HpStatus abort_communicator(HpCommunicator communicator);

HpStatus all_reduce(HpCommunicator communicator, void* dst, const void* src, size_t count, HpElement element,
                    HpReduction reduction, HpStream stream);
HpStatus broadcast(HpCommunicator communicator, void* data, size_t bytes, int root, HpStream stream);
HpStatus reduce(HpCommunicator communicator, void* dst, const void* src, size_t count, HpElement element,
                HpReduction reduction, int root, HpStream stream);
HpStatus all_gather(HpCommunicator communicator, void* dst, const void* src, size_t bytes, HpStream stream);
HpStatus reduce_scatter(HpCommunicator communicator, void* dst, const void* src, size_t count, HpElement element,
                        HpReduction reduction, HpStream stream);
HpStatus all_to_all(HpCommunicator communicator, void* dst, const void* src, size_t bytes, HpStream stream);
HpStatus send(HpCommunicator communicator, const void* src, size_t bytes, int peer, HpStream stream);
HpStatus receive(HpCommunicator communicator, void* dst, size_t bytes, int peer, HpStream stream);
HpStatus group_start(HpCommunicator communicator);
HpStatus group_end(HpCommunicator communicator);

}  // namespace sim
