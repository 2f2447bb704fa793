package androidx.camera.core;

/** CameraX's interface of this name, as far as it is used here. */
public interface ImageInfo {
    long getTimestamp();

    int getRotationDegrees();
}
