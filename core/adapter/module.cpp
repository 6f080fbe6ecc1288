// The adapter as a Python extension: what torch_fl_core's Python needs of the device, the router and the trace.
#include <ATen/EmptyTensor.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "adapter.h"
#include "explain.h"
#include "ral/kernel_router.h"

namespace py = pybind11;

namespace torch_fl {
namespace {

// Words of the trace's line, set by instrumented cells: called for every statement, so without pybind11.
PyObject* trace_line(PyObject*, PyObject* arg) {
  const auto id = static_cast<uint32_t>(PyLong_AsUnsignedLong(arg));
  if (PyErr_Occurred()) return nullptr;
  auto& context = ral::trace::context();
  context.location = context.inner_location = id;
  ral::trace::g_main_location.store(id | static_cast<uint64_t>(id) << 32, std::memory_order_relaxed);
  Py_RETURN_NONE;
}
PyObject* trace_inner(PyObject*, PyObject* arg) {
  const auto id = static_cast<uint32_t>(PyLong_AsUnsignedLong(arg));
  if (PyErr_Occurred()) return nullptr;
  auto& context = ral::trace::context();
  context.inner_location = id;
  ral::trace::g_main_location.store(context.location | static_cast<uint64_t>(id) << 32, std::memory_order_relaxed);
  Py_RETURN_NONE;
}
PyObject* trace_push(PyObject*, PyObject*) { return PyLong_FromUnsignedLong(ral::trace::context().inner_location); }

PyMethodDef g_methods[] = {{"trace_line", trace_line, METH_O, "Sets this thread's line (a location id; 0 clears)."},
                           {"trace_inner", trace_inner, METH_O, "Sets this thread's innermost line (a location id)."},
                           {"trace_push", trace_push, METH_NOARGS, "The innermost line's id, for trace_pop."},
                           {"trace_pop", trace_inner, METH_O, "Restores what trace_push returned."},
                           {nullptr, nullptr, 0, nullptr}};

py::dict stats_of(c10::DeviceIndex index) {
  const auto s = device_at(index).pool().stats();
  py::dict out;
  out["allocated_bytes"] = s.allocated;
  out["allocated_bytes_peak"] = s.allocated_peak;
  out["reserved_bytes"] = s.reserved;
  out["reserved_bytes_peak"] = s.reserved_peak;
  out["active_blocks"] = s.active_blocks;
  out["segments"] = s.segments;
  out["allocations"] = s.allocations;
  out["frees"] = s.frees;
  out["cache_hits"] = s.cache_hits;
  out["device_mallocs"] = s.device_mallocs;
  out["retries"] = s.retries;
  out["out_of_memory"] = s.out_of_memory;
  out["live_views"] = s.live_views;
  out["foreign_cpu_blocks"] = foreign_cpu_blocks();
  return out;
}

py::object text_or_none(uint32_t id) {
  const auto text = ral::trace::text_of(id);
  return text.empty() ? py::object(py::none()) : py::object(py::str(text));
}

py::list views_of(const ral::BlockInfo& block) {
  py::list out;
  for (const auto& v : block.views) {
    py::dict view;
    view["id"] = v.id;
    view["parent"] = v.parent;
    view["offset"] = v.offset;
    view["bytes"] = v.bytes;
    out.append(view);
  }
  return out;
}

py::list snapshot_of(c10::DeviceIndex index) {
  py::list out;
  for (const auto& segment : device_at(index).pool().snapshot()) {
    py::list blocks;
    for (const auto& b : segment.blocks) {
      py::dict block;
      block["address"] = reinterpret_cast<uintptr_t>(b.address);
      block["size"] = b.size;
      block["capacity"] = b.capacity;
      block["id"] = b.id;
      block["stream"] = b.stream;
      block["state"] = b.in_use ? "active" : "cached";
      block["op"] = text_or_none(b.in_use ? b.op : 0);
      block["line"] = text_or_none(b.in_use ? b.location : 0);
      block["views"] = views_of(b);
      blocks.append(block);
    }
    py::dict row;
    row["address"] = reinterpret_cast<uintptr_t>(segment.address);
    row["size"] = segment.size;
    row["blocks"] = blocks;
    out.append(row);
  }
  return out;
}

py::dict info_of(c10::DeviceIndex index) {
  const auto& device = device_at(index);
  const auto& info = device.info();
  py::dict out;
  out["name"] = info.name;
  out["vendor"] = info.vendor;
  out["driver"] = info.driver;
  out["kind"] = static_cast<int>(info.kind);
  out["total_memory"] = info.total_memory;
  out["max_allocation"] = info.max_allocation;
  out["compute_units"] = info.compute_units;
  out["dma_engines"] = info.dma_engines;
  out["host_visible"] = device.host_visible();
  out["fp16"] = (info.flags & RAL_DEVICE_FP16) != 0;
  out["bf16"] = (info.flags & RAL_DEVICE_BF16) != 0;
  out["fp64"] = (info.flags & RAL_DEVICE_FP64) != 0;
  out["uuid"] = info.uuid;
  out["plugin"] = device.plugin().name;
  out["plugin_version"] = device.plugin().version;
  return out;
}

template <class F>
auto without_gil(F&& body) {
  py::gil_scoped_release release;
  return guarded(std::forward<F>(body));
}

void bind_trace(py::module_& m) {
  m.def("trace_path", [] { return without_gil([] { return ral::trace::path(); }); });
  m.def("trace_acquire", [] {
    without_gil([] { ral::trace::acquire(); });
    sync_observer();
  });
  m.def("trace_release", [] {
    without_gil([] { ral::trace::release(); });
    sync_observer();
  });
  m.def("trace_flush", [](bool wait) { without_gil([&] { ral::trace::flush(wait); }); }, py::arg("wait") = false);
  m.def("trace_intern", [](const std::string& text) { return ral::trace::intern(text); });
  m.def("trace_mark", [](const std::string& text) { ral::trace::mark(text); });
  m.def("trace_set_kernel_id", [](const std::string& id) { ral::trace::set_kernel_id(id); });
  m.def("trace_enabled", [] { return ral::trace::enabled(); });
}

void bind_devices(py::module_& m) {
  auto manager = [] { return &ral::DeviceManager::get(); };
  m.def("set_own_plugin_folder", [manager](const std::string& folder) { manager()->set_own_folder(folder); });
  m.def("set_thread_budget", [manager](int n) { manager()->set_thread_budget(n); });
  m.def("device_count", [manager] { return without_gil([&] { return manager()->count(); }); });
  m.def("discovered", [manager] { return manager()->discovered(); });
  m.def("current_device", [] { return static_cast<int>(current_device()); });
  m.def("set_device", [](int index) {
    const int old = current_device();
    without_gil([&] { set_device(static_cast<c10::DeviceIndex>(index)); });
    return old;
  });
  m.def("synchronize",
        [](int index) { without_gil([&] { device_at(static_cast<c10::DeviceIndex>(index)).synchronize(); }); });
  m.def("device_info",
        [](int index) { return guarded([&] { return info_of(static_cast<c10::DeviceIndex>(index)); }); });
  m.def("status_json", [manager] { return without_gil([&] { return manager()->status_json(); }); });
  m.def("plugins", [manager] {
    const auto reports = without_gil([&] { return manager()->plugins(); });
    py::list out;
    for (const auto& r : reports) {
      py::dict row;
      row["name"] = r.name;
      row["version"] = r.version;
      row["path"] = r.path;
      row["status"] = ral::plugin_status_name(r.status);
      row["reason"] = r.reason;
      row["missing"] = r.missing;
      row["device_count"] = r.device_count;
      out.append(row);
    }
    return out;
  });
  m.def("plugin_search_path", [manager] { return manager()->search_path(); });
  m.def("mark_forked", [manager] {
    manager()->mark_forked();
    ral::trace::after_fork_child();
  });
  m.def("forked", [manager] { return manager()->forked(); });
  m.def("launch_cost", [](int index) {
    return without_gil([&] { return device_at(static_cast<c10::DeviceIndex>(index)).launch_cost(); });
  });
}

void bind_memory(py::module_& m) {
  m.def("memory_stats",
        [](int index) { return guarded([&] { return stats_of(static_cast<c10::DeviceIndex>(index)); }); });
  m.def("memory_snapshot",
        [](int index) { return guarded([&] { return snapshot_of(static_cast<c10::DeviceIndex>(index)); }); });
  m.def("free_memory", [](int index) {
    return guarded([&] { return device_at(static_cast<c10::DeviceIndex>(index)).pool().free_memory(); });
  });
  m.def("empty_cache",
        [](int index) { without_gil([&] { device_at(static_cast<c10::DeviceIndex>(index)).pool().empty_cache(); }); });
  m.def("reset_peak",
        [](int index) { guarded([&] { device_at(static_cast<c10::DeviceIndex>(index)).pool().reset_peak(); }); });
  m.def("reset_accumulated", [](int index) {
    guarded([&] { device_at(static_cast<c10::DeviceIndex>(index)).pool().reset_accumulated(); });
  });
  m.def("set_memory_fraction", [](double fraction, int index) {
    guarded([&] { device_at(static_cast<c10::DeviceIndex>(index)).pool().set_fraction(fraction); });
  });
  m.def("record_memory_history", [](bool on) { record_memory_history(on); });
  m.def("buffer_id", [](const at::Tensor& t) -> uint64_t {
    const auto* block = is_ral(t) ? block_of(t) : nullptr;
    return block ? block->id : 0;
  });
  m.def("pointer", [](const at::Tensor& t) {
    return guarded([&] {
      const auto bytes = at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize());
      const auto pointer = ral::MemoryPool::pointer(t.const_data_ptr(), bytes, device_at(t.device().index()));
      return py::make_tuple(reinterpret_cast<uintptr_t>(pointer.address), pointer.bytes, pointer.generation,
                            t.device().index());
    });
  });
  m.def("check_pointer", [](uintptr_t address, uint64_t bytes, uint64_t generation, int index) {
    guarded([&] {
      const ral::Pointer pointer{reinterpret_cast<const void*>(address), bytes, generation};
      ral::MemoryPool::place(pointer, device_at(static_cast<c10::DeviceIndex>(index)));
    });
  });
}

void bind_router(py::module_& m) {
  auto router = [] { return &ral::KernelRouter::get(); };
  m.def("policy", [router] {
    const auto p = router()->policy();
    return py::make_tuple(p.text(), p.strict);
  });
  m.def("set_policy",
        [router](const std::string& order, bool strict) { guarded([&] { router()->set_policy(order, strict); }); });
  m.def("native_ops", [router](int index) {
    return guarded([&] { return router()->ops(device_at(static_cast<c10::DeviceIndex>(index))); });
  });
  m.def("manifest_schema", [] { return std::string(ral::manifest_schema()); });
  m.def("time_plan_lookup",
        [](const at::Tensor& operand, int times) { return guarded([&] { return time_plan_lookup(operand, times); }); });
  m.def("pending_builds", [] { return pending_builds(); });
  m.def("set_explaining", [](bool on) { set_explaining(on); });
  m.def("take_explanation", [] {
    const auto e = take_explanation();
    py::dict out;
    out["op"] = e.op;
    out["device"] = e.device;
    out["tier"] = e.tier;
    out["kernel"] = e.kernel;
    out["reason"] = e.reason_json;
    return out;
  });
}

}  // namespace
}  // namespace torch_fl

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  using namespace torch_fl;
  m.doc() = "PyTorch adapter of the Runtime Abstraction Layer";
  bind_trace(m);
  bind_devices(m);
  bind_memory(m);
  bind_router(m);
  m.def("register_router", [] { register_router(); });
  m.def("stop_preparing", [] {
    py::gil_scoped_release release;
    stop_preparing();
  });
  m.def("default_generator", [](int index) { return default_generator(static_cast<c10::DeviceIndex>(index)); });
  m.def("set_ral_error_type", [](py::object type) { set_ral_error_type(type.release().ptr()); });
  if (PyModule_AddFunctions(m.ptr(), g_methods) != 0) throw py::error_already_set();
}
