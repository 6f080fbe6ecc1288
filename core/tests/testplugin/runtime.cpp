// A vendor's runtime that is not installed: `needslib` links to it and cannot find it when loaded.
extern "C" __attribute__((visibility("default"))) int testvendor_runtime() { return 1; }
