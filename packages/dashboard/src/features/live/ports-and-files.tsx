import { Command, Section } from "../../ui/index.ts";

/** Shows the `rf` commands for port forwarding and file transfer, which browsers cannot do. */
export function PortsAndFiles({ robot_id }: { robot_id: string }) {
  return (
    <Section title="Ports and files">
      <div className="grid gap-4 md:grid-cols-2">
        <div className="min-w-0 space-y-2">
          <p className="text-muted">
            Forwards a port of your machine to the robot, until Ctrl-C. By default, the robot allows its loopback addresses only;
            `forward.allow` in its config file allows others.
          </p>
          <Command>{`rf robots forward ${robot_id} 8080:80`}</Command>
          <Command>{`rf robots forward ${robot_id} 0:22`}</Command>
        </div>
        <div className="min-w-0 space-y-2">
          <p className="text-muted">
            Copies files and directories in either direction, and resumes interrupted transfers. The robot gives access to files that its
            shell user can read, below `files.directories` of its config file.
          </p>
          <Command>{`rf robots cp ${robot_id}:/var/log/nav.log .`}</Command>
          <Command>{`rf robots cp -r ./maps ${robot_id}:maps`}</Command>
        </div>
      </div>
      <p className="mt-2 text-xs text-muted">
        Both require the operator role. The robot can disable them with `streams: {"{ forward: off, files: off }"}` in
        /etc/roamfleet/agent.yaml, which no server can change. Requests are then refused with “switched off on the robot”.
      </p>
    </Section>
  );
}
