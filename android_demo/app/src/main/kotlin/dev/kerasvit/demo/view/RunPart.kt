package dev.kerasvit.demo.view

import android.view.View
import android.view.ViewGroup
import android.widget.TextView
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.Time

/** On what the model really ran, and how long each step took. */
internal class RunPart(private val root: View, private val wording: Wording) {
    private val backend = root.findViewById<TextView>(R.id.run_backend)
    private val taken = root.findViewById<TextView>(R.id.run_taken)
    private val runtime = root.findViewById<TextView>(R.id.run_runtime)
    private val count = root.findViewById<TextView>(R.id.times_count)
    private val preprocessing = step(R.string.time_preprocessing)
    private val inference = step(R.string.time_inference)
    private val reading = step(R.string.time_reading)

    fun render(result: Result) {
        root.isVisible = result is Result.Answer || result is Result.Working
        root.alpha = if (result is Result.Working) 0.4f else 1f
        if (result !is Result.Answer) return
        backend.show(wording.backend(result.info))
        taken.show(wording.taken(result.info, result.operators))
        runtime.show(result.info.runtime)
        val times = result.times
        show(preprocessing, times.preprocessing)
        show(inference, times.inference)
        show(reading, times.reading)
        count.show(wording.plural(R.plurals.time_count, times.count, times.count))
    }

    private fun step(name: Int): View {
        val row = root.findViewById<ViewGroup>(R.id.times).inflate(R.layout.item_time)
        row.findViewById<TextView>(R.id.time_step).setText(name)
        return row
    }

    private fun show(row: View, time: Time) {
        row.findViewById<TextView>(R.id.time_median).show(wording.milliseconds(time.median))
        row.findViewById<TextView>(R.id.time_p90).show(wording.milliseconds(time.p90))
    }
}
