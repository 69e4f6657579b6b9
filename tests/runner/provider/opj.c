/* A provider for tests: OpenSSL's own algorithms under names that only it knows.
 *
 * opj-sig is Ed25519, opj-exchange X25519, opj-kem ML-KEM-512 (where OpenSSL has it, with the TLS group opj-group);
 * opj-broken is listed as a signature and cannot write its keys. Key files are those of the algorithm underneath.
 * Its types are those of openssl/core.h (provider-base(7)), written out so that no headers are needed.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct { int id; void (*function)(void); } Dispatch;
typedef struct { const char *names, *properties; const Dispatch *functions; const char *description; } Algorithm;
typedef struct { const char *key; unsigned int type; void *data; size_t size, returned; } Param;
typedef int Callback(const Param params[], void *argument);

extern void *OSSL_LIB_CTX_new(void);
extern void *OSSL_PROVIDER_load(void *context, const char *name);
extern const Algorithm *OSSL_PROVIDER_query_operation(const void *provider, int operation, int *no_cache);
extern void *OSSL_PROVIDER_get0_provider_ctx(const void *provider);

enum { KEY_MANAGERS = 10, EXCHANGES = 11, SIGNATURES = 12, KEMS = 14, ENCODERS = 20, MOST = 64, LONGEST = 160 };
static const struct { const char *from, *to; int operation; } RENAMED[] = {
    {"ED25519", "opj-sig", SIGNATURES},
    {"X25519", "opj-exchange", EXCHANGES},
    {"ML-KEM-512", "opj-kem", KEMS},
    {"ED448", "opj-broken", SIGNATURES},
};
static const int OPERATIONS[] = {KEY_MANAGERS, EXCHANGES, SIGNATURES, KEMS, ENCODERS};

static void *own_provider;
static int has_kem;
static Algorithm tables[ENCODERS + 1][MOST];
static char properties[ENCODERS + 1][MOST][LONGEST];

static int first_name_is(const char *names, const char *name)
{
    size_t length = strlen(name);
    return strncmp(names, name, length) == 0 && (names[length] == ':' || names[length] == 0);
}

static int is_renamed(int operation, size_t index)
{
    if (operation == ENCODERS)
        return strcmp(RENAMED[index].to, "opj-broken") != 0;
    return operation == KEY_MANAGERS || operation == RENAMED[index].operation;
}

static void fill(int operation)
{
    int no_cache = 0, count = 0;
    const Algorithm *each = OSSL_PROVIDER_query_operation(own_provider, operation, &no_cache);
    for (; each != NULL && each->names != NULL; each++)
        for (size_t index = 0; index < sizeof RENAMED / sizeof *RENAMED; index++) {
            if (!is_renamed(operation, index) || !first_name_is(each->names, RENAMED[index].from) || count == MOST - 1)
                continue;
            const char *rest = strchr(each->properties, ',');
            snprintf(properties[operation][count], LONGEST, "provider=opj%s", rest ? rest : "");
            tables[operation][count] = *each;
            tables[operation][count].names = RENAMED[index].to;
            tables[operation][count].properties = properties[operation][count];
            has_kem |= operation == KEMS;
            count++;
        }
}

static const Algorithm *query(void *context, int operation, int *no_cache)
{
    *no_cache = 0;
    for (size_t index = 0; index < sizeof OPERATIONS / sizeof *OPERATIONS; index++)
        if (OPERATIONS[index] == operation)
            return tables[operation];
    return NULL;
}

static int capabilities(void *context, const char *capability, Callback *callback, void *argument)
{
    unsigned int id = 0xFE00, bits = 128, is_kem = 1;
    int lowest = 0x0304, highest = 0, none = -1;
    char group[] = "opj-group", algorithm[] = "opj-kem";
    Param params[] = {
        {"tls-group-name", 4, group, sizeof group, 0},
        {"tls-group-name-internal", 4, group, sizeof group, 0},
        {"tls-group-alg", 4, algorithm, sizeof algorithm, 0},
        {"tls-group-id", 2, &id, sizeof id, 0},
        {"tls-group-sec-bits", 2, &bits, sizeof bits, 0},
        {"tls-group-is-kem", 2, &is_kem, sizeof is_kem, 0},
        {"tls-min-tls", 1, &lowest, sizeof lowest, 0},
        {"tls-max-tls", 1, &highest, sizeof highest, 0},
        {"tls-min-dtls", 1, &none, sizeof none, 0},
        {"tls-max-dtls", 1, &none, sizeof none, 0},
        {NULL, 0, NULL, 0, 0},
    };
    return !has_kem || strcmp(capability, "TLS-GROUP") != 0 || callback(params, argument);
}

static const Dispatch FUNCTIONS[] = {
    {1027, (void (*)(void))query}, {1030, (void (*)(void))capabilities}, {0, NULL}};

int OSSL_provider_init(const void *handle, const Dispatch *from_core, const Dispatch **functions, void **context)
{
    own_provider = OSSL_PROVIDER_load(OSSL_LIB_CTX_new(), "default");
    if (own_provider == NULL)
        return 0;
    for (size_t index = 0; index < sizeof OPERATIONS / sizeof *OPERATIONS; index++)
        fill(OPERATIONS[index]);
    *functions = FUNCTIONS;
    *context = OSSL_PROVIDER_get0_provider_ctx(own_provider);
    return 1;
}
