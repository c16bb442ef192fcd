import { Link, useBlocker, useNavigate, useSearch } from "@tanstack/react-router";
import { Accessibility, CircleCheck, Radio, SquareTerminal, TriangleAlert } from "lucide-react";
import { useRef, useState } from "react";
import { useMay } from "../../api/session.ts";
import { Badge, BarSelect, Button, byteText, Command, ConfirmDialog, cx, Section } from "../../ui/index.ts";
import { useRobot } from "../robots/use-robot.ts";
import { OperatorsOnly } from "./live-stream.tsx";
import { type ShellState, type UsedShell, useShell } from "./use-shell.ts";

const SCREEN_READER = "roamfleet.screen_reader";

/** The shell tab of a robot. */
export function RobotShell() {
  const robot = useRobot();
  if (!useMay("operator")) return <OperatorsOnly what="open a shell on a robot" />;
  return robot && <Shell id={robot.id} apps={robot.apps.map(({ app }) => app)} is_online={robot.status === "online"} />;
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
        <Badge {...(state.is === "ended" ? {} : { tone: "warn", icon: Radio })}>{recordedText(state)}</Badge>
        <ShellBadge state={state} />
        <AppPicker id={id} app={app} apps={apps} disabled={state.is === "open" || state.is === "connecting"} />
        <span className="flex-1" />
        <Button
          look="quiet"
          icon={Accessibility}
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
          Shell sessions of this robot
        </Link>
      </p>
      <Command>{`rf robots shell ${id}${app === undefined ? "" : ` --app ${app}`}`}</Command>
      <PortsAndFiles robot_id={id} />
      <LeaveDialog is_open={state.is === "open"} />
    </div>
  );
}

function recordedText(state: ShellState): string {
  if (state.is === "open" || state.is === "connecting") return "This session is recorded";
  // A shell that was refused has no recording.
  return state.is === "ended" && state.exit_code !== undefined ? "This session was recorded" : "Shells are recorded";
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
    <BarSelect
      label="Run in"
      disabled={disabled}
      value={app ?? ""}
      options={[{ value: "", label: "On the robot" }, ...known.map((name) => ({ value: name, label: `In ${name}` }))]}
      onValue={(name) => void navigate({ params: { id }, search: name === "" ? {} : { app: name }, replace: true })}
    />
  );
}

function Invitation({ is_online, is_ready, onOpen }: { is_online: boolean; is_ready: boolean; onOpen: () => void }) {
  return (
    <div className="absolute inset-0 flex flex-col items-center justify-center gap-3 rounded-lg bg-sunken p-4 text-center">
      <SquareTerminal size={28} aria-hidden className="text-muted" />
      <p className="max-w-md text-muted">
        {is_online
          ? "Shell output is recorded with its timing, and admins can replay it. Leaving this page ends the shell and stops running programs."
          : "The robot is not connected. You can open a shell while it is online."}
      </p>
      <Button look="primary" busy={false} disabled={!is_online || !is_ready} onClick={onOpen}>
        Open shell{" "}
      </Button>
    </div>
  );
}

function Waiting({ shell: { waiting_bytes, is_full, dropTyped } }: { shell: UsedShell }) {
  // Show nothing while little input is waiting: it is sent immediately.
  if (waiting_bytes < 64 * 1024 && !is_full) return null;
  return (
    <div role="status" className="flex flex-wrap items-center gap-2 rounded-md bg-info-soft px-3 py-2 text-info">
      <span className="flex-1">
        {byteText(waiting_bytes)} of pasted text not sent yet.
        {is_full && " At most 16 MB can be queued: the rest was discarded. Use `rf robots cp` to copy files."}
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

/** Shows how a shell ended. A new shell is opened only on request, because it has a new state. */
function ShellEnded({ state, is_online, onOpen }: { state: ShellState; is_online: boolean; onOpen: () => void }) {
  if (state.is !== "ended") return null;
  const { exit_code, signal, why } = state;
  const is_fine = exit_code === 0;
  const Icon = is_fine ? CircleCheck : TriangleAlert;
  const words =
    exit_code !== undefined
      ? `The program ended with exit code ${exit_code}${signal === undefined ? "" : ` (${signal})`}.`
      : why === undefined
        ? "You ended the shell."
        : why.again === "offline"
          ? "Robot not connected. Open a new shell when the robot connects."
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
        {words} <span className="text-muted">{exit_code === undefined && "Running programs were stopped."}</span>
      </span>
      {may_open && (
        <Button look="primary" busy={false} onClick={onOpen} disabled={!is_online}>
          Open new shell
        </Button>
      )}
    </div>
  );
}

/** Shows the `rf` commands for port forwarding and file transfer, which browsers cannot do. */
function PortsAndFiles({ robot_id }: { robot_id: string }) {
  return (
    <Section title="Ports and files">
      <div className="grid gap-4 md:grid-cols-2">
        <div className="min-w-0 space-y-2">
          <p className="text-muted">
            Forwards a port of your machine to the robot until you press Ctrl-C. By default, the robot allows only its loopback addresses;
            `forward.allow` in the robot's config file allows other addresses.
          </p>
          <Command>{`rf robots forward ${robot_id} 8080:80`}</Command>
          <Command>{`rf robots forward ${robot_id} 0:22`}</Command>
        </div>
        <div className="min-w-0 space-y-2">
          <p className="text-muted">
            Copies files and directories in either direction, and resumes interrupted transfers. The robot allows access to files that its
            shell user can read, in the directories that `files.directories` in the robot's config file lists.
          </p>
          <Command>{`rf robots cp ${robot_id}:/var/log/nav.log .`}</Command>
          <Command>{`rf robots cp -r ./maps ${robot_id}:maps`}</Command>
        </div>
      </div>
      <p className="mt-2 text-xs text-muted">
        Port forwarding and file copies require the operator role. The robot can disable them with `streams:{" "}
        {"{ forward: off, files: off }"}` in /etc/roamfleet/agent.yaml, which no server can change. Requests are then refused with “switched
        off on the robot”.
      </p>
    </Section>
  );
}
