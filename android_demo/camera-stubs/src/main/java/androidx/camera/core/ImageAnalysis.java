package androidx.camera.core;

/** CameraX's class of this name, as far as it is used here. */
public final class ImageAnalysis {
    private ImageAnalysis() {}

    /** What is called with each frame. */
    public interface Analyzer {
        void analyze(ImageProxy image);
    }
}
