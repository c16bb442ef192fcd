import { useQuery } from "@tanstack/react-query";
import { Link, useBlocker, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { Accessibility, Radio, SquareTerminal } from "lucide-react";
import { useRef, useState } from "react";
import { query } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { Badge, Button, byteText, Command, ConfirmDialog, QueryState } from "../../ui/index.ts";
import { OperatorsOnly } from "./operators-only.tsx";
import { PortsAndFiles } from "./ports-and-files.tsx";
import { ShellEnded } from "./shell-ended.tsx";
import { type ShellState, useShell, type UsedShell } from "./use-shell.ts";

const SCREEN_READER = "roamfleet.screen_reader";

/** The shell tab of a robot. */
export function RobotShell() {
  const { id } = useParams({ from: "/app/robots/$id/shell" });
  const robot = useQuery(query("getRobot", { params: { id } }));
  if (!useMay("operator")) return <OperatorsOnly what="open a shell on a robot" />;
  return (
    <QueryState query={robot}>
      {({ data }) => <Shell id={id} apps={data.apps.map(({ app }) => app)} is_online={data.status === "online"} />}
    </QueryState>
  );
}

function Shell({ id, apps, is_online }: { id: string; apps: readonly string[]; is_online: boolean }) {
  const { app } = useSearch({ from: "/app/robots/$id/shell" });
  const holder = useRef<HTMLDivElement>(null);
  const bar = useRef<HTMLDivElement>(null);
  const [screen_reader, setScreenReader] = useState(() => localStorage.getItem(SCREEN_READER) === "on");
  const shell = useShell({
    holder,
    onLeave: () => bar.current?.querySelector<HTMLElement>("button:not(:disabled), select:not(:disabled)")?.focus(),
    robot_id: id,
    app,
    screen_reader,
  });
  const { state } = shell;
  const toggleReader = (): void => {
    localStorage.setItem(SCREEN_READER, screen_reader ? "off" : "on");
    setScreenReader(!screen_reader);
  };
  return (
    <div className="space-y-3">
      <div ref={bar} className="flex flex-wrap items-center gap-2" role="group" aria-label="Shell">
        <Badge tone="warn" icon={<Radio size={12} aria-hidden />}>
          {state.is === "idle" ? "Shells are recorded" : "This session is recorded"}
        </Badge>
        <ShellBadge state={state} />
        <AppPicker id={id} app={app} apps={apps} disabled={state.is === "open" || state.is === "connecting"} />
        <span className="flex-1" />
        <Button
          look="quiet"
          icon={<Accessibility size={14} aria-hidden />}
          aria-pressed={screen_reader}
          onClick={toggleReader}
          className={screen_reader ? "bg-active" : ""}
        >
          Screen-reader mode
        </Button>
        {(state.is === "open" || state.is === "connecting") && <Button onClick={shell.close}>End shell</Button>}
      </div>
      <Waiting shell={shell} />
      <ShellEnded state={state} is_online={is_online} onOpen={shell.open} />
      <div className="relative">
        <div className="rounded-lg border border-line bg-sunken p-2 focus-within:border-accent">
          {/* Without padding: the terminal fills the element. */}
          <div ref={holder} className="h-[calc(100dvh-21rem)] min-h-72 overflow-hidden" data-terminal />
        </div>
        {state.is === "idle" && <Invitation is_online={is_online} is_ready={shell.is_ready} onOpen={shell.open} />}
      </div>
      <p className="text-xs text-muted">
        All keys go to the robot, including Ctrl-K. Ctrl-Shift-C copies, Ctrl-Shift-V pastes, Ctrl-Shift-Up leaves the terminal.{" "}
        <Link to="/shells" search={{ robot_id: id }} className="text-accent underline">
          Earlier shells of this robot
        </Link>
      </p>
      <Command>{`rf robots shell ${id}${app === undefined ? "" : ` --app ${app}`}`}</Command>
      <PortsAndFiles robot_id={id} />
      <LeaveDialog is_open={state.is === "open"} />
    </div>
  );
}

function ShellBadge({ state }: { state: ShellState }) {
  if (state.is === "open") return <Badge tone="ok">open</Badge>;
  if (state.is === "connecting") return <Badge>connecting</Badge>;
  return state.is === "ended" ? <Badge>ended</Badge> : <Badge>not open</Badge>;
}

function AppPicker({ id, app, apps, disabled }: { id: string; app: string | undefined; apps: readonly string[]; disabled: boolean }) {
  const navigate = useNavigate({ from: "/robots/$id/shell" });
  const known = app === undefined || apps.includes(app) ? apps : [...apps, app];
  return (
    <select
      aria-label="Run in"
      disabled={disabled}
      value={app ?? ""}
      onChange={({ target }) => void navigate({ params: { id }, search: target.value === "" ? {} : { app: target.value }, replace: true })}
      className="h-8 max-w-56 rounded-md border border-line-strong bg-surface px-2.5 disabled:opacity-60"
    >
      <option value="">On the robot</option>
      {known.map((name) => (
        <option key={name} value={name}>
          In {name}
        </option>
      ))}
    </select>
  );
}

function Invitation({ is_online, is_ready, onOpen }: { is_online: boolean; is_ready: boolean; onOpen: () => void }) {
  return (
    <div className="absolute inset-0 flex flex-col items-center justify-center gap-3 rounded-lg bg-sunken p-4 text-center">
      <SquareTerminal size={28} aria-hidden className="text-muted" />
      <p className="max-w-md text-muted">
        {is_online
          ? "Shell output is recorded with its timing, and admins can replay it. Leaving this page ends the shell and stops running programs."
          : "The robot is not connected. You can open a shell when it reconnects."}
      </p>
      <Button look="primary" busy={false} disabled={!is_online || !is_ready} onClick={onOpen}>
        Open shell{" "}
      </Button>
    </div>
  );
}

function Waiting({ shell: { waiting_bytes, is_full, dropTyped } }: { shell: UsedShell }) {
  // Small amounts are sent immediately: show nothing.
  if (waiting_bytes < 64 * 1024 && !is_full) return null;
  return (
    <div role="status" className="flex flex-wrap items-center gap-2 rounded-md bg-info-soft px-3 py-2 text-info">
      <span className="flex-1">
        {byteText(waiting_bytes)} of pasted text not sent yet.
        {is_full && " At most 16 MB can wait: the rest was discarded. Use `rf robots cp` to copy files."}
      </span>
      <Button onClick={dropTyped}>Discard</Button>
    </div>
  );
}

/** Asks for confirmation before a navigation ends the shell. */
function LeaveDialog({ is_open }: { is_open: boolean }) {
  const blocker = useBlocker({
    shouldBlockFn: ({ current, next }) => is_open && current.pathname !== next.pathname,
    enableBeforeUnload: () => is_open,
    withResolver: true,
  });
  return (
    <ConfirmDialog
      open={blocker.status === "blocked"}
      onClose={() => blocker.reset?.()}
      onConfirm={() => blocker.proceed?.()}
      title="End shell?"
      consequence="Leaving this page ends the shell and stops running programs. Use setsid, tmux or systemd-run for programs that must keep running."
      verb="End shell and leave"
      danger
    />
  );
}
