// Purpose: a report as one HTML page: its style sheet, its elements and tables, and the page. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/report/report.h"

// The style sheet of a report's page, beside that of its charts. Colours are named once for light, dark and
// paper.

namespace elastictrain::cli::run_report {

inline constexpr const char* kStyle = R"css(
:root{--card:#f5f7f9;--p1:#1d5fbf;--p2:#a86200;--p3:#2c8a57;--p4:#7d4bb5;--p5:#8a94a1;--p6:#c02f2f;--p7:#c9ced6}
@media (prefers-color-scheme:dark){:root{--card:#1d2228;--p1:#72a9f5;--p2:#e0a04a;--p3:#63c08d;--p4:#b795e6;
--p5:#8a94a1;--p6:#f37a7a;--p7:#4a525d}}
@media print{:root{--card:#fff;--p1:#1d5fbf;--p2:#a86200;--p3:#2c8a57;--p4:#7d4bb5;--p5:#8a94a1;--p6:#c02f2f;--p7:#c9ced6}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
section,.tile,tr,.plot{break-inside:avoid}.scroll{overflow:visible}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--text);font:15px/1.5 system-ui,sans-serif}
main{max-width:1120px;margin:0 auto;padding:16px}
h1{font-size:1.6em;margin:.3em 0}h2{font-size:1.2em;margin:1.6em 0 .4em;border-bottom:1px solid var(--edge)}
h3{font-size:1em;margin:1.2em 0 .3em}small,.note{color:var(--weak);font-weight:normal;font-size:.87em}
.note{margin:.4em 0}code{overflow-wrap:anywhere}
.failed{color:var(--loss);font-weight:bold}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:8px;margin:12px 0}
.tile{background:var(--card);border:1px solid var(--edge);border-radius:6px;padding:8px 10px}
.tile b{display:block;font-size:1.2em;overflow-wrap:anywhere}.tile span{color:var(--weak);font-size:.87em}
.shade{display:inline-block;width:22px;height:12px;background:var(--heat)}.scale{font-size:.87em;color:var(--weak)}
.scale .shade+.shade{margin-left:-18px}
.bar{display:flex;height:26px;border-radius:4px;overflow:hidden;border:1px solid var(--edge)}.bar i{display:block}
.key{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.4em}
.parts{display:flex;flex-wrap:wrap;gap:4px 18px;margin:8px 0}
.p1{background:var(--p1)}.p2{background:var(--p2)}.p3{background:var(--p3)}.p4{background:var(--p4)}
.p5{background:var(--p5)}.p6{background:var(--p6)}.p7{background:var(--p7)}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.92em}
th,td{text-align:left;padding:3px 10px 3px 0;border-bottom:1px solid var(--edge);vertical-align:top}
th{color:var(--weak);font-weight:normal;white-space:nowrap}td:last-child{min-width:16em}
.number{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
@media (max-width:600px){main{padding:10px}}
)css";

// Pieces of an HTML page: elements and tables. Pure. Text of runs is escaped here, so that nothing of a
// program or host becomes markup.

// <TAG class="…">content</TAG>; the content is markup.
std::string element(const std::string& tag, const std::string& classes, const std::string& content);

struct TableColumn {
  std::string title;
  bool is_number = false;
};
// Cells are text. `left_out`: rows between the first and the last ones that are not here.
std::string table(const std::vector<TableColumn>& columns, const std::vector<std::vector<std::string>>& rows,
                  std::uint64_t left_out = 0);

// A report as one HTML page that needs nothing else: no script, no font, no picture from anywhere. Readable in
// light and dark, on a phone and on paper. Pure. At most about 1 MB, whatever the run.

std::string render_page(const Report& report);

}  // namespace elastictrain::cli::run_report
