// Translation of ral::Error into the exceptions that Python users see.
#include <c10/util/Exception.h>

#include "adapter.h"

namespace torch_fl {
namespace {
PyObject* g_ral_error = nullptr;
}

void set_ral_error_type(PyObject* type) { g_ral_error = type; }

PyObject* RalPyError::python_type() { return g_ral_error ? g_ral_error : PyExc_RuntimeError; }

void rethrow(const ral::Error& error) {
  if (error.code() == RAL_ERROR_OUT_OF_MEMORY) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, error.what());
  }
  throw RalPyError(error.what());
}

}  // namespace torch_fl
