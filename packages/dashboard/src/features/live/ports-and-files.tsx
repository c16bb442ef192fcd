import { Command, Section } from "../../ui/index.ts";

/** What a browser cannot do but `rf` can: ports and files of a robot. */
export function PortsAndFiles({ robot_id }: { robot_id: string }) {
  return (
    <Section title="Ports and files">
      <div className="grid gap-4 md:grid-cols-2">
        <div className="min-w-0 space-y-2">
          <p className="text-muted">
            A port of your own machine that leads to the robot, until Ctrl-C. Without more the robot lets it lead to its own loopback only;
            `forward.allow` in its config file allows others.
          </p>
          <Command>{`rf robots forward ${robot_id} 8080:80`}</Command>
          <Command>{`rf robots forward ${robot_id} 0:22`}</Command>
        </div>
        <div className="min-w-0 space-y-2">
          <p className="text-muted">
            Files and directories, either way, going on where they stopped. The robot shows what the user of its shell may see, below
            `files.directories` of its config file.
          </p>
          <Command>{`rf robots cp ${robot_id}:/var/log/nav.log .`}</Command>
          <Command>{`rf robots cp -r ./maps ${robot_id}:maps`}</Command>
        </div>
      </div>
      <p className="mt-2 text-xs text-muted">
        Both need the role operator, and the robot may have them switched off: `streams: {"{ forward: off, files: off }"}` in
        /etc/roamfleet/agent.yaml, which no server can change. Then they are refused with “switched off on the robot”.
      </p>
    </Section>
  );
}
