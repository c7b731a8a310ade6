// Prints the names of all designs; with a name, ends with 0 if that design has its keys in order.

#include <everleaf_lab.h>
#include <stdio.h>

static void show(void *context, el_slice name) {
    (void)context;
    printf("%.*s\n", (int)name.size, (const char *)name.data);
}

int main(int count, char **arguments) {
    if (count < 2) return el_index_designs(show, NULL) == EL_OK ? 0 : 2;
    el_index *index;
    unsigned char pair[16];
    size_t pairs;
    if (el_index_open(arguments[1], NULL, 1 << 26, &index) != EL_OK) {
        fprintf(stderr, "%s\n", el_last_error());
        return 2;
    }
    int code = el_index_scan(index, 1, el_room(pair, sizeof pair), &pairs);
    el_index_free(index);
    return code == EL_OK ? 0 : 1;
}
