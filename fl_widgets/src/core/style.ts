/**
 * The style sheet of every view. Neutrals come from JupyterLab's variables (with fallbacks for
 * pages without them); tier colours are ours. `data-dark` is set by theme.ts.
 */

export const CSS = `
.rfl{--bg:var(--jp-layout-color1,#fff);--fg:var(--jp-ui-font-color1,rgba(0,0,0,.87));--fg0:var(--jp-ui-font-color0,#000);--fg2:var(--jp-ui-font-color2,rgba(0,0,0,.6));
--ln:var(--jp-border-color2,#e0e0e0);--ln3:var(--jp-border-color3,#eee);--br:var(--jp-brand-color1,#1976d2);
--mono:var(--jp-code-font-family,Menlo,Consolas,"DejaVu Sans Mono",monospace);--ui:var(--jp-ui-font-family,system-ui,-apple-system,"Segoe UI","Liberation Sans",Helvetica,Arial,sans-serif);
--bg2:color-mix(in srgb,var(--fg0) 3.5%,var(--bg));--bg3:color-mix(in srgb,var(--fg0) 8%,var(--bg));
--n:#1d4e94;--j:#0e7f73;--r:#bf8300;--c:#c03a1b;--v:#7d8592;--cp:#6c7684;--g:#7a4a9c;--nt:#fff;--jt:#fff;--rt:#1a1a1a;--ct:#fff;--hx:rgba(255,255,255,.34);--ok:#2e7d32;--bad:#c62828;--warn:#8a5a00;
font:12px/1.45 var(--ui);color:var(--fg);background:var(--bg);font-variant-numeric:tabular-nums;border:1px solid var(--ln);border-radius:3px;overflow:hidden;min-width:0;position:relative;box-sizing:border-box;text-align:left}
.rfl[data-dark=true]{--bg:var(--jp-layout-color1,#212121);--fg:var(--jp-ui-font-color1,rgba(255,255,255,.87));--fg0:var(--jp-ui-font-color0,#fff);--fg2:var(--jp-ui-font-color2,rgba(255,255,255,.62));
--ln:var(--jp-border-color2,#424242);--ln3:var(--jp-border-color3,#333);--br:var(--jp-brand-color1,#42a5f5);
--n:#5c93ea;--j:#5ad8c0;--r:#f2b632;--c:#ff7d5c;--v:#8d96a3;--cp:#97a1af;--g:#bb92e6;--nt:#111;--jt:#111;--rt:#111;--ct:#111;--hx:rgba(0,0,0,.24);--ok:#81c784;--bad:#ff8a80;--warn:#ffcc66}
@media(prefers-contrast:more){.rfl{--n:#12386f;--j:#075e54;--r:#946000;--c:#74102a;--v:#4a515b;--cp:var(--fg);--rt:#fff;--fg2:#000;--ln:#000}
.rfl[data-dark=true]{--bg:#000;--n:#7db4ff;--j:#6ff0da;--r:#ffd24a;--c:#ff9478;--v:#c4cad3;--rt:#000;--fg2:#fff;--ln:#fff}}
@media(forced-colors:active){.rfl-k,.rfl-bar,.rfl canvas{forced-color-adjust:none}}
.rfl *,.rfl *::before{box-sizing:border-box}.rfl [hidden]{display:none!important}
.rfl p,.rfl h4,.rfl h5,.rfl dl,.rfl dd{margin:0;padding:0}
.rfl-mut{color:var(--fg2)}.rfl-b{font-weight:600}.rfl-mono,.rfl code{font-family:var(--mono);font-size:.94em;background:none;color:inherit}.rfl-small{font-size:10.5px;color:var(--fg2)}.rfl-bad{color:var(--bad)}
.rfl-hd{display:flex;align-items:center;min-height:36px;padding:4px 12px;border-bottom:1px solid var(--ln);white-space:nowrap;flex-wrap:wrap;row-gap:4px}
.rfl-hd>div{padding:0 11px;border-left:1px solid var(--ln);line-height:16px}.rfl-hd>div:first-child{border:0;padding-left:0}.rfl-hd>.rfl-right{display:flex;margin-left:auto;border:0;padding:0}.rfl-right>div{padding:0 11px}.rfl-right>div+div{border-left:1px solid var(--ln);padding-right:0}
.rfl-hd small{font-size:11px;color:var(--fg2);margin-right:5px}.rfl-hd small.rfl-unit{margin:0 9px 0 4px}.rfl-hd small.rfl-unit:last-child{margin-right:0}.rfl-hd b{font-weight:600;font-size:13px}
.rfl-optime{display:flex;align-items:center;gap:8px}.rfl-optime small{margin:0}.rfl-optime>span:last-child{font-size:11px;color:var(--fg2);word-spacing:1px}
.rfl-dot{display:inline-block;width:8px;height:8px;border-radius:50%;background:var(--ok);margin-right:7px}.rfl-dot[data-state=running]{background:var(--bad)}.rfl-dot[data-dim]{opacity:.6}.rfl-dot[data-state=failed],.rfl-dot[data-state=cut]{background:var(--bad);border-radius:1px}
.rfl-note{padding:6px 12px;border-bottom:1px solid var(--ln);background:var(--bg2)}.rfl-note.rfl-bad{border-left:3px solid var(--bad)}
.rfl-bar{display:inline-flex;height:12px;border-radius:2px;overflow:hidden;gap:1px;vertical-align:middle}.rfl-bar b{display:block;height:100%;flex:none}
.rfl-p-native{background:var(--n)}.rfl-p-jit{background:radial-gradient(var(--hx) 1px,transparent 1.2px) 0 0/4px 4px,var(--j)}.rfl-p-reference{background:repeating-linear-gradient(45deg,transparent 0 3px,var(--hx) 3px 4.2px),var(--r)}
.rfl-p-cpu{background:repeating-linear-gradient(45deg,transparent 0 3px,var(--hx) 3px 4px),repeating-linear-gradient(-45deg,transparent 0 3px,var(--hx) 3px 4px),var(--c)}
.rfl-tb{display:flex;align-items:center;min-height:32px;padding:0 12px;border-bottom:1px solid var(--ln);background:var(--bg2);gap:2px}
.rfl-tabs{display:flex;gap:2px}.rfl-tab{all:unset;cursor:pointer;padding:0 11px;height:31px;line-height:31px;color:var(--fg2);border-bottom:2px solid transparent;white-space:nowrap}.rfl-tab[aria-selected=true]{color:var(--fg);font-weight:600;border-color:var(--br)}
.rfl-tab .rfl-n{font-size:11px;color:var(--fg2);font-weight:400;margin-left:4px}.rfl-tb>.rfl-sp{flex:1}
.rfl button:focus-visible,.rfl-stage:focus-visible,.rfl [tabindex]:focus-visible{outline:2px solid var(--br);outline-offset:-2px}
.rfl-lg{display:inline-flex;gap:12px;font-size:11px;color:var(--fg2);align-items:center}.rfl-lg>span{display:inline-flex;gap:5px;align-items:center}.rfl-lg i{display:inline-block;width:15px;height:10px;border-radius:2px}.rfl-copy{background:var(--cp)}.rfl-wait{border:1px dashed var(--fg2)}
.rfl-sw{display:inline-block;width:9px!important;height:9px!important;border-radius:2px}
.rfl-k{display:inline-grid;place-items:center;width:15px;height:15px;border-radius:2px;font:700 10px/1 var(--ui);flex:none}
.rfl-k.rfl-native{background:var(--n);color:var(--nt)}.rfl-k.rfl-jit{background:var(--j);color:var(--jt)}.rfl-k.rfl-reference{background:var(--r);color:var(--rt)}.rfl-k.rfl-cpu{background:var(--c);color:var(--ct)}
.rfl-k.rfl-passed{background:none;color:var(--fg2);box-shadow:inset 0 0 0 1px var(--fg2);text-decoration:line-through}.rfl-k.rfl-untried{background:none;color:var(--fg2)}
.rfl-bt{all:unset;cursor:pointer;font-size:11.5px;line-height:18px;border:1px solid var(--ln);border-radius:3px;padding:2px 9px;color:var(--fg);background:var(--bg);white-space:nowrap}.rfl-bt.rfl-primary{background:var(--br);border-color:var(--br);color:#fff}.rfl[data-dark=true] .rfl-bt.rfl-primary{color:#111}.rfl select{font:11.5px var(--ui);color:var(--fg);background:var(--bg);border:1px solid var(--ln);border-radius:3px;padding:2px 4px;margin-bottom:8px}.rfl-bt:not(.rfl-primary):hover{background:var(--bg3)}.rfl-bt.rfl-on{border-color:var(--br)}
.rfl-find{display:inline-flex;align-items:center;gap:6px;margin-left:12px}.rfl .rfl-find input{all:unset;font:11.5px var(--ui);line-height:18px;width:118px;padding:2px 7px;border:1px solid var(--ln);border-radius:3px;color:var(--fg);background:var(--bg)}.rfl-find input::placeholder{color:var(--fg2);opacity:1}.rfl .rfl-find input:focus-visible{border-color:var(--br);outline:1px solid var(--br)}.rfl-find .rfl-small{white-space:nowrap}
.rfl-lk{all:unset;cursor:pointer;color:var(--br)}.rfl-lk:hover{text-decoration:underline}
.rfl-vm{display:inline-grid;place-items:center;width:20px;height:16px;border:1px solid var(--fg2);border-radius:2px;font:700 9.5px/1 var(--ui);color:var(--fg);flex:none}
.rfl-two{display:grid;grid-template-columns:minmax(0,1fr) 292px}.rfl-two.rfl-wide{grid-template-columns:minmax(0,1fr)}.rfl-side{border-left:1px solid var(--ln);padding:10px 14px;min-width:0;overflow:hidden}.rfl-wide>.rfl-side{border-left:0;border-top:1px solid var(--ln)}
.rfl-stage{position:relative;outline-offset:-2px;touch-action:pan-y}.rfl-stage canvas{display:block;width:100%;cursor:default}
.rfl-tip{position:absolute;pointer-events:none;z-index:2;background:var(--bg);border:1px solid var(--ln);border-radius:4px;padding:3px 8px;font-size:11px;white-space:nowrap;box-shadow:0 2px 8px rgba(0,0,0,.25);max-width:90%;overflow:hidden;text-overflow:ellipsis}
.rfl-live{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.rfl h4{font-size:12.5px;font-weight:600;display:flex;gap:7px;align-items:center;color:var(--fg)}.rfl h4>span:last-child{overflow-wrap:anywhere;min-width:0}.rfl h5{margin:12px 0 4px;font-size:11px;font-weight:600;color:var(--fg2)}
.rfl dl{display:grid;grid-template-columns:72px 1fr;gap:2px 8px;margin:8px 0 0}.rfl dt{color:var(--fg2);font-weight:400;white-space:nowrap;margin:0}.rfl dd{min-width:0;overflow-wrap:anywhere}
.rfl-mb{display:grid;grid-template-columns:16px 1fr auto;gap:6px;padding:2px 0;align-items:center}.rfl-mb>span{min-width:0;overflow-wrap:anywhere}.rfl-mb.rfl-io{grid-template-columns:19px 1fr auto;gap:4px}
.rfl-acts{display:flex;gap:6px;margin-top:12px;flex-wrap:wrap}
.rfl-scroll{overflow-x:auto}.rfl table{border-collapse:collapse;width:100%;font-size:12px;margin:0;border:0;table-layout:auto}
.rfl th{font-weight:600;font-size:11px;color:var(--fg2);text-align:left;padding:6px 10px;border:0;border-bottom:1px solid var(--ln);white-space:nowrap;background:none;vertical-align:bottom}
.rfl td{padding:5px 10px;border:0;border-bottom:1px solid var(--ln3);vertical-align:middle;text-align:left;background:none;color:inherit;max-width:none}.rfl tbody tr:last-child td{border-bottom:0}.rfl tr{background:none}.rfl .rfl-num{text-align:right;white-space:nowrap}
.rfl tbody tr:hover td{background:var(--bg2)}.rfl tr.rfl-on td{background:color-mix(in srgb,var(--br) 8%,transparent)}.rfl th button{all:unset;cursor:pointer}.rfl td.rfl-src{font-family:var(--mono);font-size:11.3px;white-space:pre;max-width:340px;overflow:hidden;text-overflow:ellipsis}
.rfl-foot{padding:8px 12px;border-top:1px solid var(--ln);color:var(--fg2);display:flex;gap:12px;align-items:center}.rfl-foot>span{flex:1}
.rfl-ch{display:grid;grid-template-columns:repeat(4,1fr);gap:4px;min-width:440px}.rfl-ch>div{border:1px solid var(--ln);border-radius:3px;min-height:32px;padding:3px 6px;font-size:10.5px;line-height:13px;display:flex;gap:6px;align-items:center;min-width:0;overflow-wrap:anywhere}
.rfl-ch>.rfl-passed{color:var(--fg2);background:var(--bg2)}.rfl-ch>.rfl-untried{border-style:dashed;color:var(--fg2)}.rfl-ch>.rfl-ran{border-width:2px;font-weight:600;padding:2px 5px;background:var(--bg)}
.rfl-ch>.rfl-ran.rfl-native{border-color:var(--n)}.rfl-ch>.rfl-ran.rfl-jit{border-color:var(--j)}.rfl-ch>.rfl-ran.rfl-reference{border-color:var(--r)}.rfl-ch>.rfl-ran.rfl-cpu{border-color:var(--c)}
.rfl-counters{display:flex;border-top:1px solid var(--ln);flex-wrap:wrap}.rfl-counters>div{flex:1 1 110px;padding:7px 12px;border-left:1px solid var(--ln);min-width:0}.rfl-counters>div:first-child{border-left:0}.rfl-counters small{display:block;font-size:11px;color:var(--fg2)}.rfl-counters b{display:block;font-size:13px;font-weight:600;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.rfl-mr{padding:1px 0 3px}.rfl-mr>div{display:flex;gap:5px;align-items:baseline;line-height:16px}.rfl-mr .rfl-num{margin-left:auto;padding-left:6px}.rfl-mr>i{display:block;height:4px;border-radius:2px}.rfl-lb{min-width:0;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}.rfl .rfl-lb code{font-size:10.5px}
.rfl-leak{margin-top:14px;border-left:3px solid var(--bad);padding:2px 0 2px 10px}.rfl-leak p{margin-top:4px}
.rfl-empty{padding:28px 12px;text-align:center;color:var(--fg2)}
@media(max-width:640px){.rfl-tb .rfl-lg{display:none}}
`;

const STYLE_ID = 'rfl-style';

/** Puts the style sheet into the page, or into the shadow root that holds `node`, once. */
export function ensureStyle(node: Node): void {
  const root = node.getRootNode();
  const home = root instanceof ShadowRoot ? root : document.head;
  if (!home.querySelector(`#${STYLE_ID}`)) {
    const style = document.createElement('style');
    style.id = STYLE_ID;
    style.textContent = CSS;
    home.append(style);
  }
}
