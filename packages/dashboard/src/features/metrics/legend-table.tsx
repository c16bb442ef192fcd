import { ArrowDown, ArrowUp } from "lucide-react";
import { LEGEND_ORDERS } from "../../search.ts";
import { cx, TextLine } from "../../ui/index.ts";
import { valueText } from "../robots/health-series.ts";
import { type Line, sortLines } from "./explorer.ts";
import { LineMark } from "./line-mark.tsx";

type Order = (typeof LEGEND_ORDERS)[number];
const TITLES: Record<Order, string> = { name: "Name", last: "Latest", mean: "Average", min: "Lowest", max: "Highest" };

interface LegendProps {
  label: string;
  lines: readonly Line[];
  unit: string;
  sort: Order;
  onSort: (sort: Order) => void;
  /** Key of the only line that the chart shows. */
  only: string | undefined;
  onOnly: (key: string | undefined) => void;
  lit: string | undefined;
  onLit: (key: string | undefined) => void;
}

/** The legend of a chart, and its text alternative: a row for each line with its values. A click on a name shows only that line. */
export function LegendTable({ label, lines, unit, sort, onSort, only, onOnly, lit, onLit }: LegendProps) {
  return (
    <div className="max-h-56 overflow-auto" role="region" aria-label={label} tabIndex={0}>
      <table className="w-full text-xs">
        <thead className="sticky top-0 bg-raised">
          <tr>
            {LEGEND_ORDERS.map((order) => (
              <Head key={order} order={order} is_sorted={order === sort} onSort={() => onSort(order)} />
            ))}
          </tr>
        </thead>
        <tbody>
          {sortLines(lines, sort).map((line) => (
            <tr
              key={line.key}
              onMouseEnter={() => onLit(line.key)}
              onMouseLeave={() => onLit(undefined)}
              className={cx(line.key === lit && "bg-hover", only !== undefined && line.key !== only && "text-muted")}
            >
              <th scope="row" className="w-full max-w-0 p-0 text-left font-normal">
                <button
                  type="button"
                  aria-pressed={line.key === only}
                  title={line.key === only ? "Show all lines" : "Show only this line"}
                  onClick={() => onOnly(line.key === only ? undefined : line.key)}
                  onFocus={() => onLit(line.key)}
                  onBlur={() => onLit(undefined)}
                  className={cx("flex min-h-6 w-full items-center gap-2 px-1 text-left", line.key === only && "font-semibold")}
                >
                  <LineMark index={line.index} />
                  <TextLine>{line.label}</TextLine>
                </button>
              </th>
              {(["last", "mean", "min", "max"] as const).map((figure) => (
                <td key={figure} className={cx("px-2 text-right whitespace-nowrap tabular-nums", HIDDEN[figure])}>
                  {valueText(line.figures[figure], unit)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Narrow screens have no space for all figures. */
const HIDDEN: Partial<Record<Order, string>> = { min: "max-sm:hidden", mean: "max-sm:hidden" };

function Head({ order, is_sorted, onSort }: { order: Order; is_sorted: boolean; onSort: () => void }) {
  const Arrow = order === "name" ? ArrowUp : ArrowDown;
  return (
    <th
      scope="col"
      aria-sort={is_sorted ? (order === "name" ? "ascending" : "descending") : undefined}
      className={cx("p-0 font-medium text-muted", HIDDEN[order])}
    >
      <button
        type="button"
        onClick={onSort}
        className={cx("inline-flex min-h-6 w-full items-center gap-0.5 px-2 hover:text-ink", order === "name" ? "!px-1" : "justify-end")}
      >
        {is_sorted && <Arrow size={10} aria-hidden />}
        {TITLES[order]}
      </button>
    </th>
  );
}
