// Purpose: the style sheet of charts. Colours are named once for light, dark and paper.
#pragma once

namespace elastictrain::cli::chart {

inline constexpr const char* kStyle = R"css(
:root{color-scheme:light dark;--back:#fff;--text:#1b1f24;--weak:#5b6470;--edge:#d5dae1;--loss:#c02f2f;--slow:#a86200;
--other:#5b6470;--heat:#c2410c;--c1:#1d5fbf;--c2:#c02f2f;--c3:#2c8a57;--c4:#a86200;--c5:#7d4bb5;--c6:#00798c;--c7:#8d5a2b;
--c8:#b8417a;--c9:#4d6a88;--c10:#5a8a00;--rest:#8a94a1}
@media (prefers-color-scheme:dark){:root{--back:#14171b;--text:#e5e9ee;--weak:#9aa4b1;--edge:#363d47;--loss:#f37a7a;
--slow:#e0a04a;--other:#9aa4b1;--heat:#fb923c;--c1:#72a9f5;--c2:#f37a7a;--c3:#63c08d;--c4:#e0a04a;--c5:#b795e6;
--c6:#4fc3d5;--c7:#c9976a;--c8:#ee8fbb;--c9:#8fb0d3;--c10:#a5d14f;--rest:#8a94a1}}
@media print{:root{color-scheme:light;--back:#fff;--text:#000;--weak:#444;--edge:#bbb;--loss:#c02f2f;--slow:#a86200;
--other:#444;--heat:#c2410c;--c1:#1d5fbf;--c2:#c02f2f;--c3:#2c8a57;--c4:#a86200;--c5:#7d4bb5;--c6:#00798c;--c7:#8d5a2b;
--c8:#b8417a;--c9:#4d6a88;--c10:#5a8a00;--rest:#8a94a1}}
.plot{display:block;overflow:visible;font:12px system-ui,sans-serif}
.plot text{fill:var(--weak)}
.plot .y{text-anchor:end}.plot .x{text-anchor:middle}.plot .x.first{text-anchor:start}.plot .x.last{text-anchor:end}
.plot .name{fill:var(--text);paint-order:stroke;stroke:var(--back);stroke-width:3px;stroke-linejoin:round}
.plot .name.before{text-anchor:end}
.frame{fill:none;stroke:var(--edge)}
.grid{stroke:var(--edge);stroke-width:1}
.line{fill:none;stroke-width:1.8;vector-effect:non-scaling-stroke;stroke-linejoin:round}
.band{stroke:none;fill-opacity:.18}.stack{stroke:none}
.mark{stroke:var(--other);stroke-width:1.4;stroke-dasharray:3 3}
.mark.loss{stroke:var(--loss);stroke-dasharray:none}.mark.slow{stroke:var(--slow)}
.cell{fill:var(--heat)}.end{stroke:var(--text);stroke-width:1.8;fill:none}.end.failed{stroke:var(--loss)}
.dot{stroke-width:1.6}.chosen{stroke:var(--c2);fill:var(--c2)}.front{stroke:var(--c1);fill:var(--c1)}
.beaten{stroke:var(--rest);fill:var(--rest)}.dot.hollow{fill:var(--back)}
.join{fill:none;stroke:var(--c1);stroke-width:1.2;vector-effect:non-scaling-stroke}
.c1{--it:var(--c1)}.c2{--it:var(--c2)}.c3{--it:var(--c3)}.c4{--it:var(--c4)}.c5{--it:var(--c5)}.c6{--it:var(--c6)}
.c7{--it:var(--c7)}.c8{--it:var(--c8)}.c9{--it:var(--c9)}.c10{--it:var(--c10)}.rest{--it:var(--rest)}
.line{stroke:var(--it)}.band,.stack{fill:var(--it)}
.c6.line,.c8.line,.c10.line{stroke-dasharray:7 3}.c7.line,.c9.line{stroke-dasharray:2 2.5}
@media (max-width:600px){.plot .odd{display:none}}
)css";

}  // namespace elastictrain::cli::chart
