#!/usr/bin/env python3
"""Programs of frameworks under the preload: each runs twice without it, then in modes observe, tune and cached (which gets
what tune found). Results must be equal to those without, bit for bit; where a program's results differ between runs
without it, within four times that spread, and the table says so. kgenrt must have seen kernels of it.

What is not installed is skipped, and said. Exit status 0: no program differs, and at least one was compared; 77: none
could be.

  run.py [--software FOLDER] [--programs FILE] [--beside N] BUILD_FOLDER RESULT_FOLDER [program ...]

--software: on the GPU in software, whose libcuda.so.1 stands in FOLDER; only programs that use the driver alone.
--programs: not the frameworks, but those in this JSON file (tests/versions/runs.py writes one).
RESULT_FOLDER gets each run's output, `kgenrt status --json` after it, and summary.json."""
import argparse
import concurrent.futures
import glob
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
MODES = ("observe", "tune", "cached")
TIMEOUT = 240  # seconds that one run may take

# What may stand with a program: file (its name, if not the program's), or command, and arguments by run ("any": the others);
# inside, around: the command before it within `kgenrt run`, and before that; environment; software: it runs on the GPU in
# software; swaps: there, a variant must run in the end; checks_itself: exit status 0 says that its results were right, and
# it prints no digest.
SANITIZER = ["compute-sanitizer", "--tool", "memcheck", "--target-processes", "all", "--error-exitcode", "9"]
NCU = ["ncu", "--clock-control", "none", "--target-processes", "all", "--metrics", "gpu__time_duration.sum",
       "--launch-count", "20"]
FEW = {"FRAMEWORK_LAUNCHES": "0.2", "FRAMEWORK_WAIT": "0"}
PROGRAMS = {
    "torch_eager": {}, "torch_autograd": {}, "torch_compile": {}, "torch_graph": {}, "torch_profiler": {},
    "torch_loader": {}, "torch_nccl": {}, "torch_cublas": {}, "torch_cudnn": {}, "triton_kernel": {},
    "cupy_kernels": {}, "jax_step": {}, "cuda_core": {"software": True, "swaps": True},
    "cuda_core_children": {"software": True},
    # tools on top: started by kgenrt run, and the one that starts it
    "sanitizer_inside": {"file": "cupy_kernels", "inside": SANITIZER, "environment": FEW},
    "sanitizer_around": {"file": "cupy_kernels", "around": SANITIZER, "environment": FEW},
    "ncu_inside": {"file": "cupy_kernels", "inside": NCU, "environment": FEW},
    "ncu_around": {"file": "cupy_kernels", "around": NCU, "environment": FEW},
}
SOFTWARE = {"FRAMEWORK_ELEMENTS": "0.01", "KGENRT_GPU_SHARE": "100"}


