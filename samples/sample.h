// What the samples share: arguments, error checks, the run's clock, the comparison with what was
// expected.
//
// A sample is a small program of the kind people write: plain CUDA runtime code, one hot kernel
// that is correct and not tuned. Each launch's whole output is compared with a result computed on
// the CPU, or in double by a second kernel where a CPU would take minutes; the program ends with
// status 1 at the first wrong one. It knows nothing of kgenrt.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <algorithm>
#include <type_traits>
#include <vector>

#include <cuda_runtime.h>

#define CUDA(call)                                                                                 \
    do {                                                                                           \
        cudaError_t error_ = (call);                                                               \
        if (error_ != cudaSuccess) {                                                               \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                     \
                         cudaGetErrorString(error_));                                              \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

// One run: lasts `seconds` or `launches` launches of the hot kernel, whichever is asked for.
struct Run {
    const char *name;
    const char *kernel = nullptr; // the one asked for, where a sample has several
    double seconds = 20;
    long launches = 0;                // 0: by time
    bool small = false, tiny = false; // tiny: small, and less where that is still much

    long done = 0, wrong = 0;
    double started = 0;
    std::vector<float> times; // of the hot kernel, microseconds
    cudaEvent_t before, after;

    // kernels: the names that --kernel may have, the first by default.
    Run(const char *name_, int argc, char **argv, std::vector<const char *> kernels = {})
        : name(name_)
    {
        if (!kernels.empty())
            kernel = kernels[0];
        cudaDeviceProp device;
        for (int i = 1; i < argc; i++) {
            if (!std::strcmp(argv[i], "--seconds") && i + 1 < argc)
                seconds = std::atof(argv[++i]);
            else if (!std::strcmp(argv[i], "--launches") && i + 1 < argc)
                launches = std::atol(argv[++i]);
            else if (!std::strcmp(argv[i], "--small"))
                small = true;
            else if (!std::strcmp(argv[i], "--tiny"))
                small = tiny = true;
            else if (!kernels.empty() && !std::strcmp(argv[i], "--kernel") && i + 1 < argc)
                kernel = one_of(argv[++i], kernels);
            else
                usage(argv[0], kernels);
        }
        if (!kernels.empty() && !kernel)
            usage(argv[0], kernels);
        CUDA(cudaGetDeviceProperties(&device, 0));
        if (!std::strncmp(device.name, "softgpu", 7))
            small = true;
        CUDA(cudaEventCreate(&before));
        CUDA(cudaEventCreate(&after));
        started = now();
    }

    static const char *one_of(const char *word, const std::vector<const char *> &kernels)
    {
        for (const char *name : kernels)
            if (!std::strcmp(word, name))
                return name;
        return nullptr;
    }
    static void usage(const char *program, const std::vector<const char *> &kernels)
    {
        std::fprintf(stderr, "usage: %s [--seconds S | --launches N] [--small | --tiny]", program);
        for (size_t i = 0; i < kernels.size(); i++)
            std::fprintf(stderr, "%s%s", i ? " | " : " [--kernel ", kernels[i]);
        std::fprintf(stderr, "%s\n", kernels.empty() ? "" : "]");
        std::exit(2);
    }

    static double now()
    {
        timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return t.tv_sec + 1e-9 * t.tv_nsec;
    }
    // How much of the run is over, 0 to 1 and beyond.
    double part() const
    {
        return launches ? double(done) / launches : (now() - started) / seconds;
    }
    bool more() const
    {
        return part() < 1;
    }

    void begin()
    {
        CUDA(cudaEventRecord(before));
    }
    void end()
    {
        CUDA(cudaGetLastError());
        CUDA(cudaEventRecord(after));
    }
    // Call when the results are on the host. tolerance: relative to max(1, |expected|).
    template <class T> void check(const T *result, const T *expected, size_t count, float tolerance)
    {
        float milliseconds = 0;
        CUDA(cudaEventElapsedTime(&milliseconds, before, after));
        times.push_back(1000 * milliseconds);
        done++;
        // The first loop is one that compilers vectorize: most of a run's time goes there.
        using Wide = typename std::conditional<std::is_same<T, float>::value, float, double>::type;
        auto right = [&](size_t i) {
            Wide is = Wide(result[i]), should = Wide(expected[i]);
            return std::fabs(is - should) <= Wide(tolerance) * std::max(Wide(1), std::fabs(should));
        };
        size_t bad = 0, first = 0;
        for (size_t i = 0; i < count; i++)
            bad += !right(i);
        if (!bad)
            return;
        wrong++;
        while (right(first))
            first++;
        std::printf("%s: launch %ld is WRONG in %zu of %zu elements, first at %zu: %.9g instead of "
                    "%.9g\n",
                    name, done, bad, count, first, double(result[first]), double(expected[first]));
        std::exit(1);
    }
    // The whole run: launch(set) must leave expected[set] in `out`, whose bytes are `fill` before.
    template <class T, class Launch>
    int repeat(T *out, const std::vector<std::vector<T>> &expected, float tolerance, Launch launch,
               int fill = 0xff)
    {
        size_t count = expected[0].size(), bytes = count * sizeof(T);
        T *result;
        CUDA(cudaMallocHost(&result, bytes));
        while (more()) {
            int set = done % expected.size();
            CUDA(cudaMemset(out, fill, bytes));
            begin();
            launch(set);
            end();
            CUDA(cudaMemcpy(result, out, bytes, cudaMemcpyDeviceToHost));
            check(result, expected[set].data(), count, tolerance);
        }
        return finish();
    }

    static float median(std::vector<float> values)
    {
        if (values.empty())
            return 0;
        std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
        return values[values.size() / 2];
    }
    int finish()
    {
        size_t share = std::max<size_t>(1, times.size() / 10);
        std::vector<float> first(times.begin(), times.begin() + std::min(share, times.size()));
        std::vector<float> last(times.end() - std::min(share, times.size()), times.end());
        std::printf("%s: %ld launches checked, %ld wrong; median kernel time %.1f us in the first "
                    "tenth, %.1f us in "
                    "the last%s\n",
                    name, done, wrong, median(first), median(last),
                    small ? " (small sizes; modelled time if on the software GPU)" : "");
        return wrong || !done ? 1 : 0;
    }
};

// A cheap generator, the same on every machine: values in [-1, 1] (the last bits of a
// float round to 1).
inline float noise(unsigned &state)
{
    state = state * 1664525u + 1013904223u;
    return (int)state * (1.0f / 2147483648.0f);
}

inline std::vector<float> noises(size_t count, unsigned &state, float scale = 1)
{
    std::vector<float> values(count);
    for (float &v : values)
        v = scale * noise(state);
    return values;
}

template <class T> T *device_memory(size_t count)
{
    T *memory;
    CUDA(cudaMalloc(&memory, count * sizeof(T)));
    return memory;
}

template <class T> T *on_device(const std::vector<T> &values)
{
    T *memory = device_memory<T>(values.size());
    CUDA(cudaMemcpy(memory, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return memory;
}

template <class T> std::vector<T> on_host(const T *memory, size_t count)
{
    std::vector<T> values(count);
    CUDA(cudaMemcpy(values.data(), memory, count * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
}
