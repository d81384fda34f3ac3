#!/usr/bin/env python3
"""What the preload costs a training step of small kernels, where launching is all the time goes into: PyTorch, eager, in mode
cached. Processes with and without it alternate (A B B A), each times its steps after a warm-up; a block's ratio is that of
its two medians with to its two without. Prints the ratio's mean over the blocks with its 95% interval (Student's t).
The goal is 1.01. Exit status 1: the interval's lower end is above it.

  step_cost.py BUILD_FOLDER [BLOCKS [MODE]]      by hand, on a GPU with nothing else running"""
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

GOAL = 1.01
# two-sided 95% quantiles of Student's t, by degrees of freedom
T = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 10: 2.23, 11: 2.20}
WARM, STEPS, PARTS = 300, 100, 20


def steps():
    """In a child: prints the median, over parts, of a step's microseconds."""
    import torch
    torch.manual_seed(1)
    layers = [torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64)] * 4
    model = torch.nn.Sequential(*layers, torch.nn.Linear(64, 8)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, foreach=False)
    x, y = torch.randn(32, 64, device="cuda"), torch.randn(32, 8, device="cuda")

    def run(count):
        start = time.perf_counter()
        for _ in range(count):
            optimizer.zero_grad(set_to_none=True)
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / count * 1e6

    run(WARM)
    print(statistics.median(run(STEPS) for _ in range(PARTS)))


def child(build, cache, mode):
    """mode: None without the preload."""
    command = [sys.executable, __file__, "--steps"]
    if mode:
        command = [str(build / "kgenrt"), "run", "--mode", mode] + command
    done = subprocess.run(command, env=dict(os.environ, KGENRT_CACHE=cache), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    return float(done.stdout.split()[-1])


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    blocks = int(sys.argv[2]) if len(sys.argv) > 2 else 6
    mode = sys.argv[3] if len(sys.argv) > 3 else "cached"
    cache, ratios = tempfile.mkdtemp(prefix="kgenrt-step-"), []
    try:
        child(build, cache, None)  # pages in what is read from disk
        for _ in range(blocks):
            a, b, c, d = (child(build, cache, m) for m in (None, mode, mode, None))
            ratios.append((b + c) / (a + d))
            print(f"without {a:.1f} {d:.1f} us, with {b:.1f} {c:.1f} us a step: {ratios[-1]:.4f}", flush=True)
        mean = statistics.mean(ratios)
        half = T.get(blocks - 1, 2.2) * statistics.stdev(ratios) / blocks ** 0.5 if blocks > 1 else float("inf")
        print(f"mode {mode}: {mean:.4f} times the time without, 95% interval [{mean - half:.4f}, {mean + half:.4f}]; "
              f"goal {GOAL}: {'BROKEN' if mean - half > GOAL else 'holds' if mean + half <= GOAL else 'not decided'}")
        said = subprocess.run([build / "kgenrt", "status", "--latest", "1"], env=dict(os.environ, KGENRT_CACHE=cache),
                              capture_output=True, text=True).stdout.splitlines()
        print("\n".join(said[:12]))
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    return 1 if mean - half > GOAL else 0


if __name__ == "__main__":
    sys.exit(steps() if sys.argv[1:] == ["--steps"] else main())
