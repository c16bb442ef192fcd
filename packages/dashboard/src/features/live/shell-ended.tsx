import { CircleCheck, TriangleAlert } from "lucide-react";
import { Button, cx } from "../../ui/index.ts";
import type { ShellState } from "./use-shell.ts";

/** Shows how a shell ended. A new shell is opened only on request, because it has a new state. */
export function ShellEnded({ state, is_online, onOpen }: { state: ShellState; is_online: boolean; onOpen: () => void }) {
  if (state.is !== "ended") return null;
  const { exit_code, signal, why } = state;
  const is_fine = exit_code === 0;
  const Icon = is_fine ? CircleCheck : TriangleAlert;
  const words =
    exit_code !== undefined
      ? `The program ended with exit code ${exit_code}${signal === undefined ? "" : ` (${signal})`}.`
      : why === undefined
        ? "You ended the shell."
        : `${why.title}. ${why.text}`;
  const may_open = why?.again !== "never" && (is_online || why?.again !== "offline");
  return (
    <div
      role="status"
      className="flex flex-wrap items-center gap-x-3 gap-y-2 rounded-md border border-line bg-raised px-3 py-2"
      data-shell-ended
    >
      <Icon size={16} aria-hidden className={cx("shrink-0", is_fine ? "text-ok" : "text-warn")} />
      <span className="min-w-0 flex-1 [overflow-wrap:anywhere]">
        {words} <span className="text-muted">{exit_code === undefined && "Its programs were stopped."}</span>
      </span>
      {may_open && (
        <Button look="primary" busy={false} onClick={onOpen} disabled={!is_online}>
          Open new shell
        </Button>
      )}
    </div>
  );
}
