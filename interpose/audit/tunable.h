/* With an auditor, glibc lays out thread-local memory before it knows the program's libraries, and
 * what they ask of it at the start must fit into a reserve: of 2 KiB, or a program that is linked
 * to an allocator, or has one preloaded, would not start. Virtual memory of each thread. */
#define AUDIT_TUNABLE "glibc.rtld.optional_static_tls=65536"
