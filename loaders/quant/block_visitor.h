// From a format known at run time to its block type: the only switch over formats on the host.
#pragma once

#include <type_traits>
#include <utility>

#include "loaders/base/check.h"
#include "loaders/quant/iq1.h"
#include "loaders/quant/iq2_s.h"
#include "loaders/quant/iq2_xs.h"
#include "loaders/quant/iq2_xxs.h"
#include "loaders/quant/iq3_s.h"
#include "loaders/quant/iq3_xxs.h"
#include "loaders/quant/iq4.h"
#include "loaders/quant/mxfp4.h"
#include "loaders/quant/nvfp4.h"
#include "loaders/quant/plain.h"
#include "loaders/quant/q2_k.h"
#include "loaders/quant/q3_k.h"
#include "loaders/quant/q4_0.h"
#include "loaders/quant/q4_k.h"
#include "loaders/quant/q5_0.h"
#include "loaders/quant/q6_k.h"
#include "loaders/quant/q8_0.h"
#include "loaders/quant/tq.h"

namespace dsv4v {

// Calls visit(std::type_identity<Block>{}) with the block struct of `format`; returns its result.
template <class Visitor>
decltype(auto) visit_block(QuantFormat format, Visitor&& visit) {
#define DSV4V_VISIT(NAME)                                                                          \
    case QuantFormat::k##NAME:                                                                     \
        return visit(std::type_identity<Block##NAME>{})
    switch (format) {
        DSV4V_VISIT(F32);
        DSV4V_VISIT(F16);
        DSV4V_VISIT(Q4_0);
        DSV4V_VISIT(Q4_1);
        DSV4V_VISIT(Q5_0);
        DSV4V_VISIT(Q5_1);
        DSV4V_VISIT(Q8_0);
        DSV4V_VISIT(Q2_K);
        DSV4V_VISIT(Q3_K);
        DSV4V_VISIT(Q4_K);
        DSV4V_VISIT(Q5_K);
        DSV4V_VISIT(Q6_K);
        DSV4V_VISIT(IQ2_XXS);
        DSV4V_VISIT(IQ2_XS);
        DSV4V_VISIT(IQ3_XXS);
        DSV4V_VISIT(IQ1_S);
        DSV4V_VISIT(IQ4_NL);
        DSV4V_VISIT(IQ3_S);
        DSV4V_VISIT(IQ2_S);
        DSV4V_VISIT(IQ4_XS);
        DSV4V_VISIT(I32);
        DSV4V_VISIT(IQ1_M);
        DSV4V_VISIT(BF16);
        DSV4V_VISIT(TQ1_0);
        DSV4V_VISIT(TQ2_0);
        DSV4V_VISIT(MXFP4);
        DSV4V_VISIT(NVFP4);
    }
#undef DSV4V_VISIT
    check_failed(__FILE__, __LINE__, "format is one of the table");
}

} // namespace dsv4v
