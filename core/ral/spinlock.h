// A lock for sections of a few instructions: no system call, one byte, yields under contention.
#pragma once
#include <sched.h>

#include <atomic>

namespace ral {

class SpinLock {
 public:
  void lock() noexcept {
    for (int tries = 0; flag_.exchange(true, std::memory_order_acquire); ++tries) {
      while (flag_.load(std::memory_order_relaxed)) {
        if (++tries > 64) sched_yield();
        pause();
      }
    }
  }
  void unlock() noexcept { flag_.store(false, std::memory_order_release); }

 private:
  static void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
  }
  std::atomic<bool> flag_{false};
};

}  // namespace ral
