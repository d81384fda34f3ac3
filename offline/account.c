/* Where a process's GPU time goes: into kernels that can be replaced, into those that cannot, by
 * reason, and into those whose code was not read. From the shares that its flight recorder has,
 * which are estimates from timed launches. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* The group of this reason, made where there is none. */
static json_t *group_of(json_t *groups, const char *why)
{
    json_t *group;
    size_t i;
    json_array_foreach(groups, i, group)
    {
        if (!strcmp(member_text(group, "why"), why))
            return group;
    }
    group = json_pack("{s:o, s:f, s:i}", "why", json_text(why), "share", 0.0, "kernels", 0);
    json_array_append_new(groups, group);
    return group;
}

static void count(json_t *group, const json_t *kernel)
{
    double share = member_number(group, "share") + member_number(kernel, "share");
    json_object_set_new(group, "share", json_real(share));
    json_object_set_new(group, "kernels",
                        json_integer((json_int_t)member_number(group, "kernels") + 1));
}

static int larger_first(const void *a, const void *b)
{
    double x = member_number(*(json_t *const *)a, "share"),
           y = member_number(*(json_t *const *)b, "share");
    return (x < y) - (x > y);
}

json_t *gpu_time_account(const json_t *process)
{
    json_t *groups = json_array(), *kernel;
    json_t *eligible = json_pack("{s:f, s:i}", "share", 0.0, "kernels", 0);
    json_t *unread = json_pack("{s:f, s:i}", "share", 0.0, "kernels", 0);
    double sum = 0;
    size_t i;
    json_array_foreach(json_object_get(process, "kernels"), i, kernel)
    {
        sum += member_number(kernel, "share");
        bool fit = json_is_true(json_object_get(kernel, "eligible"));
        if (!json_is_object(kernel))
            continue;
        if (!strcmp(member_text(kernel, "state"), "unfit"))
            count(group_of(groups, member_text(kernel, "why")), kernel);
        else
            count(fit ? eligible : unread, kernel);
    }
    double kernels = member_number(process, "left_out");
    json_t *left_out = json_pack("{s:f, s:i}", "share", kernels > 0 && sum < 1 ? 1 - sum : 0.0,
                                 "kernels", (int)kernels);
    return json_pack("{s:o, s:o, s:o, s:o}", "eligible", eligible, "left_alone",
                     json_sorted(groups, larger_first), "not_read", unread, "left_out", left_out);
}

/* Nothing was timed: the program was too short. */
static bool empty(const json_t *account)
{
    const json_t *group;
    double sum = member_number(json_object_get(account, "eligible"), "share") +
                 member_number(json_object_get(account, "not_read"), "share");
    size_t i;
    json_array_foreach(json_object_get(account, "left_alone"), i, group)
    {
        sum += member_number(group, "share");
    }
    return !(sum > 0);
}

void gpu_time_print(const json_t *account)
{
    const json_t *group, *unread = json_object_get(account, "not_read");
    const json_t *left_out = json_object_get(account, "left_out");
    size_t i;
    if (empty(account)) {
        say("  where the GPU time goes is not known: too short a run\n");
        return;
    }
    say("  %.1f%% of the GPU time is in kernels that can be replaced\n",
        100 * member_number(json_object_get(account, "eligible"), "share"));
    json_array_foreach(json_object_get(account, "left_alone"), i, group)
    {
        double kernels = member_number(group, "kernels");
        say("    %.1f%% in %.0f kernel%s left alone: %s\n", 100 * member_number(group, "share"),
            kernels, kernels == 1 ? "" : "s", member_text(group, "why"));
    }
    if (member_number(unread, "share") > 0)
        say("    %.1f%% in %.0f whose code was not read: too short a run, or too small a share\n",
            100 * member_number(unread, "share"), member_number(unread, "kernels"));
    if (member_number(left_out, "share") > 0)
        say("    %.1f%% in %.0f more that the flight recorder had no room for\n",
            100 * member_number(left_out, "share"), member_number(left_out, "kernels"));
}
