/* Attributes of a launch: kept for a variant, or a reason for the original: attributes.def says
 * which. On the hot path, but only of launches that have some. */
#include "app/app.h"

enum refusal attributes_refused(const struct launch *launch)
{
    for (unsigned i = 0; i < launch->attributes; i++) {
        const CUlaunchAttributeValue *v = &launch->config->attrs[i].value;
        enum refusal why = REFUSED_ATTRIBUTES;
        switch ((int)launch->config->attrs[i].id) {
#define ATTRIBUTE(id, name, refusal, condition)                                                    \
    case id:                                                                                       \
        why = (condition) ? REFUSED_##refusal : REFUSAL_COUNT;                                     \
        break;
#include "app/attributes.def"
#undef ATTRIBUTE
        default:
            break;
        }
        if (why != REFUSAL_COUNT)
            return why;
    }
    return REFUSAL_COUNT;
}
