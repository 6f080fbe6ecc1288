// One thread that sleeps in inotify.
#include "manifest_watch.h"

#include <pthread.h>
#include <signal.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <thread>

#include "ral/log.h"

namespace ral {

namespace {

void run(int fd, const std::map<int, std::string>& folders, const std::function<void(const std::string&)>& changed) {
  pthread_setname_np(pthread_self(), "ral-manifests");
  alignas(inotify_event) char events[4096];
  for (;;) {
    const ssize_t bytes = read(fd, events, sizeof events);
    if (bytes <= 0) {
      if (bytes < 0 && errno == EINTR) continue;
      return;
    }
    for (ssize_t at = 0; at < bytes;) {
      const auto* event = reinterpret_cast<const inotify_event*>(events + at);
      at += static_cast<ssize_t>(sizeof *event + event->len);
      const auto folder = folders.find(event->wd);
      if (event->len && folder != folders.end() && std::strcmp(event->name, "kernel_manifest.json") == 0)
        changed(folder->second);
    }
  }
}

}  // namespace

void watch_manifests(const std::vector<std::string>& folders, std::function<void(const std::string&)> changed) {
  if (folders.empty()) return;
  const int fd = inotify_init1(IN_CLOEXEC);
  std::map<int, std::string> watched;
  for (const std::string& folder : folders) {
    const int watch = fd < 0 ? -1 : inotify_add_watch(fd, folder.c_str(), IN_CLOSE_WRITE | IN_MOVED_TO);
    if (watch >= 0)
      watched[watch] = folder;
    else
      log(RAL_LOG_WARNING, "new manifests in " + folder + " will not be noticed: " + std::strerror(errno));
  }
  if (watched.empty()) {
    if (fd >= 0) close(fd);
    return;
  }
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited by the new thread: signals go to the program's own
  std::thread(run, fd, watched, std::move(changed)).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace ral
