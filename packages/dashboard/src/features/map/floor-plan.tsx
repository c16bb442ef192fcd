import type { FloorPlan } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { Image as ImageIcon } from "lucide-react";
import { useEffect, useMemo, useState } from "react";
import { query, useAction } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { Button, FormDialog, TextInput } from "../../ui/index.ts";
import type { Plan } from "./map-view.tsx";

/** Maximum size of the image. The server accepts requests of 1 MiB, and base64 needs a third more. */
const IMAGE_BYTES_MAX = 700_000;

interface LoadedFloorPlan {
  stored: FloorPlan | undefined;
  /** Undefined while loading, and without a floor plan. */
  plan: Plan | undefined;
  /** Whether it is known if the site has a floor plan. */
  is_loaded: boolean;
}

/** Loads the floor plan of a site, and the size of its image. */
export function useFloorPlan(site_id: string | undefined): LoadedFloorPlan {
  const options = query("getFloorPlan", { params: { id: site_id ?? "" } });
  const { data, isSuccess: is_loaded } = useQuery({ ...options, enabled: site_id !== undefined });
  const stored = data?.data ?? undefined;
  const url = stored === undefined ? undefined : `data:${stored.content_type};base64,${stored.image}`;
  const pixels = useImageSize(url);
  const plan = useMemo(() => {
    if (stored === undefined || url === undefined || pixels === undefined) return undefined;
    const { meters_per_pixel, origin_x_meters, origin_y_meters } = stored;
    const height = pixels.height * meters_per_pixel;
    return { url, left: origin_x_meters, top: -origin_y_meters - height, width: pixels.width * meters_per_pixel, height };
  }, [stored, url, pixels]);
  return { stored, plan, is_loaded };
}

function useImageSize(url: string | undefined): { width: number; height: number } | undefined {
  const [found, setFound] = useState<{ url: string; width: number; height: number }>();
  useEffect(() => {
    if (url === undefined) return;
    const image = new Image();
    image.addEventListener("load", () => setFound({ url, width: image.naturalWidth, height: image.naturalHeight }));
    image.src = url;
  }, [url]);
  return found?.url === url ? found : undefined;
}

interface FloorPlanDialogProps {
  site_id: string;
  stored: FloorPlan | undefined;
  onClose: () => void;
}

/** Opens the dialog of the floor plan, for users who may change the site. */
export function FloorPlanButton({ is_loaded, ...place }: Omit<FloorPlanDialogProps, "onClose"> & { is_loaded: boolean }) {
  const [is_open, setOpen] = useState(false);
  if (!useMay("operator") || !is_loaded) return null;
  return (
    <>
      <Button icon={ImageIcon} busy={false} onClick={() => setOpen(true)}>
        {place.stored === undefined ? "Add floor plan" : "Change floor plan"}
      </Button>
      {is_open && <FloorPlanDialog {...place} onClose={() => setOpen(false)} />}
    </>
  );
}

/** Uploads, moves or removes the floor plan of a site. */
function FloorPlanDialog({ site_id, stored, onClose }: FloorPlanDialogProps) {
  const [image, setImage] = useState<string | undefined>(stored?.image);
  const [problem, setProblem] = useState<string>();
  const [scale, setScale] = useState(String(stored?.meters_per_pixel ?? 0.05));
  const [x, setX] = useState(String(stored?.origin_x_meters ?? 0));
  const [y, setY] = useState(String(stored?.origin_y_meters ?? 0));
  const putting = useAction("putFloorPlan", { quiet: true, done: "Floor plan stored", onSuccess: onClose });
  const removing = useAction("deleteFloorPlan", { done: "Floor plan removed", onSuccess: onClose });
  const params = { id: site_id };
  const choose = async (file: File | undefined): Promise<void> => {
    setImage(file === undefined ? stored?.image : undefined);
    setProblem(undefined);
    if (file === undefined) return;
    if (file.size > IMAGE_BYTES_MAX) return setProblem(`The image has more than ${IMAGE_BYTES_MAX / 1_000} kB`);
    setImage(await base64Of(file));
  };
  const numbers = [scale, x, y].map((text) => (text.trim() === "" ? Number.NaN : Number(text)));
  return (
    <FormDialog
      title="Floor plan"
      description="An image below the robots that report x and y. It has the scale and the origin of a map of ROS."
      verb="Store"
      onClose={onClose}
      sending={putting}
      locked={image === undefined || !numbers.every(Number.isFinite)}
      onSubmit={() => {
        const [meters_per_pixel = 0, origin_x_meters = 0, origin_y_meters = 0] = numbers;
        putting.mutate({ params, body: { image: image!, meters_per_pixel, origin_x_meters, origin_y_meters } });
      }}
    >
      <label className="mb-3 block">
        <span className="mb-1 block font-medium">Image</span>
        <input
          type="file"
          accept="image/png,image/jpeg,image/webp"
          className="w-full file:mr-3 file:h-8 file:rounded-md file:border file:border-solid file:border-line file:bg-raised file:px-3 file:font-medium"
          onChange={({ target }) => void choose(target.files?.[0])}
        />
        <span className={problem === undefined ? "block text-xs text-muted" : "block text-xs text-bad"} role={problem && "alert"}>
          {problem ??
            `PNG, JPEG or WebP, up to ${IMAGE_BYTES_MAX / 1_000} kB${stored === undefined ? "" : ". Without a file, the stored image stays"}`}
        </span>
      </label>
      <TextInput label="Meters per pixel" value={scale} onValue={setScale} inputMode="decimal" />
      <TextInput label="x of the lower left corner, in meters" value={x} onValue={setX} inputMode="decimal" />
      <TextInput label="y of the lower left corner, in meters" value={y} onValue={setY} inputMode="decimal" />
      {stored !== undefined && (
        <Button look="danger" busy={removing.isPending} onClick={() => removing.mutate({ params })}>
          Remove
        </Button>
      )}
    </FormDialog>
  );
}

async function base64Of(file: File): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  // Convert 8 KiB at a time, because each byte is an argument of the call and the number of arguments is limited.
  for (let at = 0; at < bytes.length; at += 8_192) text += String.fromCharCode(...bytes.subarray(at, at + 8_192));
  return btoa(text);
}
