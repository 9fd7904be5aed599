# What the CPU kernels are made of; for the unit tests and the benchmark, which
# build them without PostgreSQL.

KERNEL_SRCS = $(wildcard src/kernel/*.c)
KERNEL_HDRS = $(wildcard src/kernel/*.h)
KERNEL_CFLAGS = -std=gnu99 -O2 -Wall -Wextra -Werror -pthread
KERNEL_LIBS = -lm
