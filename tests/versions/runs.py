#!/usr/bin/env python3
"""Whole runs with other CUDA versions, on a GPU: the programs of a folder that make.sh made, each without and with the
preload, compared as frameworks are (tests/frameworks/run.py, which does the work).

  runs.py FOLDER BUILD_FOLDER RESULT_FOLDER [program ...]"""
import json
import os
import pathlib
import subprocess
import sys


HERE = pathlib.Path(__file__).resolve().parent


def programs(folder):
    small = ["--small", "--launches", "3000"]
    whole = {"polynomial": {"tune": ["--seconds", "12"], "cached": ["--seconds", "4"]},
             "vector_add": {"tune": ["--seconds", "4"]}}  # nothing to gain there
    makers = {"KGENRT_MAKERS": f"recorded:{HERE.parent.parent}/samples/polynomial/reply"}
    found = [path for path in [os.environ.get("LD_LIBRARY_PATH")] if path]
    out = {}
    for sample, arguments in whole.items():
        how = {"arguments": dict(arguments, any=small), "checks_itself": True}
        for runtime in sorted(folder.glob("runtime-*")):
            version = runtime.name.split("-")[1]
            out[f"{sample}-shared-{version}"] = dict(
                how, command=[str(folder / f"{sample}-{version.split('.')[0]}")],
                environment=dict(makers, LD_LIBRARY_PATH=":".join([str(runtime), *found])))
        for program in sorted(folder.glob(f"{sample}-static-*")):
            out[program.name] = dict(how, command=[str(program)], environment=makers)
    for library in sorted(folder.glob("static-*.so")):
        out[f"nvjpeg-{library.stem}"] = {"command": [str(folder / "jpeg"), str(library)]}
    return out


def main():
    folder, build, results = (pathlib.Path(p).resolve() for p in sys.argv[1:4])
    results.mkdir(parents=True, exist_ok=True)
    listed = results / "programs.json"
    listed.write_text(json.dumps(programs(folder), indent=1))
    run = [sys.executable, HERE.parent / "frameworks/run.py", "--programs", listed, build, results, *sys.argv[4:]]
    return subprocess.run(run).returncode


if __name__ == "__main__":
    sys.exit(main())
