/* The log's one setting that is not an option; what everybody needs of the log is in kgenrt.h. */
#ifndef KG_LOG_H
#define KG_LOG_H

#include <stddef.h>

/* From now on each line is what the function makes of it (the tool: readable names). Call it before
 * there are threads. */
void log_readable(const char *(*function)(const char *line, char *out, size_t size));

#endif
