# SPDX-License-Identifier: Apache-2.0
"""Tests marked `full` take minutes or gigabytes: they run with --full only."""
import pytest


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="run the slow tests too")


def pytest_configure(config):
    config.addinivalue_line("markers", "full: slow, runs with --full only")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--full"):
        for item in items:
            if item.get_closest_marker("full"):
                item.add_marker(pytest.mark.skip(reason="slow: needs --full"))
