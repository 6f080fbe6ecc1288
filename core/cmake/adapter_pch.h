// adapter_pch.h - precompiled for the adapter: torch's headers take longer to parse than our sources.
#pragma once

#include <ATen/core/TensorBody.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include <string>
#include <unordered_map>
#include <vector>
