import { Columns3 } from "lucide-react";
import { useMemo, useState } from "react";
import { IconButton } from "./button.tsx";
import type { Column } from "./data-table.tsx";
import { Dialog } from "./dialog.tsx";
import { Checkbox, Switch } from "./field.tsx";
import { createStore } from "./store.ts";
import { readTableChoice, type TableChoice } from "./table-choice.ts";

const keyOf = (table: string): string => `roamfleet.table.${table}`;

const choices = createStore<Readonly<Record<string, TableChoice>>>({});

function choose(table: string, choice: TableChoice): void {
  localStorage.setItem(keyOf(table), JSON.stringify(choice));
  choices.set({ ...choices.get(), [table]: choice });
}

export interface TableView<Row> {
  table: string;
  /** The columns that are shown. */
  columns: readonly Column<Row>[];
  all: readonly Column<Row>[];
  choice: TableChoice;
  is_dense: boolean;
}

/** Returns the columns and the row height that the user chose for a table. This browser stores the choice. */
export function useTableView<Row>(table: string, all: readonly Column<Row>[]): TableView<Row> {
  const chosen = choices.use()[table];
  const choice = useMemo(() => chosen ?? readTableChoice(localStorage.getItem(keyOf(table))), [chosen, table]);
  const columns = useMemo(() => all.filter(({ name }, at) => at === 0 || !choice.hidden.includes(name)), [all, choice]);
  return { table, columns, all, choice, is_dense: choice.is_dense };
}

/** The button that opens the settings of a table: its columns and the height of its rows. */
export function TableSettings<Row>({ view: { table, all, choice } }: { view: TableView<Row> }) {
  const [is_open, setOpen] = useState(false);
  const { hidden } = choice;
  const show = (name: string, on: boolean): void =>
    choose(table, { ...choice, hidden: on ? hidden.filter((one) => one !== name) : [...hidden, name] });
  return (
    <>
      <IconButton label="Table settings" icon={Columns3} onClick={() => setOpen(true)} />
      <Dialog open={is_open} onClose={() => setOpen(false)} title="Table settings" description="Stored in this browser.">
        <fieldset className="mb-4">
          <legend className="mb-1 font-medium">Columns</legend>
          {/* The first column cannot be hidden, so that no row is empty. */}
          <ul className="grid gap-1 sm:grid-cols-2">
            {all.slice(1).map(
              ({ name }) =>
                name !== "" && (
                  <li key={name}>
                    <Checkbox label={name} checked={!hidden.includes(name)} onChange={(on) => show(name, on)} />
                  </li>
                ),
            )}
          </ul>
          <p className="mt-2 text-xs text-muted">Narrow screens show fewer columns.</p>
        </fieldset>
        <Switch label="Dense rows" checked={choice.is_dense} onChange={(is_dense) => choose(table, { ...choice, is_dense })} />
      </Dialog>
    </>
  );
}
