// NCCL's own RAS service over communicators that are made up: eight processes with a rank each, on two addresses, and no GPU.
// Compiled with the sources that README.md names, of one version of NCCL. Prints the processes, and ends them at a line of input.
//
//   ./communicators healthy|lag|none|error

#include <arpa/inet.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "comm.h"
#include "nccl.h"
#include "ras.h"
#include "transport.h"

constexpr int RANKS = 8;

// What the service calls of the rest of NCCL and of CUDA.
extern "C" ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = comm->asyncResult;
  return ncclSuccess;
}
extern "C" cudaError_t cudaRuntimeGetVersion(int* version) { *version = 12060; return cudaSuccess; }
extern "C" cudaError_t cudaDriverGetVersion(int* version) { *version = 12080; return cudaSuccess; }
const char* ncclFuncStr[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"};
#if NCCL_VERSION_CODE >= 22600
const char* ncclFuncToString(ncclFunc_t operation) { return ncclFuncStr[operation]; }
#endif
const char* ncclEnvPluginGetEnv(const char* name) { return getenv(name); }
ncclResult_t ncclEnvPluginInit() { return ncclSuccess; }
ncclResult_t ncclInitEnv() { return ncclSuccess; }
bool ncclEnvPluginInitialized() { return true; }

struct Shared {
  volatile int ready;
  rasRankInit ranks[RANKS];
};

static ncclComm* communicator(int rank, const char* situation) {
  static uint32_t running = 0, aborted = 1;
  auto is = [situation](const char* other) { return strcmp(situation, other) == 0; };
  ncclComm* comm = (ncclComm*)calloc(1, sizeof(ncclComm));
  comm->commHash = 0x27a079b828ff1a75UL;
  comm->rank = rank;
  comm->nRanks = RANKS;
  comm->cudaDev = comm->nvmlDev = rank % 4;
  comm->abortFlag = &running;
  comm->initState = ncclSuccess;
  unsigned long launched = 6650;
  if (is("lag") && (rank == 0 || rank == 2)) launched = 6649;
  if (is("none") && rank == 3) launched = 0;
#if NCCL_VERSION_CODE >= 22600
  comm->seqNumber[ncclFuncAllReduce] = launched;
  comm->seqNumber[ncclFuncBroadcast] = 2;
  comm->peerInfo = (ncclPeerInfo*)calloc(RANKS + 1, sizeof(ncclPeerInfo));
#else
  comm->collOpCount = launched;
#endif
  if (is("error")) {
    if (rank == 1) comm->initState = ncclInternalError;
    if (rank == 2) comm->initState = ncclInProgress;
    if (rank == 3 || rank == 4) comm->asyncResult = ncclRemoteError;
    if (rank == 5) comm->abortFlag = &aborted;
    if (rank == 6) comm->finalizeCalled = true;
    if (rank == 7) comm->asyncResult = ncclSystemError;
  }
  return comm;
}

static void serve(Shared* shared, int rank, const char* situation) {
  ncclComm* comm = communicator(rank, situation);
  rasRankInit own;
  memset(&own, 0, sizeof own);
  char address[32];
  snprintf(address, sizeof address, "127.0.1.%d", 1 + rank / 4);
  own.addr.sin.sin_family = AF_INET;
  inet_pton(AF_INET, address, &own.addr.sin.sin_addr);
  own.pid = getpid();
  own.cudaDev = comm->cudaDev;
  own.nvmlDev = comm->nvmlDev;
#if NCCL_VERSION_CODE >= 22600
  own.hostHash = 0xb7e7187447156001UL + rank / 4;
  own.pidHash = 0xb8242ed28a713800UL + rank;
#endif
  if (ncclRasCommInit(comm, &own) != ncclSuccess) _exit(1);
  shared->ranks[rank] = own;
  __sync_fetch_and_add(&shared->ready, 1);
  while (shared->ready < RANKS) usleep(1000);
#if NCCL_VERSION_CODE >= 22600
  for (int other = 0; other < RANKS; other++) {
    ncclPeerInfo* peer = comm->peerInfo + other;
    peer->rank = other;
    peer->hostHash = shared->ranks[other].hostHash + comm->commHash;
    peer->pidHash = shared->ranks[other].pidHash + comm->commHash;
    peer->cudaDev = shared->ranks[other].cudaDev;
    peer->nvmlDev = shared->ranks[other].nvmlDev;
  }
#endif
#if NCCL_VERSION_CODE >= 22700
  comm->peerInfoValid = true;
#endif
  rasRankInit* all = (rasRankInit*)malloc(sizeof shared->ranks);
  memcpy(all, shared->ranks, sizeof shared->ranks);
  ncclRasAddRanks(all, RANKS);
  for (;;) pause();
}

int main(int, char** arguments) {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Shared* shared = (Shared*)memory;
  pid_t pids[RANKS];
  for (int rank = 0; rank < RANKS; rank++) {
    pids[rank] = fork();
    if (pids[rank] == 0) serve(shared, rank, arguments[1]);
    printf("%d%c", pids[rank], rank == RANKS - 1 ? '\n' : ' ');
  }
  fflush(stdout);
  getchar();
  for (pid_t pid : pids) kill(pid, SIGKILL);
  while (wait(nullptr) > 0) {
  }
}
