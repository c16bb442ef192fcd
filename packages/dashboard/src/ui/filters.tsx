import { type HistoryState, useNavigate } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { hasFilters } from "../search.ts";
import { Button } from "./button.tsx";
import { cx } from "./text.tsx";

declare module "@tanstack/react-router" {
  interface HistoryState {
    /** ID of the saved view that the page was opened with. */
    view_id?: string;
  }
}

/** The `state` for a call of `navigate` after which the page still shows the saved view that it was opened with. */
export const keepView = ({ view_id }: HistoryState): HistoryState => (view_id === undefined ? {} : { view_id });

const leaveView = (): HistoryState => ({});

export interface Filters<Search extends object> {
  search: Search;
  /** Sets the given URL parameters; removes those that are undefined. */
  change: (part: Search) => void;
  /** Removes all URL parameters except those in `kept`. */
  clear: (kept?: Search) => void;
  is_filtered: boolean;
}

/** Treats the URL parameters of a page as filters. A change replaces the current entry of the browser's history and adds none. */
export function useFilters<Search extends object>(search: Search): Filters<Search> {
  const navigate = useNavigate();
  const put = (next: (before: object) => object, state: typeof keepView): void =>
    void navigate({ to: ".", search: next as never, state, replace: true });
  return {
    search,
    change: (part) => put((before) => ({ ...before, ...part }), keepView),
    clear: (kept = {} as Search) => put(() => kept, leaveView),
    is_filtered: hasFilters(search),
  };
}

/** Filters that are collapsed on narrow screens. */
export function MoreFilters({ children }: { children: ReactNode }) {
  const [is_open, setOpen] = useState(false);
  return (
    <>
      <Button className="sm:hidden" aria-expanded={is_open} onClick={() => setOpen(!is_open)}>
        {is_open ? "Fewer filters" : "More filters"}
      </Button>
      <div className={cx("contents", !is_open && "max-sm:hidden")}>{children}</div>
    </>
  );
}
