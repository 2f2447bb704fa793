package androidx.camera.core;

import android.graphics.Rect;
import android.media.Image;
import java.nio.ByteBuffer;

/** CameraX's interface of this name: in Java as there, since Kotlin treats Java's otherwise. */
public interface ImageProxy extends AutoCloseable {
    @Override
    void close();

    Rect getCropRect();

    void setCropRect(Rect rect);

    int getFormat();

    int getHeight();

    int getWidth();

    PlaneProxy[] getPlanes();

    ImageInfo getImageInfo();

    Image getImage();

    /** One plane of the picture. */
    interface PlaneProxy {
        int getRowStride();

        int getPixelStride();

        ByteBuffer getBuffer();
    }
}
