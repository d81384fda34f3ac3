/* What the GPU side of kgenrt finds on this machine: driver, devices, compilers, the model. */
#include "doctor.h"

#include "gpu/nvjitlink.h"
#include "gpu/nvrtc.h"
#include "gpu/real.h"
#include "tune/tune.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

static void one_device(struct doctor *doctor, int ordinal)
{
    struct kg_hardware hardware;
    CUdevice device;
    if (!real_ok(real.cuDeviceGet(&device, ordinal), "cuDeviceGet") ||
        real_hardware(device, &hardware) != KG_OK) {
        finding(doctor, LEVEL_FAIL, "device", "see the driver's log (dmesg, nvidia-smi)",
                "device %d does not answer", ordinal);
        return;
    }
    doctor->gpus++;
    doctor->soft |= !strcmp(hardware.vendor, "softgpu");
    json_array_append_new(doctor->devices, json_hardware(&hardware));
    finding(doctor, LEVEL_OK, "device", NULL, "%d: %s, %s, %u multiprocessors, %.0f GiB, %s",
            ordinal, hardware.name, hardware.arch, hardware.sm_count,
            (double)hardware.memory_bytes / (1 << 30), hardware.uuid);
}

void check_devices(struct doctor *doctor)
{
    int version = 0, count = 0;
    if (real_open(NULL) != KG_OK) {
        finding(doctor, LEVEL_WARN, "driver",
                "install NVIDIA's driver, or in a container pass the GPU through; if it is "
                "installed, put the folder of libcuda.so.1 into LD_LIBRARY_PATH",
                "no GPU driver on this machine (libcuda.so.1 is not found): programs run, nothing "
                "is tuned");
        return;
    }
    CUresult result = real.cuInit ? real.cuInit(0) : CUDA_ERROR_NOT_INITIALIZED;
    if (result != CUDA_SUCCESS) {
        finding(doctor, LEVEL_WARN, "driver",
                result == CUDA_ERROR_NO_DEVICE ? "is CUDA_VISIBLE_DEVICES set and empty?"
                                               : "does nvidia-smi work?",
                "there is a driver, but it does not start: %s", real_error(result));
        return;
    }
    if (!real_ok(real.cuDriverGetVersion(&version), "cuDriverGetVersion") ||
        !real_ok(real.cuDeviceGetCount(&count), "cuDeviceGetCount"))
        count = 0;
    finding(doctor, count ? LEVEL_OK : LEVEL_WARN, "driver",
            count ? NULL : "is CUDA_VISIBLE_DEVICES set and empty?", "for CUDA %d.%d, %d device%s",
            version / 1000, version % 1000 / 10, count, count == 1 ? "" : "s");
    for (int i = 0; i < count; i++)
        one_device(doctor, i);
    if (doctor->soft)
        finding(doctor, LEVEL_NOTE, "driver", NULL,
                "this is the software GPU: its times are modelled, and it runs programs built with "
                "'-cudart shared' only");
}

/* ---- compilers and makers -------------------------------------------------------------------- */

static void version_finding(struct doctor *doctor, const char *what, kg_status status, int version,
                            const char *use, const char *advice)
{
    if (status == KG_OK)
        finding(doctor, LEVEL_OK, what, NULL, "version %d.%d", version / 1000, version % 1000 / 10);
    else
        finding(doctor, LEVEL_WARN, what, advice, "not found: %s", use);
}

static bool find_curl(void)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.so"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (!library)
            continue;
        dlclose(library);
        return true;
    }
    return false;
}

struct makers_seen {
    struct doctor *doctor;
    unsigned count;
    bool rules, openai;
};

static bool see_maker(void *self, const struct maker *maker, const char *text)
{
    struct makers_seen *seen = self;
    seen->count++;
    seen->openai |= !strcmp(maker->name, "openai");
    if (!strcmp(maker->name, "recorded") && access(text, R_OK | X_OK))
        finding(seen->doctor, LEVEL_FAIL, "maker", "correct KGENRT_MAKERS",
                "recorded: the folder '%s' cannot be read", text);
    else
        finding(seen->doctor, LEVEL_OK, "maker", NULL, "%s%s%s", maker->name, *text ? ":" : "",
                text);
    return true;
}

static void check_endpoint(struct doctor *doctor)
{
    const struct kg_options *set = options();
    if (!*set->openai_url)
        finding(doctor, LEVEL_FAIL, "endpoint", "set KGENRT_OPENAI_URL, or leave openai out",
                "the maker openai has no endpoint");
    else if (!*set->openai_model)
        finding(doctor, LEVEL_WARN, "endpoint", "set KGENRT_OPENAI_MODEL",
                "%s, but no model is named", set->openai_url);
    else
        finding(doctor, LEVEL_OK, "endpoint", NULL, "%s, model %s (not contacted)", set->openai_url,
                set->openai_model);
    if (*set->openai_key_file && access(set->openai_key_file, R_OK))
        finding(doctor, LEVEL_FAIL, "endpoint", "correct KGENRT_OPENAI_KEY_FILE",
                "the key file %s cannot be read", set->openai_key_file);
    if (!find_curl())
        finding(doctor, LEVEL_FAIL, "libcurl", "install libcurl4, or leave openai out",
                "not found: no endpoint can be asked");
}

void check_compilers(struct doctor *doctor)
{
    struct makers_seen seen = {.doctor = doctor};
    kg_status nvrtc = nvrtc_open(), link = nvjitlink_open();
    version_finding(doctor, "NVRTC", nvrtc, nvrtc_version(),
                    "variants written in CUDA C++ cannot be compiled",
                    "install the CUDA toolkit's NVRTC, or set KGENRT_NVRTC to its path");
    version_finding(doctor, "nvJitLink", link, nvjitlink_version(),
                    "variants cannot be compiled for this GPU",
                    "install the CUDA toolkit's nvJitLink, or set KGENRT_NVJITLINK to its path");
    makers_each(see_maker, &seen);
    if (!seen.count)
        finding(doctor, LEVEL_FAIL, "maker", "set KGENRT_MAKERS, or unset it for the default",
                "KGENRT_MAKERS names no maker that there is");
    if (seen.openai)
        check_endpoint(doctor);
}
