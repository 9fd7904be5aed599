# What the CPU kernels are made of; for the unit tests and the benchmark, which
# build them without PostgreSQL.

KERNEL_SRCS = $(wildcard src/kernel/*.c src/kernel/*/*.c)
KERNEL_HDRS = $(wildcard src/kernel/*.h src/kernel/*/*.h)
KERNEL_CFLAGS = -std=gnu99 -O2 -Wall -Wextra -Werror -pthread -Isrc
KERNEL_LIBS = -lm
