import static org.junit.Assert.assertTrue;
import static org.robolectric.Shadows.shadowOf;

import android.app.Activity;
import android.graphics.Bitmap;
import android.graphics.Canvas;
import android.graphics.Rect;
import android.os.Bundle;
import android.os.Looper;
import android.os.SystemClock;
import android.view.InputDevice;
import android.view.MotionEvent;
import android.view.View;
import android.view.ViewGroup;
import android.view.accessibility.AccessibilityManager;
import android.view.accessibility.AccessibilityNodeInfo;
import android.view.accessibility.AccessibilityNodeProvider;
import android.view.inspector.WindowInspector;
import java.io.File;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.junit.runners.model.FrameworkMethod;
import org.robolectric.Robolectric;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.RuntimeEnvironment;
import org.robolectric.android.controller.ActivityController;
import org.robolectric.annotation.Config;
import org.robolectric.annotation.GraphicsMode;
import org.robolectric.internal.bytecode.InstrumentationConfiguration;
import org.robolectric.util.ReflectionHelpers;
import org.robolectric.util.ReflectionHelpers.ClassParameter;

/**
 * Uses what R8 made of the app, as TalkBack does: tools/start_test.py puts the translated dex on the
 * class path, and no other class of the app, of Compose or of Kotlin. So this is not Kotlin.
 */
@RunWith(StartTest.Runner.class)
@Config(sdk = 35, qualifiers = "w411dp-h891dp-hdpi")
@GraphicsMode(GraphicsMode.Mode.NATIVE)
public class StartTest {
    @Test
    public void goldenCheckPasses() throws Exception {
        loadRuntime();
        AccessibilityManager manager =
            RuntimeEnvironment.getApplication().getSystemService(AccessibilityManager.class);
        shadowOf(manager).setEnabled(true);
        Class<?> main = Class.forName("dev.kerasvit.demo.MainActivity");
        ActivityController<?> controller =
            Robolectric.buildActivity(main.asSubclass(Activity.class)).setup();
        await("horse"); // On the first screen, XNNPACK's class of the model's own picture.
        touch("Verify");
        touch("Run the check");
        await("Agrees");
        File files = RuntimeEnvironment.getApplication().getFilesDir();
        String kept = Files.readString(files.toPath().resolve("datastore/settings.properties"));
        assertTrue(kept, kept.contains("model=cifar10"));
        controller.pause().stop().saveInstanceState(new Bundle()).destroy();
    }

    /** The APK's runtime, in the class loader of the app, which calls it. */
    private static void loadRuntime() {
        String folder = System.getProperty("jna.library.path");
        Stream.of("libc", "libm", "libdl", "liblog", "libtensorflowlite_jni")
            .forEach(name -> System.load(new File(folder, name + ".so").getPath()));
    }

    /** Puts a finger on the middle of what is called so, once it is there. */
    private static void touch(String text) {
        Node node = await(text);
        Rect place = new Rect();
        node.info.getBoundsInScreen(place);
        View root = node.view.getRootView();
        int[] origin = new int[2];
        root.getLocationOnScreen(origin);
        float x = place.exactCenterX() - origin[0];
        float y = place.exactCenterY() - origin[1];
        long now = SystemClock.uptimeMillis();
        for (int action : new int[] {MotionEvent.ACTION_DOWN, MotionEvent.ACTION_UP}) {
            MotionEvent event = MotionEvent.obtain(now, now, action, x, y, 0);
            event.setSource(InputDevice.SOURCE_TOUCHSCREEN);
            root.dispatchTouchEvent(event);
            event.recycle();
            pass();
        }
    }

    private static Node await(String text) {
        long end = System.nanoTime() + Duration.ofMinutes(1).toNanos();
        while (System.nanoTime() < end) {
            pass();
            for (Node node : nodes()) {
                if (node.text().equals(text)) return node;
            }
        }
        List<String> texts = nodes().stream().map(Node::text).filter(s -> !s.isEmpty()).toList();
        throw new AssertionError("expected \"" + text + "\" on the screen, received " + texts);
    }

    /** Lets the worker work, and the main thread draw: Compose arranges things when it draws them. */
    private static void pass() {
        try {
            Thread.sleep(20);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
        shadowOf(Looper.getMainLooper()).idleFor(Duration.ofMillis(100));
        for (View window : WindowInspector.getGlobalWindowViews()) {
            Bitmap picture =
                Bitmap.createBitmap(window.getWidth(), window.getHeight(), Bitmap.Config.ARGB_8888);
            window.draw(new Canvas(picture));
        }
    }

    private record Node(View view, AccessibilityNodeInfo info) {
        String text() {
            CharSequence text = info.getText() != null ? info.getText() : info.getContentDescription();
            return text == null ? "" : text.toString();
        }
    }

    private static List<Node> nodes() {
        List<Node> found = new ArrayList<>();
        WindowInspector.getGlobalWindowViews().forEach(root -> collect(root, found));
        return found;
    }

    private static void collect(View view, List<Node> found) {
        AccessibilityNodeProvider provider = view.getAccessibilityNodeProvider();
        if (provider != null) {
            collect(view, provider, AccessibilityNodeProvider.HOST_VIEW_ID, found);
        } else if (view.isShown()) {
            found.add(new Node(view, view.createAccessibilityNodeInfo()));
        }
        if (view instanceof ViewGroup group) {
            for (int i = 0; i < group.getChildCount(); i++) collect(group.getChildAt(i), found);
        }
    }

    /** What Compose draws are nodes without views. */
    private static void collect(
        View view, AccessibilityNodeProvider provider, int id, List<Node> found) {
        AccessibilityNodeInfo info = provider.createAccessibilityNodeInfo(id);
        if (info == null) return;
        found.add(new Node(view, info));
        for (int i = 0; i < info.getChildCount(); i++) {
            long child = ReflectionHelpers.callInstanceMethod(
                info, "getChildId", ClassParameter.from(int.class, i));
            collect(view, provider, (int) (child >> 32), found);
        }
    }

    /** Runs Kotlin's library of the dex beside the app: R8 moves code from one to the other. */
    public static class Runner extends RobolectricTestRunner {
        public Runner(Class<?> test) throws Exception {
            super(test);
        }

        @Override
        protected InstrumentationConfiguration createClassLoaderConfig(FrameworkMethod method) {
            InstrumentationConfiguration config = super.createClassLoaderConfig(method);
            Set<String> others = new HashSet<>(
                ReflectionHelpers.getField(config, "packagesToNotAcquire"));
            others.remove("kotlin.");
            ReflectionHelpers.setField(config, "packagesToNotAcquire", others);
            return config;
        }
    }
}