class Program:
    def __init__(self, name, arguments, port):
        self.name, self.arguments, self.what = name, arguments, PROGRAMS[name]
        self.folder = arguments.results / name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.cache = pathlib.Path(tempfile.mkdtemp(prefix="kgenrt-frameworks-"))
        self.runs, self.seen, self.verdict = {}, {}, ""
        self.environment = dict(
            os.environ, PORT=str(port), KGENRT_CACHE=str(self.cache / "kgenrt"), KGENRT_LOG="info",
            KGENRT_MAKERS=f"recorded:{HERE}/reply,rules", PYTHONDONTWRITEBYTECODE="1",
            TRITON_CACHE_DIR=str(self.cache / "triton"), TORCHINDUCTOR_CACHE_DIR=str(self.cache / "inductor"),
            XLA_PYTHON_CLIENT_PREALLOCATE="false", CUBLAS_WORKSPACE_CONFIG=":4096:8",
            # XLA picks the algorithm of a matrix product by timing it, and the results with it
            XLA_FLAGS="--xla_gpu_autotune_level=0")
        tools = ["/usr/local/cuda/bin", *sorted(glob.glob("/opt/nvidia/nsight-compute/*"))]
        self.environment["PATH"] = ":".join([os.environ.get("PATH", ""), *tools])
        self.environment.update(self.what.get("environment", {}))
        if arguments.software:
            self.environment.update(SOFTWARE, LD_LIBRARY_PATH=":".join(
                filter(None, [str(arguments.software), os.environ.get("LD_LIBRARY_PATH")])))

    def command(self, mode, name="any"):
        arguments = self.what.get("arguments", {})
        program = self.what.get("inside", []) + self.what.get(
            "command", [sys.executable, f"{self.what.get('file', self.name)}.py"]) + arguments.get(
                name, arguments.get("any", []))
        if mode:
            program = [str(self.arguments.build / "kgenrt"), "run", "--mode", mode] + program
        return self.what.get("around", []) + program

    def run(self, name, mode=None):
        # a kernel out of CuPy's cache is machine code only: each run compiles
        environment = dict(self.environment, CUPY_CACHE_DIR=str(self.cache / f"cupy-{name}"),
                           FRAMEWORK_RESULTS=str(self.folder / f"{name}.npz"),
                           KGENRT_LOG_FILE=str(self.folder / f"{name}.log"))
        if mode == "tune":  # those that can go on without changing their results do so until there is a variant
            environment["FRAMEWORK_UNTIL"] = str(self.cache / "kgenrt/snapshots/*.current")
            environment.setdefault("FRAMEWORK_WAIT", "150" if self.arguments.software else "30")
        start = time.monotonic()
        with open(self.folder / f"{name}.out", "w") as out, open(self.folder / f"{name}.err", "w") as err:
            try:
                process = subprocess.Popen(self.command(mode, name), cwd=HERE, env=environment, stdout=out, stderr=err,
                                           stdin=subprocess.DEVNULL, start_new_session=True)
                status = process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                status = f"none, it was ended after {TIMEOUT} s"
            except FileNotFoundError as error:
                status = "none"
                err.write(f"{error.filename}: not installed\n")
        lines = (self.folder / f"{name}.out").read_text(errors="replace").splitlines()
        digests = [line for line in lines if line.startswith("digest ")]
        if self.what.get("checks_itself") and status == 0:
            digests = ["right by its own check"]
        self.runs[name] = {"status": status, "digest": digests[0] if digests else None,
                           "seconds": round(time.monotonic() - start, 1)}
        if mode:
            self.look(name)
        return self.runs[name]

    def look(self, name):
        """What kgenrt saw in this run: the process with the most launches, of all that it started."""
        said = subprocess.run([self.arguments.build / "kgenrt", "status", "--json"], env=self.environment,
                              capture_output=True, text=True)
        (self.folder / f"{name}.json").write_text(said.stdout or said.stderr)
        processes = [p for p in json.loads(said.stdout or "{}").get("processes", []) if p.get("mode") == name]
        count = lambda p: sum(k.get("launches", 0) for k in p.get("kernels", []))
        if processes:
            self.seen[name] = max(processes, key=count)
            self.seen[name]["launches"] = count(self.seen[name])

    def last_error(self, name):
        lines = (self.folder / f"{name}.err").read_text(errors="replace").strip().splitlines()
        return lines[-1][:120] if lines else f"exit status {self.runs[name]['status']}"

    def well(self, name):
        return self.runs[name]["status"] == 0 and self.runs[name]["digest"]

    def within_spread(self, plain, name):
        """Whether the arrays of a run lie no farther from one of the plain runs than four times those from each other."""
        if not all((self.folder / f"{run}.npz").exists() for run in [*plain, name]):
            return False
        import numpy
        load = lambda run: [a.astype(float) for a in numpy.load(self.folder / f"{run}.npz").values()]

        def distance(a, b):
            if not numpy.array_equal(numpy.isnan(a), numpy.isnan(b)):
                return float("inf")
            return float(numpy.nanmax(numpy.abs(a - b), initial=0))
        there = [load(run) for run in plain]
        return all(a.shape == others[0].shape and min(distance(a, o) for o in others) <=
                   4 * max(distance(o, q) for o in others for q in others)
                   for a, others in zip(load(name), zip(*there)))

    def judge(self):
        plain = ["plain", "again"]
        for name in plain:
            self.run(name)
            if not self.well(name):
                self.verdict = "skipped: " + self.last_error(name)
                return
        for mode in MODES:
            self.run(mode, mode)
        known = lambda: {self.runs[p]["digest"] for p in plain}
        if any(self.well(m) and self.runs[m]["digest"] not in known() for m in MODES):
            for i in range(3):  # does it differ by itself, seldom?
                plain.append(f"again-{i}")
                self.run(plain[-1])
        steady = len(known()) == 1
        wrong = [f"{m} ends with {self.runs[m]['status']}" for m in MODES if not self.well(m)]
        wrong += [f"{m} DIFFERS" for m in MODES if self.well(m) and self.runs[m]["digest"] not in known() and
                  (steady or not self.within_spread(plain, m))]
        wrong += [f"no kernel seen in {m}" for m in MODES if not self.seen.get(m, {}).get("launches")]
        if self.arguments.software and self.what.get("swaps") and not self.swapped():
            wrong.append("no variant ran in cached")
        good = "equal bit for bit" if steady else "not the same from run to run; within its own spread"
        if self.what.get("checks_itself"):
            good = self.runs["plain"]["digest"]
        self.verdict = "WRONG: " + "; ".join(wrong) if wrong else good

    def swapped(self):
        """Launches of variants in mode cached."""
        return sum(k.get("swapped", 0) for k in self.seen.get("cached", {}).get("kernels", []))

    def whole(self):
        try:
            self.judge()
        finally:
            shutil.rmtree(self.cache, ignore_errors=True)
        return self


