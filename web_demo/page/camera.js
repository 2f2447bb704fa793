/** The camera as a video element. */

import { UserError, reasonOf } from "./errors.js";

const REASONS = {
  NotAllowedError: "The camera was refused; allow it in the browser's settings of this page.",
  NotFoundError: "There is no camera.",
  NotReadableError: "The camera is in use by another program.",
};

/**
 * @param {function} onEnd called if the camera is taken away
 * @returns {Promise<HTMLVideoElement>} playing; its `srcObject` has the tracks to stop
 * @throws {UserError}
 */
export async function openCamera(onEnd) {
  if (!navigator.mediaDevices) {
    throw new UserError("The camera needs a page from https or localhost.");
  }
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
  } catch (error) {
    throw new UserError(REASONS[error.name] ?? `The camera cannot be used (${reasonOf(error)}).`);
  }
  stream.getVideoTracks()[0].addEventListener("ended", onEnd);
  const video = document.createElement("video");
  video.muted = true;
  video.playsInline = true; // otherwise phones show it on the whole screen
  video.srcObject = stream;
  await video.play();
  return video;
}
