# module.mk: libraries that only the tests of t/ load into a server.
#
#	install-test-module		installs build/gpusort_test.so, an extension's module with test functions (test/module),
#							and build/gpusort_server_calls.so, which is preloaded (test/preload)

TEST_MODULE = build/gpusort_test.so
TEST_SERVER_CALLS = build/gpusort_server_calls.so

# objects of gpusort that the test module calls; it links them, because gpusort.so does not export their functions
TEST_MODULE_OBJS = $(patsubst %,src/key/type/%.o,keytype strings numerics scalars)

$(TEST_MODULE): $(wildcard test/module/*.c) src/compat.h src/scan/heap_page.h src/tiebreak/tie_hash.h \
		src/sort/sort_internal.h src/store/store.h \
		$(TEST_MODULE_OBJS)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -fvisibility=default $(CFLAGS_SL) $(CPPFLAGS) -shared -o $@ $(filter %.c %.o,$^)

$(TEST_SERVER_CALLS): test/preload/server_calls.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O2 -Wall -Wextra -Werror -fPIC -shared -o $@ $< -ldl

.PHONY: install-test-module
install-test-module: $(TEST_MODULE) $(TEST_SERVER_CALLS)
	$(MKDIR_P) '$(DESTDIR)$(pkglibdir)'
	$(INSTALL_SHLIB) $^ '$(DESTDIR)$(pkglibdir)/'
