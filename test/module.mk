# module.mk: a module that only tests load: test/module.
#
#	install-test-module		installs build/gpusort_test.so, for t/

TEST_MODULE = build/gpusort_test.so

$(TEST_MODULE): test/module/gpusort_test.c src/compat.h src/node/heap_page.h
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(CFLAGS_SL) $(CPPFLAGS) -shared -o $@ $<

.PHONY: install-test-module
install-test-module: $(TEST_MODULE)
	$(MKDIR_P) '$(DESTDIR)$(pkglibdir)'
	$(INSTALL_SHLIB) $(TEST_MODULE) '$(DESTDIR)$(pkglibdir)/'
