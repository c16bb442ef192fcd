import type { Incident } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { Check, Eye, MessageSquare } from "lucide-react";
import { useState } from "react";
import { query, useAction } from "../../api/queries.ts";
import { useMay, useMayInWholeOrg, useMe } from "../../api/session.ts";
import { Button, copyAsRf, FormDialog, Menu, Select, shellLine, TextArea } from "../../ui/index.ts";

const COMMENT_MAX = 4_000;
type Opened = "resolve" | "comment" | undefined;

/** The actions on an incident. */
export function IncidentActions({ incident: { id, status, assignee_id } }: { incident: Incident }) {
  const may_change = useMay("operator");
  const may_list_users = useMayInWholeOrg("admin");
  const { actor } = useMe();
  const [opened, setOpened] = useState<Opened>();
  const acknowledging = useAction("acknowledgeIncident", { done: "Incident acknowledged" });
  const assigning = useAction("assignIncident", { done: "Assigned to you" });
  const removing = useAction("unassignIncident", { done: "Assignee removed" });
  const close = (): void => setOpened(undefined);
  const params = { id };
  return (
    <>
      {may_change && status === "open" && (
        <Button look="primary" icon={Eye} busy={acknowledging.isPending} onClick={() => acknowledging.mutate({ params })}>
          Acknowledge
        </Button>
      )}
      {may_change && status !== "resolved" && (
        <Button look={status === "acknowledged" ? "primary" : "secondary"} icon={Check} busy={false} onClick={() => setOpened("resolve")}>
          Resolve
        </Button>
      )}
      {may_change && (
        <Button icon={MessageSquare} busy={false} onClick={() => setOpened("comment")}>
          Comment
        </Button>
      )}
      <Menu
        label="More"
        entries={[
          may_change &&
            actor.type === "user" &&
            actor.id !== assignee_id && { label: "Assign to me", sends: true, onSelect: () => assigning.mutate({ params }) },
          may_change && may_list_users && { label: "Assign…", renderDialog: (done) => <AssignDialog id={id} onClose={done} /> },
          may_change && assignee_id !== null && { label: "Remove assignee", sends: true, onSelect: () => removing.mutate({ params }) },
          copyAsRf(shellLine("rf", "incidents", "show", id)),
        ]}
      />
      {opened !== undefined && <CommentDialog id={id} is_resolving={opened === "resolve"} onClose={close} />}
    </>
  );
}

/** Adds a comment, or resolves the incident with an optional comment. */
function CommentDialog({ id, is_resolving, onClose }: { id: string; is_resolving: boolean; onClose: () => void }) {
  const [text, setText] = useState("");
  const commenting = useAction("commentIncident", { quiet: true, done: "Comment added", onSuccess: onClose });
  const resolving = useAction("resolveIncident", { quiet: true, done: "Incident resolved", onSuccess: onClose });
  const comment = text.trim();
  return (
    <FormDialog
      title={is_resolving ? "Resolve incident?" : "Comment"}
      description={is_resolving && "Robots that match now do not reopen the incident until they have stopped matching and match again."}
      verb={is_resolving ? "Resolve" : "Comment"}
      sending={is_resolving ? resolving : commenting}
      locked={!is_resolving && comment === ""}
      onClose={onClose}
      onSubmit={() =>
        is_resolving
          ? resolving.mutate({ params: { id }, body: comment === "" ? {} : { comment } })
          : commenting.mutate({ params: { id }, body: { comment } })
      }
    >
      <TextArea
        label={is_resolving ? "Comment (optional)" : "Comment"}
        rows={4}
        maxLength={COMMENT_MAX}
        value={text}
        onValue={setText}
        autoFocus
      />
    </FormDialog>
  );
}

function AssignDialog({ id, onClose }: { id: string; onClose: () => void }) {
  const users = useQuery(query("listUsers")).data?.items ?? [];
  const [user_id, setUser] = useState("");
  const assigning = useAction("assignIncident", { quiet: true, done: "Incident assigned", onSuccess: onClose });
  return (
    <FormDialog
      title="Assign incident"
      verb="Assign"
      sending={assigning}
      locked={user_id === ""}
      onClose={onClose}
      onSubmit={() => assigning.mutate({ params: { id }, body: { user_id } })}
    >
      <Select
        label="User"
        value={user_id}
        onValue={setUser}
        options={[{ value: "", label: "Select a user" }, ...users.map((user) => ({ value: user.id, label: user.name }))]}
      />
    </FormDialog>
  );
}
