import { Columns3 } from "lucide-react";
import { useMemo, useState } from "react";
import { IconButton } from "./button.tsx";
import type { Column } from "./data-table.tsx";
import { Dialog } from "./dialog.tsx";
import { Checkbox, Switch } from "./field.tsx";
import { createStore } from "./store.ts";
import { readTableChoice, type TableChoice } from "./table-choice.ts";

const keyOf = (table: string): string => `roamfleet.table.${table}`;

type Choices = Readonly<Record<string, TableChoice>>;
const choices = createStore<Choices>({});
/** Settings of tables that show a saved view. They take precedence, and this browser does not store them. */
const of_views = createStore<Choices>({});

/** Shows a table as a saved view defines it, until the returned function is called. */
export function showTableAs(table: string, choice: TableChoice): () => void {
  of_views.set({ ...of_views.get(), [table]: choice });
  return () => of_views.set(Object.fromEntries(Object.entries(of_views.get()).filter(([name]) => name !== table)));
}

function choose(table: string, choice: TableChoice): void {
  if (of_views.get()[table] !== undefined) return of_views.set({ ...of_views.get(), [table]: choice });
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

/** Returns the columns and the row height that the user or a saved view chose for a table. This browser stores the user's choice. */
export function useTableView<Row>(table: string, all: readonly Column<Row>[]): TableView<Row> {
  const stored = choices.use()[table];
  const chosen = of_views.use()[table] ?? stored;
  const choice = useMemo(() => chosen ?? readTableChoice(localStorage.getItem(keyOf(table))), [chosen, table]);
  const columns = useMemo(() => all.filter(({ name }, at) => at === 0 || !choice.hidden.includes(name)), [all, choice]);
  return { table, columns, all, choice, is_dense: choice.is_dense };
}

/** The button that opens the settings of a table: its columns and the height of its rows. */
export function TableSettings<Row>({ view: { table, all, choice } }: { view: TableView<Row> }) {
  const [is_open, setOpen] = useState(false);
  const { hidden } = choice;
  const is_of_view = of_views.use()[table] !== undefined;
  const show = (name: string, on: boolean): void =>
    choose(table, { ...choice, hidden: on ? hidden.filter((one) => one !== name) : [...hidden, name] });
  return (
    <>
      <IconButton label="Table settings" icon={Columns3} onClick={() => setOpen(true)} />
      <Dialog
        open={is_open}
        onClose={() => setOpen(false)}
        title="Table settings"
        description={is_of_view ? "Part of the view. To keep a change, save the view." : "Stored in this browser."}
      >
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
