"""The style sheet of the HTML report."""

from __future__ import annotations

TINTS = 8  # hues of entity types; the label beside each entity is what tells types apart

_HUES = (212, 145, 28, 280, 345, 180, 55, 250)

STYLE = (
    """
:root { color-scheme: light dark; --paper: #fdfcfa; --ink: #23211f; --soft: #6d6862; --line: #ddd8d0;
  --panel: #f5f2ed; --accent: #2f65a8; --wrong: #a8321f; --tint: 60% 92%; --edge: 35% 45%; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #191a1c; --ink: #e6e3de; --soft: #a09b94; --line: #3a3a3c; --panel: #232427;
    --accent: #8db8ee; --wrong: #ff9c88; --tint: 32% 22%; --edge: 30% 55%; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 46rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
main.wide { max-width: 64rem; }
.wide .scroll td:first-child, .wide .scroll th:first-child { position: sticky; left: 0; background: var(--paper); }
.wide section > p, .wide li, .wide h2, .wide h3, .wide .note { max-width: 46rem; }
h1 { font-size: 1.7rem; line-height: 1.2; font-weight: 650; margin: 0 0 .6rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; font-weight: 650; margin: 2.6rem 0 .7rem; padding-top: .9rem;
  border-top: 1px solid var(--line); }
h1.paper { margin: 3.5rem 0 0; padding-bottom: .3rem; border-bottom: 2px solid var(--accent); }
h1.paper + section h2 { border-top: 0; margin-top: .6rem; }
h3 { font-size: .92rem; font-weight: 650; margin: 1.3rem 0 .4rem; }
.papers { display: flex; flex-wrap: wrap; gap: .4rem 1.1rem; }
.papers a { color: var(--accent); }
section > p, section li { font-size: .88rem; overflow-wrap: anywhere; }
section ul { padding-left: 1.1rem; }
.below td { color: var(--soft); font-size: .78rem; border-bottom: 0; padding-top: 0; padding-bottom: .1rem; }
.below td:not(.w) { white-space: normal; min-width: 7rem; }
.below .w { padding-left: .9rem; white-space: nowrap; }
tr:has(+ .below) td { border-bottom: 0; }
tr:not(.below) td { border-top: 1px solid var(--line); }
.method { margin: 0 0 .2rem; color: var(--accent); font-size: .85rem; letter-spacing: .04em; }
.verdict { font-size: 1.1rem; margin: 0 0 1rem; }
.hint { border-left: 3px solid var(--wrong); padding: .3rem .8rem; background: var(--panel); }
.numbers { display: flex; flex-wrap: wrap; gap: .9rem 1.8rem; margin: 1.2rem 0; align-items: baseline; }
.numbers div { display: flex; flex-direction: column-reverse; }
.numbers dt { font-size: .78rem; color: var(--soft); }
.numbers dd { margin: 0; font-size: 1.15rem; font-variant-numeric: tabular-nums; white-space: nowrap; }
.numbers div:first-child dd { font-size: 2.3rem; line-height: 1; font-weight: 650; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; min-width: 60%; }
th, td { text-align: right; padding: .28rem .3rem .28rem 1rem; font-variant-numeric: tabular-nums;
  border-bottom: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 500; color: var(--soft); font-size: .8rem; vertical-align: bottom; }
.w { text-align: left; padding-left: 0; padding-right: 1rem; white-space: normal; overflow-wrap: break-word; }
.bar { background: linear-gradient(var(--accent), var(--accent)) no-repeat left calc(100% - 1px) /
  calc(var(--share) * .94) 2px; }
figure { margin: .4rem 0 1.2rem; max-width: 34rem; }
figure svg { width: 100%; height: auto; display: block; }
figure svg text { font-family: inherit !important; }
figcaption, .note, .place { color: var(--soft); font-size: .8rem; margin: .4rem 0 0; }
details { margin: .4rem 0; }
details summary { cursor: pointer; color: var(--accent); font-size: .88rem; margin-bottom: .5rem; }
.example { background: var(--panel); border-radius: .5rem; padding: .55rem .9rem; margin: 0 0 .7rem; }
.line { display: grid; grid-template-columns: 3.2rem 1fr; margin: .25rem 0; line-height: 1.95;
  overflow-wrap: anywhere; }
.role { color: var(--soft); font-size: .78rem; }
.e { --hue: 212; padding: .08em .35em .12em; border-radius: .3em; background: hsl(var(--hue) var(--tint));
  border: 1px solid hsl(var(--hue) var(--edge)); box-decoration-break: clone;
  -webkit-box-decoration-break: clone; }
.e small { font-size: .68em; font-weight: 650; letter-spacing: .03em; margin-left: .45em; opacity: .85;
  white-space: nowrap; }
.wrong { border: 1.5px dashed var(--wrong); }
.x { color: var(--wrong); font-weight: 650; letter-spacing: 0; }
@media (max-width: 30rem) {
  main { padding: 1.4rem 1rem 3rem; }
  .line { grid-template-columns: 1fr; }
  .role { line-height: 1.2; }
  .numbers { gap: .8rem 1.3rem; }
  table { min-width: 100%; font-size: .8rem; }
  th { font-size: .74rem; }
  th, td { padding-left: .7rem; }
  .w { padding-left: 0; padding-right: .3rem; }
}
@media print { details:not([open]) > *:not(summary) { display: block; } .example { break-inside: avoid; } }
"""
    + "\n".join(f".t{i} {{ --hue: {hue}; }}" for i, hue in enumerate(_HUES))
    + "\n"
)
