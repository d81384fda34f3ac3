/* Replays under way, as anybody who uses the cache folder can find and end them: a replay child
 * holds DIR/work/<folder>/child locked (flock) as long as it lives, with its pid and the
 * descriptor's number in it. An app whose allocation fails ends them all, for their memory.
 * Thread-safe; safe in the app. */
#ifndef KG_REPLAYING_H
#define KG_REPLAYING_H

#include "kgenrt.h"

/* In the child, once: its folder is locked until the process ends. */
kg_status replaying_begin(const char *folder);
/* Whether a replay runs now. */
bool replaying_any(const char *dir);
/* Ends all replays of DIR, marks their folders, and waits until they are gone, at most wait_ms.
 * Returns how many were ended. */
unsigned replaying_end_all(const char *dir, unsigned wait_ms);
/* Whether the replay in this folder was ended so. */
bool replaying_ended(const char *folder);

#endif
