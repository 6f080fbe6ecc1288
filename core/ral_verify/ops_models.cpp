// Operators of layers, losses, indexing, sorting and moving elements. Their outputs stand behind "->".
#include "ops.h"

namespace ral_verify {

namespace {

constexpr auto kGiven = Shape::Given;
constexpr auto kSame = Type::Same;

// Scales and variances are inputs too: nothing below 0.
#define NORM(patterns) patterns, kGiven, kSame, 0.2, 2
#define LOSS(patterns) patterns, kGiven, kSame, 0.05, 0.95

#define CONVOLUTION                                                                          \
  "T[2,3,8,8] T[4,3,3,3] T[4] l[1,1] l[1,1] l[1,1] b0 l[0,0] i1 -> T[2,4,8,8] | "            \
  "T[1,4,9,7] T[6,2,3,3] n l[2,2] l[1,1] l[1,1] b0 l[0,0] i2 -> T[1,6,5,4] | "               \
  "T[2,4,5,5] T[4,3,3,3] T[3] l[2,2] l[1,1] l[1,1] b1 l[1,1] i1 -> T[2,3,10,10] | "          \
  "T[2,3,20] T[5,3,4] T[5] l[1] l[0] l[2] b0 l[0] i1 -> T[2,5,14] | "                        \
  "T[1,2,4,5,6] T[3,2,2,2,2] n l[1,1,1] l[0,0,0] l[1,1,1] b0 l[0,0,0] i1 -> T[1,3,3,4,5] | " \
  "T[2,4,6,6] T[4,1,3,3] T[4] l[1,1] l[1,1] l[1,1] b0 l[0,0] i4 -> T[2,4,6,6]"
#define INDEX                                                      \
  "T[5,6] O(I5[4]) -> T[4,6] | T[5,6,7] O(n;I6[3]) -> T[5,3,7] | " \
  "T[5,6,7] O(I5[3];n;I7[3]) -> T[3,6] | T[5,6] O(I5[2,3];I6[3]) -> T[2,3]"
#define BATCH_NORM                                                    \
  "T[4,3,5,5] T[3] T[3] n n b1 d0.1 d1e-5 -> T[4,3,5,5] V[3] V[3] | " \
  "T[4,3,5,5] n n n n b1 d0.1 d1e-3 -> T[4,3,5,5] V[3] V[3] | "       \
  "T[6,5] T[5] T[5] V[5] V[5] b0 d0.1 d1e-5 -> T[6,5] V[5]? V[5]?"
#define LOSS_OF_TWO(tail) \
  "T[6,40] T[6,40] i1" tail " -> T[] | T[6,40] T[6,40] i0" tail " -> T[6,40] | T[6,40] T[6,40] i2" tail " -> T[]"
#define LOSS_OF_TWO_BACKWARD(tail) \
  "T[] T[6,40] T[6,40] i1" tail " -> T[6,40] | T[6,40] T[6,40] T[6,40] i0" tail " -> T[6,40]"

}  // namespace

const Op kModelOps[] = {
    {"convolution", CONVOLUTION, kGiven, kSame, -2, 2},
    {"convolution_overrideable", CONVOLUTION, kGiven, kSame, -2, 2},
    {"convolution_backward",
     "T[2,4,8,8] T[2,3,8,8] T[4,3,3,3] l[4] l[1,1] l[1,1] l[1,1] b0 l[0,0] i1 m111 -> T[2,3,8,8] T[4,3,3,3] T[4] | "
     "T[1,6,5,4] T[1,4,9,7] T[6,2,3,3] l[6] l[2,2] l[1,1] l[1,1] b0 l[0,0] i2 m111 -> T[1,4,9,7] T[6,2,3,3] T[6]",
     kGiven, kSame, -2, 2},

    {"native_layer_norm_backward",
     NORM("T[6,40] T[6,40] l[40] V[6,1] V[6,1] T[40] T[40] m111 -> T[6,40] T[40] T[40] | "
          "T[3,5,8] T[3,5,8] l[5,8] V[3,1,1] V[3,1,1] T[5,8] T[5,8] m111 -> T[3,5,8] T[5,8] T[5,8]")},
    {"native_batch_norm", NORM(BATCH_NORM)},
    {"_native_batch_norm_legit", NORM("T[6,5] T[5] T[5] V[5] V[5] b0 d0.1 d1e-5 -> T[6,5] V[5]? V[5]? | "
                                      "T[4,3,5,5] n n V[3] V[3] b0 d0.1 d1e-3 -> T[4,3,5,5] V[3]? V[3]?")},
    {"_native_batch_norm_legit_functional",
     NORM("T[4,3,5,5] T[3] T[3] V[3] V[3] b1 d0.1 d1e-5 -> T[4,3,5,5] V[3] V[3] V[3] V[3]")},
    {"_native_batch_norm_legit_no_training",
     NORM("T[4,3,5,5] T[3] T[3] V[3] V[3] d0.1 d1e-5 -> T[4,3,5,5] V[3]? V[3]? | "
          "T[6,5] n n V[5] V[5] d0.1 d1e-3 -> T[6,5] V[5]? V[5]?")},
    {"_native_batch_norm_legit.no_stats", NORM("T[4,3,5,5] T[3] T[3] b1 d0.1 d1e-5 -> T[4,3,5,5] V[3] V[3]")},
    {"native_batch_norm_backward",
     NORM("T[4,3,5,5] T[4,3,5,5] T[3] V[3] V[3] V[3] V[3] b1 d1e-5 m111 -> T[4,3,5,5] T[3] T[3] | "
          "T[6,5] T[6,5] T[5] V[5] V[5] V[5] V[5] b0 d1e-5 m111 -> T[6,5] T[5] T[5]")},
    {"native_group_norm", NORM("T[2,6,4,4] T[6] T[6] i2 i6 i16 i3 d1e-5 -> T[2,6,4,4] T[2,3] T[2,3] | "
                               "T[3,4,7] n n i3 i4 i7 i1 d1e-3 -> T[3,4,7] T[3,1] T[3,1]")},
    {"native_group_norm_backward",
     NORM("T[2,6,4,4] T[2,6,4,4] T[2,3] T[2,3] T[6] i2 i6 i16 i3 m111 -> T[2,6,4,4] T[6] T[6]")},

    {"max_pool2d_with_indices",
     "T[2,3,8,8] l[2,2] l[2,2] l[0,0] l[1,1] b0 -> T[2,3,4,4] I[2,3,4,4] | "
     "T[1,2,9,7] l[3,3] l[2,2] l[1,1] l[1,1] b1 -> T[1,2,5,4] I[1,2,5,4]",
     kGiven},
    {"max_pool2d_with_indices_backward",
     "T[2,3,4,4] T[2,3,8,8] l[2,2] l[2,2] l[0,0] l[1,1] b0 I64[2,3,4,4] -> T[2,3,8,8]", kGiven},
    {"avg_pool2d",
     "T[2,3,8,8] l[2,2] l[2,2] l[0,0] b0 b1 n -> T[2,3,4,4] | T[1,2,9,7] l[3,3] l[2,2] l[1,1] b0 b0 n -> T[1,2,5,4] | "
     "T[1,2,9,7] l[3,3] l[2,2] l[1,1] b1 b1 i5 -> T[1,2,5,4]",
     kGiven},
    {"avg_pool2d_backward",
     "T[2,3,4,4] T[2,3,8,8] l[2,2] l[2,2] l[0,0] b0 b1 n -> T[2,3,8,8] | "
     "T[1,2,5,4] T[1,2,9,7] l[3,3] l[2,2] l[1,1] b0 b0 n -> T[1,2,9,7]",
     kGiven},
    {"_adaptive_avg_pool2d", "T[2,3,8,8] l[1,1] -> T[2,3,1,1] | T[1,2,9,7] l[4,3] -> T[1,2,4,3]", kGiven},
    {"_adaptive_avg_pool2d_backward", "T[2,3,1,1] T[2,3,8,8] -> T[2,3,8,8] | T[1,2,4,3] T[1,2,9,7] -> T[1,2,9,7]",
     kGiven},
    {"upsample_nearest1d", "T[2,3,5] l[10] n -> T[2,3,10]", kGiven},
    {"upsample_nearest2d", "T[2,3,4,5] l[8,10] n n -> T[2,3,8,10] | T[1,2,6,9] l[3,4] n n -> T[1,2,3,4]", kGiven},
    {"_upsample_nearest_exact2d", "T[2,3,4,5] l[8,10] n n -> T[2,3,8,10]", kGiven},
    {"upsample_nearest2d_backward", "T[2,3,8,10] l[8,10] l[2,3,4,5] n n -> T[2,3,4,5]", kGiven},
    {"upsample_linear1d", "T[2,3,5] l[9] b0 n -> T[2,3,9]", kGiven},
    {"upsample_bilinear2d", "T[2,3,4,5] l[7,9] b0 n n -> T[2,3,7,9] | T[2,3,4,5] l[7,9] b1 n n -> T[2,3,7,9]", kGiven},
    {"upsample_bilinear2d_backward", "T[2,3,7,9] l[7,9] l[2,3,4,5] b0 n n -> T[2,3,4,5]", kGiven},
    {"upsample_bicubic2d", "T[2,3,4,5] l[7,9] b0 n n -> T[2,3,7,9]", kGiven},

    {"upsample_bicubic2d_backward", "T[2,3,7,9] l[7,9] l[2,3,4,5] b0 n n -> T[2,3,4,5]", kGiven},
    {"upsample_nearest1d_backward", "T[2,3,10] l[10] l[2,3,5] n -> T[2,3,5]", kGiven},
    {"upsample_linear1d_backward", "T[2,3,9] l[9] l[2,3,5] b0 n -> T[2,3,5]", kGiven},
    {"_upsample_nearest_exact1d", "T[2,3,5] l[10] n -> T[2,3,10]", kGiven},
    {"upsample_nearest3d", "T[1,2,2,3,4] l[4,6,8] n n n -> T[1,2,4,6,8]", kGiven},
    {"upsample_trilinear3d", "T[1,2,2,3,4] l[3,5,7] b0 n n n -> T[1,2,3,5,7]", kGiven},
    {"avg_pool3d", "T[1,2,4,6,5] l[2,2,2] l[2,2,2] l[0,0,0] b0 b1 n -> T[1,2,2,3,2]", kGiven},
    {"avg_pool3d_backward", "T[1,2,2,3,2] T[1,2,4,6,5] l[2,2,2] l[2,2,2] l[0,0,0] b0 b1 n -> T[1,2,4,6,5]", kGiven},
    {"max_pool3d_with_indices", "T[1,2,4,6,5] l[2,2,2] l[2,2,2] l[0,0,0] l[1,1,1] b0 -> T[1,2,2,3,2] I[1,2,2,3,2]",
     kGiven},
    {"max_pool3d_with_indices_backward",
     "T[1,2,2,3,2] T[1,2,4,6,5] l[2,2,2] l[2,2,2] l[0,0,0] l[1,1,1] b0 I120[1,2,2,3,2] -> T[1,2,4,6,5]", kGiven},
    {"_adaptive_avg_pool3d", "T[1,2,4,6,5] l[2,3,1] -> T[1,2,2,3,1]", kGiven},
    {"_adaptive_avg_pool3d_backward", "T[1,2,2,3,1] T[1,2,4,6,5] -> T[1,2,4,6,5]", kGiven},
    {"adaptive_max_pool2d", "T[2,3,8,6] l[4,3] -> T[2,3,4,3] I[2,3,4,3]", kGiven},
    {"adaptive_max_pool2d_backward", "T[2,3,4,3] T[2,3,8,6] I48[2,3,4,3] -> T[2,3,8,6]", kGiven},
    {"adaptive_max_pool3d", "T[1,2,4,6,5] l[2,3,1] -> T[1,2,2,3,1] I[1,2,2,3,1]", kGiven},
    {"adaptive_max_pool3d_backward", "T[1,2,2,3,1] T[1,2,4,6,5] I120[1,2,2,3,1] -> T[1,2,4,6,5]", kGiven},
    {"grid_sampler_2d", "T[1,2,5,6] T[1,3,4,2] i0 i0 b0 -> T[1,2,3,4] | T[1,2,5,6] T[1,3,4,2] i0 i1 b1 -> T[1,2,3,4]",
     kGiven},
    {"grid_sampler_2d_backward", "T[1,2,3,4] T[1,2,5,6] T[1,3,4,2] i0 i0 b0 m11 -> T[1,2,5,6] T[1,3,4,2]", kGiven},
    {"grid_sampler_3d", "T[1,2,3,4,5] T[1,2,3,4,3] i0 i0 b0 -> T[1,2,2,3,4]", kGiven},
    {"grid_sampler_3d_backward", "T[1,2,2,3,4] T[1,2,3,4,5] T[1,2,3,4,3] i0 i0 b0 m11 -> T[1,2,3,4,5] T[1,2,3,4,3]",
     kGiven},
    {"_upsample_nearest_exact1d_backward", "T[2,3,10] l[10] l[2,3,5] n -> T[2,3,5]", kGiven},
    {"_upsample_nearest_exact2d_backward", "T[2,3,8,10] l[8,10] l[2,3,4,5] n n -> T[2,3,4,5]", kGiven},
    {"_upsample_nearest_exact3d", "T[1,2,2,3,4] l[4,6,8] n n n -> T[1,2,4,6,8]", kGiven},
    {"_upsample_nearest_exact3d_backward", "T[1,2,4,6,8] l[4,6,8] l[1,2,2,3,4] n n n -> T[1,2,2,3,4]", kGiven},
    {"upsample_nearest3d_backward", "T[1,2,4,6,8] l[4,6,8] l[1,2,2,3,4] n n n -> T[1,2,2,3,4]", kGiven},
    {"upsample_trilinear3d_backward", "T[1,2,3,5,7] l[3,5,7] l[1,2,2,3,4] b0 n n n -> T[1,2,2,3,4]", kGiven},

    {"gather",
     "T[5,6] i1 I6[5,4] b0 -> T[5,4] | T[3,4,5] i0 I3[2,4,5] b0 -> T[2,4,5] | T[5,6] i-2 I5[3,6] b0 -> T[3,6]", kGiven},
    {"scatter.src", "T[5,6] i0 X5[3,6] T[3,6] -> T[5,6] | T[4,7] i1 X7[4,5] T[4,5] -> T[4,7]", kGiven},
    {"scatter.value", "T[5,6] i1 I6[5,3] i2 -> T[5,6]", kGiven},
    {"scatter.reduce", "T[5,6] i0 I5[4,6] T[4,6] s:add -> T[5,6] | T[5,6] i0 X5[4,6] T[4,6] s:multiply -> T[5,6]",
     kGiven},
    {"scatter.value_reduce", "T[5,6] i0 I5[4,6] i2 s:add -> T[5,6]", kGiven},
    {"scatter_add", "T[5,6] i0 I5[8,6] T[8,6] -> T[5,6] | T[4,7] i1 I7[4,9] T[4,9] -> T[4,7]", kGiven},
    {"scatter_reduce.two",
     "T[5,6] i0 I5[4,6] T[4,6] s:sum b1 -> T[5,6] | T[5,6] i0 I5[4,6] T[4,6] s:amax b0 -> T[5,6] | "
     "T[5,6] i0 I5[4,6] T[4,6] s:mean b1 -> T[5,6]",
     kGiven},
    {"index_select", "T[5,6] i1 I6[9] -> T[5,9] | T[5,3,4] i0 I5[2] -> T[2,3,4] | T[7] i0 I7[11] -> T[11]", kGiven},
    {"index_add", "T[5,6] i0 I5[8] T[8,6] i1 -> T[5,6] | T[5,6] i1 I6[3] T[5,3] i2 -> T[5,6]", kGiven},
    {"index_copy", "T[5,6] i0 X5[3] T[3,6] -> T[5,6] | T[5,6] i1 X6[4] T[5,4] -> T[5,6]", kGiven},
    {"index_fill.int_Scalar", "T[5,6] i0 I5[3] i2 -> T[5,6]", kGiven},
    {"index_fill.int_Tensor", "T[5,6] i1 I6[3] Z -> T[5,6]", kGiven},
    {"index.Tensor", INDEX, kGiven},
    {"_unsafe_index.Tensor", INDEX, kGiven},
    {"index_put",
     "T[5,6] O(X5[3]) T[3,6] b0 -> T[5,6] | T[5,6] O(I5[8]) T[8,6] b1 -> T[5,6] | T[5,6] O(n;X6[2]) Z b0 -> T[5,6]",
     kGiven},
    {"_unsafe_index_put", "T[5,6] O(X5[3]) T[3,6] b0 -> T[5,6] | T[5,6] O(I5[8]) T[8,6] b1 -> T[5,6]", kGiven},
    {"_index_put_impl", "T[5,6] O(X5[3]) T[3,6] b0 b0 -> T[5,6] | T[5,6] O(I5[8]) T[8,6] b1 b0 -> T[5,6]", kGiven},
    {"masked_scatter", "T[5,6] B[5,6] T[30] -> T[5,6]", kGiven},
    {"take", "T[5,6] I30[7] -> T[7] | T[4] I4[2,3] -> T[2,3]", kGiven},
    {"embedding", "T[10,8] I10[4,3] i-1 b0 b0 -> T[4,3,8] | T[10,8] I10[7] i2 b0 b0 -> T[7,8]", kGiven},
    {"embedding_dense_backward",
     "T[4,3,8] I10[4,3] i10 i-1 b0 -> T[10,8] | T[9,8] I5[9] i5 i2 b0 -> T[5,8] | T[9,8] I5[9] i5 i-1 b1 -> T[5,8]",
     kGiven},

    {"sort",
     "T[6,30] i1 b0 -> T[6,30] I[6,30] | T[6,30] i0 b1 -> T[6,30] I[6,30] | T[3,4,5] i-1 b1 -> T[3,4,5] I[3,4,5]",
     kGiven},
    {"sort.stable", "T[6,30] b1 i1 b0 -> T[6,30] I[6,30] | T[6,30] b1 i0 b1 -> T[6,30] I[6,30]", kGiven},
    {"topk",
     "T[6,30] i4 i1 b1 b1 -> T[6,4] I[6,4] | T[6,30] i3 i0 b0 b1 -> T[3,30] I[3,30] | T[20] i5 i-1 b1 b1 -> T[5] I[5]",
     kGiven},
    {"kthvalue", "T[6,30] i3 i1 b0 -> T[6] I[6] | T[6,30] i6 i0 b1 -> T[1,30] I[1,30]", kGiven},

    {"stack", "L[3,4][3,4] i0 -> T[2,3,4] | L[3,4][3,4][3,4] i-1 -> T[3,4,3] | L[5][5] i1 -> T[5,2]", kGiven},
    {"roll", "T[6,40] l[2] l[1] -> T[6,40] | T[3,7,5] l[1,-2] l[0,2] -> T[3,7,5] | T[6,5] l[7] l[] -> T[6,5]", kGiven},
    {"repeat", "T[3,4] l[2,3] -> T[6,12] | T[4] l[2,3] -> T[2,12] | T[3,4] l[2,1,2] -> T[2,3,8]", kGiven},
    {"constant_pad_nd",
     "T[3,4] l[1,2] i0 -> T[3,7] | T[2,3,4] l[1,0,2,1] i2 -> T[2,6,5] | T[3,6] l[-1,-2] i0 -> T[3,3]", kGiven},
    {"reflection_pad1d", "T[2,6] l[2,3] -> T[2,11]", kGiven},
    {"reflection_pad2d", "T[2,5,6] l[1,2,3,1] -> T[2,9,9]", kGiven},
    {"reflection_pad3d", "T[1,3,4,5] l[1,1,1,1,1,1] -> T[1,5,6,7]", kGiven},
    {"replication_pad1d", "T[2,6] l[2,3] -> T[2,11]", kGiven},
    {"replication_pad2d", "T[2,5,6] l[1,2,3,1] -> T[2,9,9]", kGiven},
    {"replication_pad3d", "T[1,3,4,5] l[1,1,1,1,1,1] -> T[1,5,6,7]", kGiven},

    {"aminmax", "T[6,40] i1 b0 -> T[6] T[6] | T[6,40] i0 b1 -> T[1,40] T[1,40]", kGiven},
    {"count_nonzero", "T[6,40] n -> I[] | T[3,4,5] n -> I[]", kGiven},
    {"count_nonzero.dim_IntList", "T[6,40] l[1] -> I[6] | T[3,4,5] l[0,2] -> I[4]", kGiven},
    {"cummax", "T[6,30] i1 -> T[6,30] I[6,30] | T[3,4,5] i0 -> T[3,4,5] I[3,4,5]", kGiven},
    {"cummin", "T[6,30] i1 -> T[6,30] I[6,30] | T[3,4,5] i0 -> T[3,4,5] I[3,4,5]", kGiven},
    {"var_mean.correction", "T[6,40] l[1] i1 b0 -> R[6] T[6] | T[3,4,5] n i0 b0 -> R[] T[]", kGiven},
    {"std_mean.correction", "T[6,40] l[1] i1 b0 -> R[6] T[6] | T[3,4,5] n i0 b0 -> R[] T[]", kGiven},
    {"linalg_vector_norm", "T[6,40] i2 l[1] b0 n -> R[6] | T[6,40] i1 n b0 n -> R[] | T[6,40] d3 l[0] b1 n -> R[1,40]",
     kGiven},
    {"norm.Scalar", "T[6,40] i2 -> R[]", kGiven},
    {"norm.ScalarOpt_dim", "T[6,40] i2 l[1] b0 -> R[6] | T[6,40] i1 l[0] b1 -> R[1,40]", kGiven},
    {"vdot", "T[7] T[7] -> T[] | T[300] T[300] -> T[]", kGiven},
    {"addr", "T[5,7] T[5] T[7] i1 i1 -> T[5,7] | T[5,7] T[5] T[7] i2 i3 -> T[5,7]", kGiven},
    {"addbmm", "T[5,4] T[3,5,7] T[3,7,4] i1 i1 -> T[5,4] | T[5,4] T[3,5,7] T[3,7,4] i2 i3 -> T[5,4]", kGiven},
    {"glu", "T[6,40] i1 -> T[6,20] | T[6,5] i0 -> T[3,5]", kGiven},
    {"glu_backward", "T[6,20] T[6,40] i1 -> T[6,40]", kGiven},

    {"mse_loss", LOSS(LOSS_OF_TWO(""))},
    {"mse_loss_backward", LOSS(LOSS_OF_TWO_BACKWARD(""))},
    {"smooth_l1_loss", LOSS(LOSS_OF_TWO(" d0.5"))},
    {"smooth_l1_loss_backward", LOSS(LOSS_OF_TWO_BACKWARD(" d0.5"))},
    {"huber_loss", LOSS(LOSS_OF_TWO(" d0.5"))},
    {"huber_loss_backward", LOSS(LOSS_OF_TWO_BACKWARD(" d0.5"))},
    {"binary_cross_entropy",
     LOSS("T[6,40] T[6,40] n i1 -> T[] | T[6,40] T[6,40] T[6,40] i0 -> T[6,40] | T[6,40] T[6,40] n i2 -> T[]")},
    {"binary_cross_entropy_backward",
     LOSS("T[] T[6,40] T[6,40] n i1 -> T[6,40] | T[6,40] T[6,40] T[6,40] T[6,40] i0 -> T[6,40]")},
    {"nll_loss_forward", LOSS("T[6,5] I5[6] n i1 i-100 -> T[] T[] | T[6,5] I5[6] T[5] i1 i2 -> T[] T[] | "
                              "T[6,5] I5[6] T[5] i2 i-100 -> T[] T[]")},
    {"nll_loss_backward",
     LOSS("T[] T[6,5] I5[6] n i1 i-100 T[] -> T[6,5] | T[] T[6,5] I5[6] T[5] i2 i2 T[] -> T[6,5]")},
    {"nll_loss2d_forward",
     LOSS("T[2,5,3,4] I5[2,3,4] n i1 i-100 -> T[] T[] | T[2,5,3,4] I5[2,3,4] T[5] i2 i-100 -> T[] T[]")},
    {"nll_loss2d_backward", LOSS("T[] T[2,5,3,4] I5[2,3,4] n i1 i-100 T[] -> T[2,5,3,4]")},
};

const size_t kModelOpCount = sizeof kModelOps / sizeof *kModelOps;

#undef NORM
#undef LOSS
#undef CONVOLUTION
#undef INDEX
#undef BATCH_NORM
#undef LOSS_OF_TWO
#undef LOSS_OF_TWO_BACKWARD

}  // namespace ral_verify
