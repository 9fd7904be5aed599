# module.mk: a module that only tests load: test/module.
#
#	install-test-module		installs build/gpusort_test.so, for t/

TEST_MODULE = build/gpusort_test.so

# what it tests of the extension's insides, which the extension itself may hide
TEST_MODULE_OBJS = $(patsubst %,src/key/type/%.o,keytype abbreviated collation strings numerics \
	addresses bitstrings enums nested key_maker)

$(TEST_MODULE): $(wildcard test/module/*.c) src/compat.h src/node/scan/heap_page.h $(TEST_MODULE_OBJS)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(CFLAGS_SL) $(CPPFLAGS) -shared -o $@ $(filter %.c %.o,$^)

.PHONY: install-test-module
install-test-module: $(TEST_MODULE)
	$(MKDIR_P) '$(DESTDIR)$(pkglibdir)'
	$(INSTALL_SHLIB) $(TEST_MODULE) '$(DESTDIR)$(pkglibdir)/'
