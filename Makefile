# Every target first installs what it needs in the virtual environment $(VENV).
PYTHON ?= python3
VENV ?= .venv
JOBS ?= 3
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DEMO := runs/demo

.PHONY: help demo demo-dense test check soak docs docs-test fuzz apk libraries gradle-wrapper android-test android-setup \
	web-test web-setup lint format lock clean
.DEFAULT_GOAL := help

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(INSTALLED) ## train on the digits, export, evaluate: a few minutes
	$(BIN)/python train/fit.py --data digits --out $(DEMO) --overwrite
	$(BIN)/python export/to_tflite.py --run $(DEMO) --quantize none float16 dynamic int8
	$(BIN)/python train/evaluate.py --run $(DEMO) --min-accuracy 0.975
	@echo
	@echo "run folder  $(CURDIR)/$(DEMO)"
	@echo "bundle      $(CURDIR)/$(DEMO)/export/int8"
	@echo "report      $(CURDIR)/$(DEMO)/report/index.html"
	@echo
	@echo "Next, with your own pictures (a folder with one subfolder for each class):"
	@echo "  $(BIN)/python train/fit.py --data flower_photos --out runs/flowers"
	@echo "  $(BIN)/python export/to_tflite.py --run runs/flowers --quantize int8"

demo-dense: $(INSTALLED) ## learn the class of each pixel on composed scenes, evaluate, export: a few minutes
	$(BIN)/python train/fit.py --data scenes --out $(DEMO)-dense --overwrite
	$(BIN)/python train/evaluate.py --run $(DEMO)-dense --min-accuracy 0.8
	$(BIN)/python export/to_tflite.py --run $(DEMO)-dense --quantize none float16 dynamic int8
	@echo
	@echo "report      $(CURDIR)/$(DEMO)-dense/report/index.html"

test: lint ## lint and the essential tests, in both flavours of Keras: under eight minutes
	TF_USE_LEGACY_KERAS=0 $(BIN)/pytest -q -n $(JOBS) --dist worksteal -m "not slow and not soak"
	TF_USE_LEGACY_KERAS=1 $(BIN)/pytest -q -n $(JOBS) --dist worksteal -m "flavours and not slow and not soak"

check: $(INSTALLED) ## the demo, the documents, every precision, other programs, the wheel, slow tests
	JOBS=$(JOBS) $(BIN)/python tests/check.py

soak: $(INSTALLED) $(DEMO)/export/table.json ## what proves by repetition; with SOAK_OF=COMMIT only the one that its hash chooses
	JOBS=$(JOBS) $(BIN)/python tests/check.py $(if $(SOAK_OF),--soak-of $(SOAK_OF),--soaks)

fuzz: $(INSTALLED) ## read damaged files of every kind for SECONDS=60, or of KINDS="npz run" only
	$(BIN)/python tests/fuzz/fuzz.py --seconds $(or $(SECONDS),60) --jobs $(JOBS) \
		$(if $(KINDS),--kinds $(KINDS))

docs: $(INSTALLED) ## build the documents and the Python API strictly: build/docs/index.html
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=$(CURDIR) $(BIN)/mkdocs build --strict --quiet
	@echo "open build/docs/index.html; for the search: python -m http.server --directory build/docs"

docs-test: docs ## open every page of them in Chromium, as wide as a phone and as a desktop
	cd web_demo && npm ci --ignore-scripts --no-audit --no-fund
	cd web_demo && node --test tests/docs.browser.js

# The app is built by Maven and Python's standard library; its tests run LiteRT of $(VENV).
apk: ## build the Android app from the command line: android_demo/build/keras-vit-demo.apk and .aab
	$(PYTHON) android_demo/tools/build_apk.py

libraries: ## publish the libraries for apps and the JVM to Maven's local repository
	$(PYTHON) android_demo/tools/publish.py

gradle-wrapper: ## bring android_demo/gradlew, which builds the app as Android Studio does
	$(PYTHON) android_demo/tools/gradle_wrapper.py

android-test: $(INSTALLED) ## the tests of the Android app with LiteRT of the environment, and its APK
	$(PYTHON) android_demo/tools/test_app.py

android-setup: ## install the Debian packages that these two need (as root)
	apt-get update
	apt-get install --yes --no-install-recommends $$($(PYTHON) android_demo/tools/packages.py)

web-test: $(INSTALLED) $(DEMO)/export/table.json ## all tests of the web page, in Chromium
	cd web_demo && npm ci --ignore-scripts --no-audit --no-fund
	cd web_demo && node --test tests/*.test.js
	$(BIN)/python web_demo/tests/prepare.py $(DEMO) web_demo/build/test
	cd web_demo && node --test --test-reporter=spec tests/page.browser.js

web-setup: ## install the Debian packages that it needs (as root)
	apt-get update
	command -v chromium || apt-get install --yes --no-install-recommends chromium
	command -v node && command -v npm || apt-get install --yes --no-install-recommends nodejs npm

$(DEMO)/export/table.json:
	$(MAKE) demo

lint: $(INSTALLED) ## check the code and its format with ruff
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .

format: $(INSTALLED) ## fix and format the code with ruff
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# One lock file for Python 3.10 to 3.13. backports-strenum 1.3 cannot be installed on Python 3.11 and
# newer, and uv does not notice this, because it resolves for Python 3.10.
lock: $(INSTALLED) ## resolve requirements.lock again from setup.py
	$(BIN)/pip install --quiet uv
	echo 'backports-strenum<1.3' | $(BIN)/uv pip compile setup.py --extra all --extra docs --extra test --universal \
		--python-version 3.10 --constraint - --output-file requirements.lock --quiet --upgrade \
		--no-annotate --no-emit-index-url --custom-compile-command "make lock"

clean: ## remove the virtual environment and caches; runs/ stays
	rm -rf $(VENV) .pytest_cache .ruff_cache *.egg-info

$(INSTALLED): requirements.lock setup.py
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; (3, 10) <= v <= (3, 13) or sys.exit( \
		"Python 3.10 to 3.13 is needed. Received: %d.%d; pass PYTHON=python3.13 or so." % v)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
