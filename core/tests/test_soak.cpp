// The soak over the tests' plugin, under the sanitizers as well (make test-sanitizers): nothing lost, nothing overlapping,
// and at the end the pool as it began.
#include "soak.h"

using harness::Fixture;

static void soak_with(int threads) {
  Fixture f;
  soak::run(*f.device, threads, [&f](ral::Stream& stream, unsigned us) { return f.slow(stream, us); });
  CHECK_EQ(f.control->get("mallocs"), f.control->get("frees"));
}

TEST(one_thread) { soak_with(1); }
TEST(four_threads) { soak_with(4); }
int main(int argc, char** argv) { return check::main(argc, argv); }
