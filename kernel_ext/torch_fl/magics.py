"""The magics. Each parses its options and hands over to the module that does the work."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import parse_argstring
from IPython.display import display

from torch_fl import budget, compare, devices, history, options, session, words
from torch_fl.options import arguments
from torch_fl.result import ProfileResult


@magics_class
class RalMagics(Magics):
    """Magics of torch_fl. `profiler` is set by the extension."""

    profiler: session.CellProfiler

    @arguments(options.DEVICES)
    @line_magic
    def ral_devices(self, line: str) -> Any:
        """Table of all devices, and of plugins that could not be loaded with the cause."""
        args = self._parse("ral_devices", line)
        if args is None:
            return None
        table = devices.DeviceTable.now()
        if args.output:
            self.shell.user_ns[args.output] = table.frame
        if args.json:
            print(table.json())
            return None
        return None if args.output else table

    @arguments(options.PROFILE)
    @line_cell_magic
    def ral_profile(self, line: str, cell: str | None = None) -> None:
        """Profiles a cell (`%%ral_profile`), or with `%ral_profile on` every cell from the next on."""
        args = self._parse("ral_profile", line)
        if args is None:
            return
        if cell is not None:
            self._run_profiled(line, cell)
        elif args.switch == "on":
            self.profiler.every = _profile_options(args)
        elif args.switch == "off":
            self.profiler.every = None
        else:
            raise UsageError("%ral_profile takes `on` or `off`; a cell is profiled with %%ral_profile")

    def _run_profiled(self, line: str, cell: str) -> None:
        """Another program calls the cell magic itself; in a notebook the input transformer serves it."""
        shell = self.shell
        number = shell.execution_count
        tree = shell.compile.ast_parse(shell.transform_cell(f"%%ral_profile {line}\n{cell}"))
        tree = shell.transform_ast(tree)
        filename = shell.compile.cache(cell, number)
        code = shell.compile(tree, filename, "exec")
        outer = self.profiler.cell
        error: BaseException | None = None
        try:
            exec(code, shell.user_global_ns, shell.user_ns)
        except BaseException as raised:
            error = raised
            raise
        finally:
            if outer is None:
                self.profiler.finish(error)

    def parse_profile(self, line: str) -> session.Options:
        """Options of a `%%ral_profile` line. Raises UsageError for unknown or wrong ones."""
        args = parse_argstring(self.ral_profile, line)
        if args.switch:
            raise UsageError(f"%%ral_profile takes no `{args.switch}`; %ral_profile does, as a line")
        return _profile_options(args)

    @arguments(options.COMPARE)
    @line_cell_magic
    def ral_compare(self, line: str, cell: str | None = None) -> Any:
        """Runs the cell on several devices and compares values and times.

        The cell reads its device from the name `device`. Before every run the tensors, Modules and
        optimizers that it reads are copied to that device; afterwards your names are as before.
        """
        args = self._parse("ral_compare", line)
        if args is None:
            return None
        if cell is None:
            raise UsageError("%%ral_compare is a cell magic: write the code to compare below it")
        if len(args.device or []) < 2:
            raise UsageError("%%ral_compare needs at least two devices: -d ral:0 -d cpu")
        plan = compare.Plan(args.device, args.n, args.r, args.rtol, args.atol)
        result = compare.run(self.shell, cell, plan)
        if args.output:
            self.shell.user_ns[args.output] = result
        return result

    @arguments(options.HISTORY)
    @line_magic
    def ral_history(self, line: str) -> Any:
        """Table of the profiles taken in this session."""
        args = self._parse("ral_history", line)
        if args is None:
            return None
        frame = pd.DataFrame(
            [
                {
                    "number": entry.number,
                    "when": entry.when.isoformat(timespec="seconds"),
                    "label": entry.label or "",
                    "state": entry.summary["state"],
                    "wall_us": entry.summary["wall_us"],
                    "op_time_us": sum(entry.summary["op_time_us"].values()),
                    "peak_bytes": max(entry.summary["peak_bytes"].values(), default=0),
                    "source": entry.source.strip().split("\n")[-1][:60],
                    "held": entry.result() is not None,
                }
                for entry in history.entries()
            ],
            columns=["number", "when", "label", "state", "wall_us", "op_time_us", "peak_bytes"]
            + ["source", "held"],
        )
        return self._give(frame, args.json)

    @arguments(options.FALLBACK)
    @line_magic
    def ral_fallback(self, line: str) -> Any:
        """Which ops of the last profile left the first tier, and why."""
        args = self._parse("ral_fallback", line)
        if args is None:
            return None
        result = _last()
        if not args.why:
            return self._give(result.fallback.drop(columns="chain"), args.json)
        rows = [row for row in result.trace.decisions.to_dict("records") if row["op"] == args.why]
        chain = [row for row in result.bundle["tables"]["fallback"] if row["op"] == args.why]
        if args.json:
            print(json.dumps(chain))
        elif chain:
            print("\n\n".join(_chain(row) for row in chain))
        elif rows:
            print(f"{args.why} ran on the first tier allowed: {rows[0]['tier']}")
        else:
            print(f"{args.why} did not run in the last profile")
        return None

    @arguments(options.MEMORY)
    @line_magic
    def ral_memory(self, line: str) -> Any:
        """Memory of each device now; what was alive at the peak of the last profile, and leaks."""
        args = self._parse("ral_memory", line)
        if args is None:
            return None
        frame = devices.memory()
        if args.json:
            print(frame.to_json(orient="records"))
            return None
        display(frame)
        result = history.last()
        if result is not None and result.bundle["tables"]["peak"]:
            print("Alive at the peak of the last profile:")
            display(pd.DataFrame(result.bundle["tables"]["peak"]))
        for leak in result.bundle["tables"]["leaks"] if result is not None else []:
            size = words.size(leak["bytes"])
            print(f"Line {leak['line']}: {leak['count']} allocations alive at the end, {size}")
        return None

    @arguments(options.BUDGET)
    @line_magic
    def ral_budget(self, line: str) -> None:
        """Fails its cell where it takes more time or memory than allowed."""
        args = self._parse("ral_budget", line)
        if args is None:
            return
        if args.wall is None and args.peak is None:
            raise UsageError("%ral_budget needs --wall TIME or --peak SIZE")
        check = budget.checker(self.shell, args.wall, args.peak)
        self.profiler.guard(check, session.Options(quiet=True, live=False))

    # Helpers.

    def _parse(self, magic: str, line: str) -> Any:
        """The options of a line; None where help was asked for and has been printed."""
        method = getattr(self, magic)
        args = parse_argstring(method, line)
        if args.help:
            print(method.__doc__)
            return None
        return args

    def _give(self, frame: pd.DataFrame, as_json: bool) -> pd.DataFrame | None:
        if not as_json:
            return frame
        print(frame.to_json(orient="records"))
        return None

    def add_completers(self) -> None:
        """Completes the options of each magic, as line and as cell magic."""
        for magic in options.TABLES:
            for prefix in ("%", "%%"):
                self.shell.set_hook(
                    "complete_command", _completer(options.flags(magic)), str_key=prefix + magic
                )


def _completer(flags: list[str]) -> Any:
    def complete(_: Any, event: Any) -> list[str]:
        found = [flag for flag in flags if flag.startswith(event.symbol)]
        return found if event.symbol.startswith("-") else flags

    return complete


def _profile_options(args: Any) -> session.Options:
    return session.Options(
        devices=args.device,
        name=args.output,
        quiet=args.quiet,
        limit=args.limit,
        sort=args.sort,
        trace=args.trace,
        report=args.report,
        stacks=args.stacks,
        live=args.live,
        label=args.label,
    )


def _last() -> ProfileResult:
    result = history.last()
    if result is None:
        raise UsageError("there is no profile yet: run a cell under %%ral_profile first")
    return result


def _chain(row: dict[str, Any]) -> str:
    """One row of fallbacks in words, tier by tier."""
    out = [f"{row['op']} on {row['device']}: {row['count']} calls, {words.time(row['time_us'])}"]
    for tier in words.TIERS:
        why = row["reason"].get(tier)
        if tier == row["tier"]:
            ran = row["reason"].get("ran")
            kernel = f" ({row['kernel']})" if row["kernel"] else ""
            out.append(f"  {tier}: ran{kernel}" + (f", {ran}" if ran else ""))
        else:
            out.append(f"  {tier}: {'passed over, ' + why if why else 'not tried'}")
    return "\n".join(out)
