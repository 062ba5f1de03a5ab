/**
 * The style sheet of all pages, allowed by its hash. Colours are variables with a light and a dark value. Text has a
 * contrast of 4.5 : 1 on its background in both; a test measures it.
 */
import { html } from './html.ts';

export const STYLE = html`
:root { color-scheme: light dark;
  --ground: #f5f6f8; --card: #ffffff; --line: #e2e5ea; --text: #1b2430; --quiet: #5a6675; --link: #1d5fae;
  --good: #17663a; --good-ground: #def2e5; --fair: #7a4b00; --fair-ground: #fcecc8; --calm: #475466; --calm-ground: #eaedf1;
  --wait: #1f5da8; --wait-ground: #e2edfa; --bad: #a3211f; --bad-ground: #fde4e2; --gone: #ffffff; --gone-ground: #a3211f;
  --shadow: 0 1px 2px rgb(20 30 45 / .06), 0 4px 16px rgb(20 30 45 / .05); }
@media (prefers-color-scheme: dark) { :root {
  --ground: #11161d; --card: #19202a; --line: #2c3643; --text: #e4e9ef; --quiet: #9caabb; --link: #86b9f5;
  --good: #86dba6; --good-ground: #17372a; --fair: #f2c572; --fair-ground: #3d3016; --calm: #a9b6c5; --calm-ground: #27313d;
  --wait: #93c3fb; --wait-ground: #1b3150; --bad: #ffa49c; --bad-ground: #472220; --gone: #2a0c0b; --gone-ground: #f28b82;
  --shadow: none; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--ground); color: var(--text); overflow-wrap: anywhere;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", Helvetica, Arial, sans-serif; }
.page { max-width: 1120px; margin: 0 auto; padding: 20px 16px 40px; }
h1, h2, h3, p, ol, ul, dl, dd { margin: 0; padding: 0; }
ol, ul { list-style: none; }
h1 { font-size: 20px; line-height: 1.3; font-weight: 650; } h1 code { font-size: 17px; font-weight: 600; }
h2 { font-size: 13px; font-weight: 650; color: var(--quiet); margin: 0 0 8px; }
h3 { font-size: 13px; font-weight: 650; color: var(--quiet); margin: 0 0 8px; }
a { color: var(--link); text-underline-offset: 2px; text-decoration-thickness: 1px; }
code { font: 13px/1.4 ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; }
.quiet { color: var(--quiet); }
.small { font-size: 13px; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
.skip { position: absolute; left: 8px; top: -60px; background: var(--card); padding: 8px 12px; border-radius: 8px; z-index: 3; } .skip:focus { top: 8px; }
main:focus { outline: none; }
.top { display: flex; flex-wrap: wrap; gap: 4px 20px; align-items: baseline; margin-bottom: 14px; }
.top .quiet { font-size: 13px; }
.brand { font-weight: 650; } .brand a { color: inherit; text-decoration: none; }
nav ul { display: flex; gap: 4px; } nav a { display: inline-block; padding: 3px 10px; border-radius: 20px; text-decoration: none; } nav a[aria-current] { background: var(--card); color: var(--text); font-weight: 600; box-shadow: var(--shadow); }
.row { display: flex; flex-wrap: wrap; gap: 8px 20px; align-items: center; justify-content: space-between; } .row h2, .row h1 { margin: 0; }
.filter { display: flex; flex-wrap: wrap; gap: 6px 10px; align-items: center; font-size: 13px; } .filter[hidden] { display: none; }
.filter input, .filter select { width: auto; margin: 0; padding: 4px 8px; max-width: 180px; } .filter button { padding: 4px 12px; } .filter label { display: inline-flex; gap: 8px; align-items: center; max-width: 100%; color: var(--quiet); } .filter input, .filter select { min-width: 0; color: var(--text); }
.filter + div > .log { margin-top: 10px; } time { display: inline-block; }
table.rows { width: 100%; border-collapse: collapse; } .rows th, .rows td { text-align: left; padding: 9px 10px; border-top: 1px solid var(--line); vertical-align: middle; font-weight: 400; }
.rows thead th { border-top: 0; color: var(--quiet); font-size: 13px; padding-top: 0; white-space: nowrap; } .rows thead button { background: none; color: inherit; padding: 2px 0; font-weight: 400; text-decoration: underline dotted; text-underline-offset: 3px; }
.rows thead th[aria-sort=ascending] button::after { content: " ↑"; content: " ↑" / ""; } .rows thead th[aria-sort=descending] button::after { content: " ↓"; content: " ↓" / ""; }
.rows tbody th a { font-weight: 600; } .rows.plain td { padding: 4px 10px; font-size: 13px; font-variant-numeric: tabular-nums; white-space: nowrap; } .rows .number { text-align: right; }
.rows.plain thead th:nth-child(n+5) { text-align: right; }
.scroll { overflow: auto; max-height: 420px; }
.cells { display: flex; gap: 2px; } .cell { position: relative; display: flex; width: 18px; height: 26px; border-radius: 4px; align-items: center; justify-content: center; text-decoration: none; }
.cell .shape { width: 12px; height: 12px; } .cell.none { border: 1px dashed var(--quiet); }
.cell:hover .tip, .cell:focus .tip { z-index: 2; left: 50%; transform: translateX(-50%); bottom: calc(100% + 6px); width: max-content; max-width: 216px; height: auto; padding: 7px 10px; clip-path: none; border-radius: 8px; background: var(--text); color: var(--card); font-size: 13px; line-height: 1.4; }
.spark { display: inline-flex; gap: 8px; align-items: center; font-size: 13px; font-variant-numeric: tabular-nums; white-space: nowrap; } .spark svg { width: 90px; height: 24px; } .spark .area { fill: var(--wait-ground); stroke: none; } .spark path { fill: none; stroke: var(--link); stroke-width: 1.6; stroke-linejoin: round; stroke-linecap: round; }
.chart { margin: 0; } .chart svg { display: block; width: 100%; height: 170px; background: var(--ground); border-radius: 8px; } .chart path { fill: none; vector-effect: non-scaling-stroke; }
.chart .area { fill: var(--wait-ground); } .chart .line-rows { stroke: var(--link); stroke-width: 2; } .chart .line-requests { stroke: var(--fair); stroke-width: 1.5; stroke-dasharray: 5 3; }
.chart .seal { stroke: var(--good); stroke-width: 1; } .chart .fail { stroke: var(--bad); stroke-width: 1; } .chart .mark-split { stroke: var(--fair); stroke-width: 3; } .chart .mark-retry { stroke: var(--bad); stroke-width: 3; }
.ends { display: flex; justify-content: space-between; margin-top: 4px; } .key { display: inline-block; width: 14px; height: 0; border-top: 3px solid; align-self: center; } .key.line-rows { border-color: var(--link); } .key.line-requests { border-top: 2px dashed var(--fair); } .key.fail { border-color: var(--bad); } .key.mark-split { border-color: var(--fair); width: 5px; border-top-width: 9px; } .key.mark-retry { border-color: var(--bad); width: 5px; border-top-width: 9px; } .key.seal { border-color: var(--good); }
.log { max-height: 560px; overflow: auto; background: var(--ground); border-radius: 8px; padding: 8px 12px; font: 12.5px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; } .log li { padding: 1px 0; } .log b { font-weight: 500; } .level-warn b { color: var(--fair); } .level-error b, .level-fatal b { color: var(--bad); font-weight: 700; }
pre { margin: 4px 0 0; font: 13px/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; white-space: pre-wrap; overflow-wrap: anywhere; max-height: 420px; overflow: auto; }
.snippet { background: var(--ground); border-radius: 8px; padding: 10px 12px; }
.acts { margin: 14px 0 18px; } .act { display: flex; flex-wrap: wrap; gap: 4px 12px; align-items: center; margin: 6px 0; }
.fields { display: flex; flex-wrap: wrap; gap: 8px 14px; align-items: end; padding: 6px 0 4px; } .fields label { font-size: 13px; color: var(--quiet); } .fields input, .fields select { display: block; width: auto; margin: 2px 0 0; } .fields p { flex-basis: 100%; }
article > section, article > div { margin-top: 20px; } article.job > header p { margin-top: 4px; } article.job > header p:has(.button) { margin-top: 14px; } .condition { border-radius: 20px; padding: 2px 10px; font-weight: 600; white-space: nowrap; } article section > details { margin-top: 2px; } .scroll + .scroll { margin-top: 16px; } .dates li { margin-top: 4px; } .bad-text { color: var(--bad); }
.by-date > div { display: grid; grid-template-columns: 140px 1fr; gap: 0 14px; padding: 7px 0; border-top: 1px solid var(--line); } .by-date dd { grid-column: 2; } .by-date dt { color: var(--quiet); }
.verdict { border-radius: 12px; padding: 16px 20px; margin-bottom: 20px; border-left: 5px solid; background: var(--card); box-shadow: var(--shadow); }
.verdict.well { border-color: var(--good); } .verdict.note { border-color: var(--fair); } .verdict.wrong { border-color: var(--bad); }
.verdict.plain { box-shadow: none; background: var(--ground); padding: 12px 16px; margin: 12px 0 0; } .verdict.plain .first { font-size: 16px; }
.verdict .first { font-size: 21px; line-height: 1.35; font-weight: 600; }
.verdict.wrong .first { color: var(--bad); } .verdict.note .first { color: var(--fair); } .verdict.well .first { color: var(--good); }
.verdict .first a { color: inherit; } .verdict a.small { display: inline-block; }
.verdict ul { margin-top: 8px; } .verdict li { margin-top: 4px; }
.job { background: var(--card); border-radius: 12px; box-shadow: var(--shadow); padding: 20px; margin-bottom: 20px; scroll-margin-top: 12px; }
.job > header { margin-bottom: 18px; }
.job > footer { margin-top: 18px; padding-top: 12px; border-top: 1px solid var(--line); }
.columns { display: grid; gap: 26px 36px; grid-template-columns: minmax(0, 1fr); }
.right > div + div:not(:empty), .left > div + div { margin-top: 24px; }
.plan > div { display: flex; gap: 12px; margin: 2px 0; }
.plan dt, .facts dt { color: var(--quiet); } .plan dt { flex: 0 0 92px; }
.calendar { border-collapse: separate; border-spacing: 4px; width: calc(100% + 8px); margin: 0 -4px; table-layout: fixed; }
.calendar th { font-weight: 500; font-size: 12px; color: var(--quiet); text-align: center; }
.calendar th[scope=row] { text-align: left; white-space: nowrap; }
.calendar th:first-child { width: 52px; }
.day { position: relative; height: 42px; border-radius: 7px; padding: 4px 6px; vertical-align: top; cursor: default; }
.day a { position: absolute; inset: 0; padding: inherit; color: inherit; text-decoration: none; border-radius: 7px; }
.day .date { font-size: 12px; line-height: 1.2; display: block; font-variant-numeric: tabular-nums; }
.day .shape { position: absolute; right: 6px; bottom: 5px; }
.shape { width: 15px; height: 15px; flex: none; vertical-align: -2px; }
.available { background: var(--good-ground); color: var(--good); }
.degraded { background: var(--fair-ground); color: var(--fair); }
.pending { background: var(--wait-ground); color: var(--wait); }
.missing { background: var(--bad-ground); color: var(--bad); box-shadow: inset 0 0 0 1.5px var(--bad); }
.expired { background: var(--gone-ground); color: var(--gone); }
.none { color: var(--quiet); }
.empty, .closed { background: var(--calm-ground); color: var(--calm); }
.holiday { display: block; font-size: 10px; line-height: 1.15; max-height: 3.5em; overflow: hidden; overflow-wrap: normal; hyphens: manual; }
.tip { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); pointer-events: none; }
.day:hover .tip, .day:focus-within .tip, .day:focus .tip { z-index: 2; left: 0; bottom: calc(100% + 6px); width: max-content; max-width: 216px; height: auto; padding: 7px 10px; clip-path: none;
  border-radius: 8px; background: var(--text); color: var(--card); font-size: 13px; line-height: 1.4; }
.day:nth-child(4):hover .tip, .day:nth-child(4):focus .tip, .day:nth-child(4):focus-within .tip { left: 50%; transform: translateX(-50%); }
.day:nth-child(n+5):hover .tip, .day:nth-child(n+5):focus .tip, .day:nth-child(n+5):focus-within .tip { left: auto; right: 0; }
.day:focus { outline: 2px solid var(--link); outline-offset: 1px; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; margin-top: 10px; font-size: 13px; color: var(--quiet); }
.legend li { display: flex; gap: 6px; align-items: center; } .legend b { flex: none; color: var(--text); font-weight: 600; }
details { margin-top: 12px; } summary { cursor: pointer; color: var(--link); font-size: 13px; padding: 4px 0; }
.running { border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px; margin-bottom: 16px; }
.stage { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 12px; margin-top: 2px; color: var(--quiet); }
.eta { color: var(--text); font-weight: 600; }
progress { appearance: none; display: block; width: 100%; height: 8px; margin: 8px 0 12px; border: 0; border-radius: 4px; background: var(--calm-ground); overflow: hidden; }
progress::-webkit-progress-bar { background: var(--calm-ground); } progress::-webkit-progress-value { background: var(--link); border-radius: 4px; }
progress::-moz-progress-bar { background: var(--link); border-radius: 4px; }
.facts { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: 8px 14px; }
.facts dt { font-size: 12px; } .facts dd { font-variant-numeric: tabular-nums; }
.facts:not(.even) > div:nth-child(1), .facts:not(.even) > div:nth-child(3) { grid-column: span 2; } .facts.even { grid-template-columns: repeat(auto-fill, minmax(120px, 1fr)); }
.gaps li { border-radius: 8px; padding: 9px 12px; margin-top: 6px; }
.gaps li .quiet { color: inherit; margin-left: 22px; } .gaps .shape { margin-right: 7px; }
.runs li { padding: 10px 0; border-top: 1px solid var(--line); } .runs li:first-child { border-top: 0; padding-top: 0; }
.badge { display: inline-block; white-space: nowrap; border-radius: 20px; padding: 1px 10px; font-size: 13px; font-weight: 600; margin-right: 4px; }
.good { background: var(--good-ground); color: var(--good); } .fair { background: var(--fair-ground); color: var(--fair); }
.bad { background: var(--bad-ground); color: var(--bad); } .calm { background: var(--calm-ground); color: var(--calm); }
.error { background: var(--bad-ground); color: var(--bad); border-radius: 8px; padding: 9px 12px; margin-top: 8px; font-size: 14px; }
.error .hint { color: var(--text); margin-top: 3px; } .message { white-space: pre-wrap; }
.reports { display: grid; grid-template-columns: repeat(auto-fill, minmax(132px, 1fr)); gap: 6px 14px; }
.reports a { display: inline-block; padding: 2px 0; font-variant-numeric: tabular-nums; }
.previews details { margin: 0; border-top: 1px solid var(--line); } .previews summary { padding: 9px 0; color: var(--text); font-size: 15px; } .previews summary span { display: inline-block; }
.previews iframe { display: block; width: 100%; height: min(70vh, 720px); margin: 2px 0 0; border: 1px solid var(--line); border-radius: 8px; background: var(--card); }
.previews p { padding: 8px 0 14px; } .previews + div:not(:empty) { margin-top: 10px; padding-top: 12px; border-top: 1px solid var(--line); }
.silent { position: sticky; bottom: 12px; background: var(--bad-ground); color: var(--bad); border-radius: 8px; padding: 10px 14px; box-shadow: var(--shadow); }
.silent[hidden] { display: none; }
.alone { max-width: 560px; } .alone h1 { font-size: 19px; margin-bottom: 8px; } .alone .job p + p, .alone form { margin-top: 12px; }
input, select { font: inherit; color: inherit; background: var(--ground); border: 1px solid var(--quiet); border-radius: 8px; padding: 7px 10px; width: 100%; margin: 4px 0 10px; }
button, .button { font: inherit; font-weight: 600; color: var(--card); background: var(--link); border: 0; border-radius: 8px; padding: 8px 16px; cursor: pointer; text-decoration: none; }
button.small, .verdict .button.small { font-size: 13px; padding: 3px 12px; color: var(--card); }
@media (min-width: 900px) { .whole { grid-column: 1 / -1; } .page { padding-top: 32px; } .columns { grid-template-columns: minmax(0, 11fr) minmax(0, 9fr); } .job { padding: 26px 28px; } }
@media (max-width: 760px) { table.jobs, .jobs tbody, .jobs tr, .jobs td, .jobs tbody th { display: block; } .jobs thead { display: none; } .jobs thead:has(button) { display: block; } .jobs thead tr { display: flex; flex-wrap: wrap; gap: 0 14px; border: 0; padding: 8px 0 4px; } .jobs thead th { padding: 0; } .jobs thead th:not(:has(button)) { display: none; } .jobs tr { border-top: 1px solid var(--line); padding: 10px 0; } .jobs tr[hidden] { display: none; } .jobs td, .jobs tbody th { border: 0; padding: 3px 0; }
  .jobs td { display: flex; gap: 4px 12px; flex-wrap: wrap; align-items: center; } .jobs td::before { content: attr(data-label); color: var(--quiet); font-size: 13px; flex: 0 0 72px; } .jobs .cells { flex-basis: 100%; justify-content: space-between; gap: 1px; } .jobs .cell { width: 20px; }
  .cell:hover .tip, .cell:focus .tip { position: fixed; left: 12px; right: 12px; bottom: 12px; width: auto; max-width: none; transform: none; } }
@media (max-width: 420px) { .job { padding: 18px 14px; } .previews iframe { width: calc(100% + 28px); margin: 2px -14px 0; border-width: 1px 0; border-radius: 0; } .day { height: 44px; padding: 4px; } .holiday { font-size: 9px; } .calendar { border-spacing: 3px; } }
@media print { body { background: none; } .job, .verdict { box-shadow: none; border: 1px solid var(--line); break-inside: avoid; } }
`;
