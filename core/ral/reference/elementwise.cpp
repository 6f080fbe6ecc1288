// The loop of the element-wise operators.
#include "elementwise.h"

#include <map>

namespace ral::reference {
namespace {

// PyTorch's result type: a 0-dim tensor counts against one with dims, and a number against any tensor, only where it
// is of a higher kind.
ral_dtype weaker(ral_dtype strong, ral_dtype weak) {
  if (strong < 0) return weak;
  if (weak < 0) return strong;
  if (strong != RAL_BOOL && is_integral(weak)) return strong;
  if (is_complex(strong) || (!is_integral(strong) && !is_complex(weak))) return strong;
  return promote(strong, weak);
}

ral_dtype number_type(const ral_value& value) {
  if (value.tag == RAL_VALUE_INT) return RAL_INT64;
  if (value.tag == RAL_VALUE_BOOL) return RAL_BOOL;
  if (value.tag == RAL_VALUE_DOUBLE) return RAL_FLOAT32;
  return value.tag == RAL_VALUE_COMPLEX ? RAL_COMPLEX64 : -1;
}

bool reads(const Op& op, uint32_t i) { return !(op.skip >> i & 1); }

ral_dtype common_type(const Op& op, const Call& call) {
  ral_dtype dims = -1, scalars = -1, numbers = -1;
  for (uint32_t i = 0; i < op.arity; ++i) {
    if (!reads(op, i) || !call.given(i)) continue;
    if (!call.is_tensor(i)) {
      numbers = promote(numbers, number_type(*call.value(i)));
      continue;
    }
    const View view = call.tensor(i);
    ral_dtype& target = view.rank() > 0 ? dims : scalars;
    target = promote(target, view.dtype);
  }
  return weaker(weaker(dims, scalars), numbers);
}

Domain domain_for(const Op& op, ral_dtype common, ral_dtype out) {
  if (op.rule == Rule::Output || common < 0) return domain_of(out);
  if (op.rule == Rule::Source) return domain_of(common);
  return std::max(domain_of(common), domain_of(out));
}

Fn<Int> chosen(const Op& op, Int) { return op.as_int; }
Fn<UInt> chosen(const Op& op, UInt) { return op.as_uint; }
Fn<Real> chosen(const Op& op, Real) { return op.as_real; }
Fn<Complex> chosen(const Op& op, Complex) { return op.as_complex; }

// A value as an element of this dtype would hold it.
template <class T>
T through(ral_dtype type, T value) {
  char place[16];
  storer<T>(type)(place, value);
  return loader<T>(type)(place);
}

template <class T>
struct Operand {
  int argument;
  View view;
  Load<T> load;
};

template <class T>
void run_as(const Op& op, const Call& call, ral_dtype common, Fn<T> f) {
  if (!f) refuse(std::string(op.name) + " has no kernel for " + dtype_name(common));
  const View out = call.out();
  const bool rounds = op.discontinuous && (std::is_same_v<T, Real> || std::is_same_v<T, Complex>);
  Args<T> args{{}, 0, out.dtype};
  std::vector<Operand<T>> operands;
  std::vector<Dims> strides{out.strides};
  for (uint32_t i = 0; i < op.arity; ++i) {
    if (!reads(op, i) || !call.given(i)) continue;
    args.given = static_cast<uint8_t>(args.given | 1u << i);
    const ral_value& value = *call.value(i);
    if (call.is_tensor(i)) {
      const View view = broadcast(call.tensor(i), out.shape);
      operands.push_back({static_cast<int>(i), view, loader<T>(view.dtype)});
      strides.push_back(view.strides);
    } else if (value.tag == RAL_VALUE_STRING) {
      args.values[i] = T(text_code(value.u.string));
    } else {
      args.values[i] = rounds ? through<T>(common, number<T>(value)) : number<T>(value);
    }
  }
  const Store<T> store = storer<T>(out.dtype);
  for (int writes = op.checked ? 0 : 1; writes < 2; ++writes) {
    for (Walk walk(out.shape, strides); walk; walk.next()) {
      for (size_t k = 0; k < operands.size(); ++k) {
        const T value = operands[k].load(operands[k].view.data + walk[k + 1]);
        const bool round = rounds && operands[k].view.dtype != common;
        args.values[operands[k].argument] = round ? through<T>(common, value) : value;
      }
      const T result = f(args);
      if (writes) store(out.data + walk[0], result);
    }
  }
}

}  // namespace

int text_code(const std::string& text) {
  static const std::map<std::string, int> codes = {{"none", 0}, {"tanh", 1}, {"trunc", 1}, {"floor", 2}};
  const auto place = codes.find(text);
  if (place == codes.end()) refuse("mode \"" + text + "\"");
  return place->second;
}

void elementwise(const Op& op, const Call& call) {
  require(call.arg_count() >= op.arity, "fewer arguments than the schema lists");
  require(call.given(0) || !reads(op, 0), "argument 0 is absent");
  const ral_dtype common = common_type(op, call);
  in_domain(domain_for(op, common, call.out().dtype), [&](auto zero) {
    using T = decltype(zero);
    run_as<T>(op, call, common < 0 ? call.out().dtype : common, chosen(op, T()));
  });
}

}  // namespace ral::reference
