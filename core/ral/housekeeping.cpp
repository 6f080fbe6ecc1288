// One round each 100 ms.
#include "housekeeping.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <mutex>
#include <thread>

#include "devices_internal.h"
#include "trace_internal.h"

namespace ral::trace {

namespace {

constexpr long kRoundNs = 100000000;
std::mutex* const g_round = new std::mutex;
bool g_stopped = false;

bool round(int number) {
  std::lock_guard<std::mutex> guard(*g_round);
  File* ring = file();
  if (g_stopped || !ring) return false;
  set_leased(ring->leased(now()));
  refresh_gauges();
  if (enabled()) reap_all();
  if (number % 10 == 0) ring->calibrate_clock();
  if (number % 600 == 0) ring->touch();
  return true;
}

void run() {
  pthread_setname_np(pthread_self(), "ral-trace");
  for (int number = 1; round(number); ++number) {
    const timespec pause = {0, kRoundNs};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace

void start_housekeeping() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited by the new thread: signals go to the program's own
  std::thread(run).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void stop_housekeeping() {
  std::lock_guard<std::mutex> guard(*g_round);
  g_stopped = true;
}

}  // namespace ral::trace
