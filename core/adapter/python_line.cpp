#include <torch/csrc/python_headers.h>

#include "python_line.h"

#include <string>
#include <string_view>

#include "ral/trace.h"

namespace torch_fl {
namespace {

bool is_ours(std::string_view file) {
  for (const std::string_view folder : {"/torch/", "/torch_fl_core/"})
    if (file.find(folder) != std::string_view::npos) return true;
  return false;
}

uint32_t line_of(PyFrameObject* frame, bool* ours) {
  PyCodeObject* code = PyFrame_GetCode(frame);
  PyObject* name = code->co_filename;
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(name, &size);
  uint32_t id = 0;
  if (!text) {
    PyErr_Clear();  // a name that is no UTF-8: no line then
  } else {
    const std::string_view file(text, static_cast<size_t>(size));
    *ours = is_ours(file);
    if (!*ours) id = ral::trace::intern(std::string(file) + ":" + std::to_string(PyFrame_GetLineNumber(frame)));
  }
  Py_DECREF(code);
  return id;
}

}  // namespace

uint32_t python_line() {
  if (!Py_IsInitialized()) return 0;
  const PyGILState_STATE state = PyGILState_Ensure();
  uint32_t id = 0;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame) {
    bool ours = false;
    id = line_of(frame, &ours);
    PyFrameObject* back = ours ? PyFrame_GetBack(frame) : nullptr;
    Py_DECREF(frame);
    frame = back;
  }
  PyGILState_Release(state);
  return id;
}

}  // namespace torch_fl
