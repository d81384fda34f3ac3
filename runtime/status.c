/* Texts of the status codes. */
#include "kgenrt.h"

static const char *const texts[] = {
#define STATUS(name, text) text,
#include "status.def"
#undef STATUS
};
_Static_assert(sizeof texts / sizeof *texts == KG_STATUS_COUNT, "one text a status");

const char *status_text(kg_status status)
{
    return (unsigned)status < KG_STATUS_COUNT ? texts[status] : "unknown status";
}
