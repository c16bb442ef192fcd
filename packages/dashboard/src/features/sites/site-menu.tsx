import type { Site } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { query, useAction } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { copyAsRf, DeletePlaceDialog, FormDialog, Menu, NameInput, RenameDialog } from "../../ui/index.ts";
import { siteLines } from "./site-lines.ts";

/** The actions on a site. */
export function SiteMenu({ site }: { site: Site }) {
  const may_change = useMay("operator");
  const may_delete = useMay("admin");
  const navigate = useNavigate();
  const [shown, setShown] = useState<"rename" | "delete">();
  const close = (): void => setShown(undefined);
  const { id, name } = site;
  return (
    <>
      <Menu
        label={`Actions for ${name.slice(0, 80)}`}
        entries={[
          { label: "Show robots", onSelect: () => void navigate({ to: "/robots", search: { site_id: id } }) },
          { label: "Show fleets", onSelect: () => void navigate({ to: "/fleets", search: { site_id: id } }) },
          may_change && { label: "Rename…", onSelect: () => setShown("rename") },
          copyAsRf(siteLines.show(id)),
          may_delete && { label: "Delete…", danger: true, onSelect: () => setShown("delete") },
        ]}
      />
      {shown === "rename" && <RenameSite site={site} onClose={close} />}
      {shown === "delete" && <DeleteSite site={site} onClose={close} />}
    </>
  );
}

export function NewSite({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const navigate = useNavigate();
  const making = useAction("createSite", {
    quiet: true,
    onSuccess: ({ data: { id } }) => void navigate({ to: "/sites/$id", params: { id } }),
  });
  return (
    <FormDialog
      title="New site"
      verb="Create site"
      onClose={onClose}
      sending={making}
      command={siteLines.create(name)}
      onSubmit={() => making.mutate({ body: { name: name.trim() } })}
    >
      <NameInput value={name} onChange={setName} autoFocus />
    </FormDialog>
  );
}

interface Parts {
  site: Site;
  onClose: () => void;
}

function RenameSite({ site: { id, name }, onClose }: Parts) {
  const renaming = useAction("updateSite", { quiet: true, done: "Renamed", onSuccess: onClose });
  return (
    <RenameDialog
      title="Rename site"
      name={name}
      onClose={onClose}
      sending={renaming}
      command={(typed) => siteLines.rename(id, typed)}
      onRename={(to) => renaming.mutate({ params: { id }, body: { name: to } })}
    />
  );
}

function DeleteSite({ site: { id, name }, onClose }: Parts) {
  const navigate = useNavigate();
  const fleets = useQuery(query("listFleets", { query: { site_id: id, limit: 1 } })).data?.items;
  const deleting = useAction("deleteSite", {
    done: "Deleted",
    onSuccess: () => {
      onClose();
      void navigate({ to: "/sites" });
    },
  });
  return (
    <DeletePlaceDialog
      kind="site"
      name={name}
      full={
        fleets !== undefined &&
        fleets.length > 0 && {
          text: "The site has fleets. Delete them first.",
          verb: "Show fleets",
          onShow: () => void navigate({ to: "/fleets", search: { site_id: id } }),
        }
      }
      consequence="Deletes the site. It has no fleets."
      command={siteLines.delete(id)}
      busy={deleting.isPending || fleets === undefined}
      onDelete={() => deleting.mutate({ params: { id } })}
      onClose={onClose}
    />
  );
}
