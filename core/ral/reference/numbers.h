// Functions of numbers that more than one family computes with.
#pragma once
#include "internal.h"

namespace ral::reference {

// log(exp(a) + exp(b)). Of complex numbers the one of larger real part leads, and gives the branch of the logarithm, as
// in PyTorch.
double log_add(double a, double b);
Complex log_add(const Complex& a, const Complex& b);

}  // namespace ral::reference
