/* What the fake driver shows beside the driver's own names, and what its files share. */
#ifndef KG_FAKE_H
#define KG_FAKE_H

/* Names of the real functions that were entered, a line each, and their start anew. */
const char *fake_calls(void);
void fake_forget(void);

/* dlsym, as called by the driver. */
void *fake_own(void *handle, const char *name);

/* Adds to the log. Inside the library only. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
