/* cuGetProcAddress: by base name, the highest version not above the requested one, and stream form.
 * Asked for itself it gives the form with 4 or with 5 arguments, as its version says. */
#include "soft.h"

#include <string.h>

/* The row of base with the highest version not above the requested one. known: some row has this
 * name and form. */
static const struct entry_row *choose(const char *base, int version, bool ptds, bool *known)
{
    const struct entry_row *best = NULL;
    *known = false;
    for (unsigned i = 0; i < entry_row_count; i++) {
        const struct entry_row *row = &entry_rows[i];
        if ((row->form == FORM_PTDS && !ptds) || (row->form == FORM_LEGACY && ptds) ||
            strcmp(row->base, base))
            continue;
        *known = true;
        if (row->version <= version && (!best || row->version > best->version))
            best = row;
    }
    return best;
}

static CUresult look_up(const char *base, void **function, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult *found)
{
    CUdriverProcAddressQueryResult unused;
    if (!found)
        found = &unused;
    *found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (function)
        *function = NULL;
    if (!base ||
        flags > (CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM))
        return CUDA_ERROR_INVALID_VALUE;
    bool known;
    const struct entry_row *row =
        choose(base, version, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &known);
    if (!row) {
        if (known)
            *found = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
        return CUDA_ERROR_NOT_FOUND;
    }
    *found = CU_GET_PROC_ADDRESS_SUCCESS;
    if (function)
        *function = row->function;
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int driverVersion, cuuint64_t flags)
{
    return look_up(symbol, pfn, driverVersion, flags, NULL);
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int driverVersion, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *symbolFound)
{
    return look_up(symbol, pfn, driverVersion, flags, symbolFound);
}

/* No private table is implemented; refused, the clients that ask for one work without. */
CUresult cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
    if (ppExportTable)
        *ppExportTable = NULL;
    return CUDA_ERROR_NOT_FOUND;
}