def row(program):
    """The lines of the table for one program."""
    seen = program.seen.get("tune") or program.seen.get("observe") or {}
    kernels, account = seen.get("kernels", []), seen.get("gpu_time", {})
    named = sum(1 for k in kernels if k.get("name"))
    times = ", ".join(f"{name} {run['seconds']} s" for name, run in program.runs.items())
    lines = [f"{program.name}: {program.verdict}", f"  {' '.join(program.command('MODE'))}"]
    if seen:
        share = lambda part: 100 * account.get(part, {}).get("share", 0)
        lines += [f"  {seen['launches']} launches of {len(kernels)} kernels, {named} named; {share('eligible'):.1f}% "
                  f"of the GPU time in eligible ones; {program.swapped()} launches of variants in mode cached"]
        lines += [f"    {100 * g['share']:.1f}% in {g['kernels']}: {g['why']}" for g in account.get("left_alone", [])[:4]]
        if share("not_read"):
            lines += [f"    {share('not_read'):.1f}% in {account['not_read']['kernels']}: not read"]
    return lines + [f"  {times}"] if program.runs else lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--software", type=pathlib.Path)
    parser.add_argument("--programs", type=pathlib.Path)
    parser.add_argument("--beside", type=int, default=4, help="programs at the same time")
    parser.add_argument("build", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("results", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("names", nargs="*", metavar="program")
    arguments = parser.parse_args()
    if not arguments.software and not any(map(os.path.exists, ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg"))):
        print("skipped: no NVIDIA GPU on this machine")
        return 77
    if arguments.programs:
        PROGRAMS.clear()
        PROGRAMS.update(json.loads(arguments.programs.read_text()))
    names = arguments.names or [n for n, what in PROGRAMS.items()
                                if what.get("software") or not arguments.software or arguments.programs]
    for name in names:
        if name not in PROGRAMS:
            parser.error(f"{name}: none of {' '.join(PROGRAMS)}")
    programs = [Program(name, arguments, 29600 + i) for i, name in enumerate(names)]
    with concurrent.futures.ThreadPoolExecutor(arguments.beside) as pool:
        for done in concurrent.futures.as_completed([pool.submit(p.whole) for p in programs]):
            print("\n".join(row(done.result())), flush=True)
    summary = [{"program": p.name, "command": p.command("MODE"), "verdict": p.verdict, "runs": p.runs,
                "seen": {m: {"launches": s.get("launches"), "kernels": len(s.get("kernels", [])),
                             "gpu_time": s.get("gpu_time")} for m, s in p.seen.items()}} for p in programs]
    (arguments.results / "summary.json").write_text(json.dumps(summary, indent=1))
    skipped = [p for p in programs if p.verdict.startswith("skipped")]
    wrong = [p for p in programs if p.verdict.startswith("WRONG")]
    print(f"{len(programs) - len(skipped) - len(wrong)} as without kgenrt, {len(wrong)} wrong, {len(skipped)} skipped")
    if len(skipped) == len(programs):
        print("skipped: none of the frameworks runs here")
        return 77
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
