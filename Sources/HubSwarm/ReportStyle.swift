/// How reports look: light and dark by the reader's choice, narrow screens, black on white on paper. The lines' colours are told apart by
/// people who don't see all of them, and by their dashes on paper.
enum ReportStyle {
    static let sheet = """
        :root { color-scheme: light dark; --ground: #fff; --sheet: #f6f7f9; --ink: #1a1d21; --soft: #59616b; --rule: #d9dde3; --good: #14703a; \
        --bad: #b3261e; --warn: #8a5a00; --c0: #0b62c4; --c1: #b84a00; --c2: #00755a; --c3: #96307f; --c4: #5c5f66; --c5: #7a5c00; --c6: #a3203f; }
        @media (prefers-color-scheme: dark) { :root { --ground: #14171a; --sheet: #1d2125; --ink: #e8eaed; --soft: #a6aeb8; --rule: #353b42; \
        --good: #6fd394; --bad: #ff8a80; --warn: #f0c060; --c0: #6cb2ff; --c1: #ff9a57; --c2: #4fd1ae; --c3: #e79ad6; --c4: #b4b8bf; --c5: #e0c158; --c6: #ff9db0; } }
        * { box-sizing: border-box; }
        body { margin: 0 auto; padding: 24px 20px 48px; max-width: 1080px; background: var(--ground); color: var(--ink); \
        font: 15px/1.5 system-ui, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; overflow-wrap: anywhere; }
        h1 { font-size: 24px; line-height: 1.25; margin: 0 0 4px; } h2 { font-size: 18px; margin: 36px 0 8px; } h3 { font-size: 15px; margin: 0; }
        p { margin: 4px 0 12px; } .soft { color: var(--soft); }
        .verdict { margin: 16px 0; padding: 12px 16px; border-left: 5px solid; border-radius: 4px; background: var(--sheet); }
        .verdict strong { font-size: 17px; } .verdict ul { margin: 6px 0 0; padding-left: 20px; }
        .verdict.good { border-color: var(--good); } .verdict.good strong { color: var(--good); }
        .verdict.bad { border-color: var(--bad); } .verdict.bad strong { color: var(--bad); }
        .verdict.warn { border-color: var(--warn); } .verdict.warn strong { color: var(--warn); }
        .tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(165px, 1fr)); gap: 10px; margin: 16px 0; padding: 0; }
        .tiles div { background: var(--sheet); border-radius: 6px; padding: 10px 12px; }
        .tiles dt { color: var(--soft); font-size: 13px; } .tiles dd { margin: 0; font-size: 18px; white-space: nowrap; font-weight: 600; font-variant-numeric: tabular-nums; }
        .plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); gap: 18px; }
        figure { margin: 0; padding: 14px; background: var(--sheet); border-radius: 6px; break-inside: avoid; }
        figure .key { display: flex; flex-wrap: wrap; gap: 2px 16px; margin: 2px 0 6px; padding: 0; list-style: none; font-size: 13px; color: var(--soft); }
        .key svg { width: 26px; height: 8px; margin-right: 6px; vertical-align: middle; }
        figure svg.plot { display: block; width: 100%; height: auto; } svg.small { display: none !important; }
        svg text { fill: var(--soft); font: 12px system-ui, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; font-variant-numeric: tabular-nums; }
        .grid { stroke: var(--rule); stroke-width: 1; } .axis { stroke: var(--soft); stroke-width: 1; } .band { fill: var(--rule); fill-opacity: .45; }
        .line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
        .k0 { stroke: var(--c0); } .k1 { stroke: var(--c1); stroke-dasharray: 7 4; } .k2 { stroke: var(--c2); stroke-dasharray: 2 4; } \
        .k3 { stroke: var(--c3); stroke-dasharray: 10 3 2 3; } .k4 { stroke: var(--c4); stroke-dasharray: 4 2; } .k5 { stroke: var(--c5); stroke-dasharray: 1 3; } \
        .k6 { stroke: var(--c6); stroke-dasharray: 12 4; }
        .bar { fill: var(--c0); } .dot { fill: var(--ground); stroke-width: 2; stroke-dasharray: none; }
        .scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; margin: 8px 0 18px; font-size: 14px; }
        caption { text-align: left; font-weight: 600; padding: 4px 0; } thead th { color: var(--soft); font-weight: 600; }
        th, td { text-align: left; padding: 4px 10px 4px 0; border-bottom: 1px solid var(--rule); vertical-align: top; } tbody th { font-weight: 400; min-width: 6.5em; }
        .n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; padding: 4px 0 4px 14px; } .n + :not(.n) { padding-left: 14px; }
        td.good, th.good { color: var(--good); font-weight: 600; } td.bad, th.bad { color: var(--bad); font-weight: 600; }
        summary { cursor: pointer; font-weight: 600; padding: 6px 0; } footer { margin-top: 36px; color: var(--soft); font-size: 13px; }
        @media (max-width: 560px) { body { padding: 16px 12px 32px; } svg.large { display: none !important; } figure svg.small { display: block !important; } \
        figure { padding: 10px; } .tiles { grid-template-columns: repeat(2, 1fr); } h1 { font-size: 21px; } }
        @media print { :root { color-scheme: light; --ground: #fff; --sheet: #fff; --ink: #000; --soft: #333; --rule: #bbb; --good: #000; --bad: #000; --warn: #000; \
        --c0: #000; --c1: #000; --c2: #666; --c3: #888; --c4: #000; --c5: #666; --c6: #888; } @page { margin: 13mm 14mm; }
        body { max-width: none; padding: 0; font-size: 10pt; line-height: 1.4; } h1 { font-size: 16pt; } h2 { font-size: 12.5pt; margin: 14pt 0 4pt; } \
        h3 { font-size: 10pt; } h1, h2, h3, caption, h2 + p { break-after: avoid; } .verdict, .tiles, table.short, tr, footer { break-inside: avoid; }
        table { font-size: 9pt; margin: 4px 0 10px; } th, td, .n { padding-top: 2px; padding-bottom: 2px; } thead { display: table-header-group; } \
        .scroll { overflow: visible; } .pairs { columns: 2; column-gap: 20px; }
        .verdict { margin: 8px 0; padding: 6px 12px; } .verdict strong { font-size: 12pt; } figure, .tiles div, .verdict { border: 1px solid #bbb; } \
        .tiles { grid-template-columns: repeat(9, auto); gap: 5px; margin: 8px 0; } .tiles div { padding: 3px 7px; } .tiles dt { font-size: 7.5pt; } .tiles dd { font-size: 10.5pt; }
        .plots { grid-template-columns: 1fr 1fr; gap: 10px; margin-bottom: 8px; } figure { padding: 7px 9px; } figure .key { font-size: 8pt; } \
        figcaption { font-size: 8pt; line-height: 1.3; } svg.large, details { display: none !important; } figure svg.small { display: block !important; height: 36mm; }
        .bar { fill: #555; } .line { stroke-width: 1.5; } footer { margin-top: 12px; } }
        """
}
