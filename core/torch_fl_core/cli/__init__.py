"""The command lines `ralctl` and `ral-trace`. Each module has `main(argv=None) -> int`."""
