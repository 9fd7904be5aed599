/*
 * route_learned_file_test.c
 *	  Tests the first lines of the learned file, and those that name the devices.
 */
#include "route_test.h"

/* A file of another version or another machine is recognized. */
static void
test_head(void)
{
	char		text[2 * MACHINE_NAME_SIZE];
	StoreText	to = {.out = text,.end = text + sizeof(text)};
	StoreText	from = {.in = text};
	char	   *machine;

	CHECK(text_head(&to, LEARN_TEXT_HEAD) == STORE_TEXT_OK && to.out == text + strlen(text));
	CHECK(text_head(&from, LEARN_TEXT_HEAD) == STORE_TEXT_OK && *from.in == '\0');
	machine = strchr(text, '\n') + 1;
	machine[0] ^= 1;
	from.in = text;
	CHECK(text_head(&from, LEARN_TEXT_HEAD) == STORE_TEXT_OTHER_MACHINE);
	machine[-1] = ' ';
	from.in = text;
	CHECK(text_head(&from, LEARN_TEXT_HEAD) == STORE_TEXT_BAD);
}

/* A device of any name is written to the file and recognized when read. */
void
route_learned_file_tests(void)
{
	static const char *const names[] = {"NVIDIA H200", "", " ", "  one", "one ", "two\nlines", "\n", "-1 2",
	"device 1 2 x", "a name of more characters than fit, which has to be cut off where the line has no more room"};
	static const char *const none[] = {"", "device", "device 1 2", "device 1 2\n", "device 1 x\n", "device x 2 y\n",
	"device 1 2 no end", "cpu 1 2 3\n"};
	GpuLearnedOf of;
	GpuLearnedOf again;
	char		name[GPU_LEARN_NAME];
	char		text[2 * GPU_SECTION_SIZE];
	StoreText	too_long = {.in = text};

	test_head();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		StoreText	to = {.out = text,.end = text + GPU_SECTION_SIZE};
		StoreText	from = {.in = text};

		of.number = (int) i;
		of.memory = i == 0 ? UINT64_MAX : i << 30;
		gpu_learn_name(names[i], of.name);
		CHECK(strlen(of.name) < GPU_LEARN_NAME);
		CHECK(gpu_section_text(&to, &of) && to.out == text + strlen(text) && to.out < to.end);
		/* the next line is not read as part of the name */
		strcat(text, "load 0 0\n");
		CHECK(gpu_section_text(&from, &again) && strcmp(from.in, "load 0 0\n") == 0);
		CHECK(again.number == of.number && again.memory == of.memory);
		CHECK_STR(again.name, of.name);
		gpu_learn_name(again.name, name);
		CHECK_STR(name, of.name);
	}
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
	{
		StoreText	from = {.in = none[i]};

		CHECK(!gpu_section_text(&from, &again));
	}
	memset(text, 'x', sizeof(text));
	memcpy(text, "device 1 2 ", strlen("device 1 2 "));
	strcpy(text + sizeof(text) - 2, "\n");
	CHECK(!gpu_section_text(&too_long, &again));
}
