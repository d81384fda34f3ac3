"""Child processes as Python programs make them, while the parent uses the GPU: forked ones that only compute, as a
DataLoader's workers, and spawned ones that use the GPU themselves."""
import multiprocessing
import numpy
from common import Digest, launches
from cuda_core import series


def compute(i):
    return numpy.sqrt(numpy.full(64, float(i)))


def use_gpu(i):
    return series(0.5 + i / 8, range(launches(200)))


def main():
    digest = Digest()
    digest.add(series(0.75, range(launches(200))))
    for way, work in (("fork", compute), ("spawn", use_gpu)):
        pool = multiprocessing.get_context(way).Pool(2)
        for result in pool.map(work, range(3)):
            digest.add(result)
        pool.close()
        pool.join()
    digest.add(series(0.25, range(launches(200))))
    digest.print()


if __name__ == "__main__":
    main()
