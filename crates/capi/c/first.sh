# How the first program is compiled and run, where the library was installed: by a test, and in a clean system.
cc first.c $(pkg-config --cflags --libs everleaf) -o first
./first trees.pool
