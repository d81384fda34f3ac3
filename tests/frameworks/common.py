"""What the programs of this folder share: one line with a digest of all results, by which a run under
the preload is compared with a run without it; and, with FRAMEWORK_RESULTS, the results themselves in
a file, for programs whose results differ from run to run by themselves.

FRAMEWORK_LAUNCHES and FRAMEWORK_ELEMENTS scale how much is done: a tool on top, or a GPU in software,
takes longer for a launch."""
import glob
import hashlib
import os
import sys
import time


def launches(count):
    return max(1, int(count * float(os.environ.get("FRAMEWORK_LAUNCHES", "1"))))


def elements(count):
    return max(1, int(count * float(os.environ.get("FRAMEWORK_ELEMENTS", "1"))))


def repeat(count):
    """Turns 0, 1, ... of a loop that may go on for longer without changing the results: `count` launches, and on
    until a file FRAMEWORK_UNTIL is there, FRAMEWORK_WAIT seconds at most."""
    end = time.monotonic() + float(os.environ.get("FRAMEWORK_WAIT", "0"))
    turn, waiting = 0, True
    while turn < launches(count) or waiting:
        yield turn
        turn += 1
        if turn % 64 == 0:
            waiting = time.monotonic() < end and not glob.glob(os.environ.get("FRAMEWORK_UNTIL", ""))


class Digest:
    def __init__(self):
        self.arrays = []

    def add(self, array):
        """An array of numpy, or what numpy can view as one."""
        import numpy
        self.arrays.append(numpy.ascontiguousarray(array))

    def print(self):
        import numpy
        digest = hashlib.blake2b(digest_size=16)
        for array in self.arrays:
            digest.update(array.tobytes())
        if os.environ.get("FRAMEWORK_RESULTS"):
            numpy.savez(os.environ["FRAMEWORK_RESULTS"], *self.arrays)
        print(f"digest {digest.hexdigest()} of {len(self.arrays)} results")
        sys.stdout.flush()
