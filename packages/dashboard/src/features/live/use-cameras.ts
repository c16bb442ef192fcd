import { useCallback, useEffect, useState } from "react";
import type { Explained } from "./ending.ts";
import { openLiveSocket } from "./live-socket.ts";

export interface Camera {
  name: string;
  kind: string;
}

/** Loads the cameras of a robot, again after it reconnects; otherwise returns the reason why they are unknown. */
export function useCameras(
  robot_id: string,
  is_online: boolean,
): { cameras: readonly Camera[] | undefined; why: Explained | undefined; again: () => void } {
  const [cameras, setCameras] = useState<readonly Camera[]>();
  const [why, setWhy] = useState<Explained>();
  const [asked, setAsked] = useState(0);
  useEffect(() => {
    let is_over = false;
    const socket = openLiveSocket({
      name: "camera",
      id: robot_id,
      query: { list: "true" },
      what: "this robot's cameras",
      onFrame: (data) => {
        if (is_over || typeof data !== "string") return;
        setCameras((JSON.parse(data) as { cameras: Camera[] }).cameras);
        setWhy(undefined);
      },
      onEnd: (ending) => {
        if (!is_over && ending !== undefined) setWhy(ending);
      },
    });
    return () => {
      is_over = true;
      socket.close();
    };
  }, [robot_id, is_online, asked]);
  const again = useCallback(() => {
    setWhy(undefined);
    setAsked((count) => count + 1);
  }, []);
  // With known cameras, the camera view shows that the robot is offline.
  return { cameras, why: cameras === undefined ? why : undefined, again };
}
