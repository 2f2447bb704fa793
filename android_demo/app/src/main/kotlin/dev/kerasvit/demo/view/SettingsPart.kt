package dev.kerasvit.demo.view

import android.view.View
import android.view.ViewGroup
import android.widget.RadioButton
import android.widget.SeekBar
import android.widget.TextView
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.UiState
import dev.kerasvit.engine.Backend

/** Backend, threads and threshold. */
internal class SettingsPart(root: View, private val host: Host, private val wording: Wording) {
    private val backends = Chips<Backend>(root.findViewById(R.id.backends), wording::backend) {
        host.send(Event.ChooseBackend(it))
    }
    private val threads = Chips<Int>(root.findViewById(R.id.threads), wording::count) {
        host.send(Event.ChooseThreads(it))
    }
    private val thresholdLabel = root.findViewById<TextView>(R.id.threshold_label)
    private val threshold = root.findViewById<SeekBar>(R.id.threshold)

    init {
        threshold.setOnSeekBarChangeListener(object : SeekBar.OnSeekBarChangeListener {
            override fun onProgressChanged(bar: SeekBar, progress: Int, fromUser: Boolean) {
                if (fromUser) host.send(Event.ChooseThreshold(progress * THRESHOLD_STEP))
            }

            override fun onStartTrackingTouch(bar: SeekBar) = Unit

            override fun onStopTrackingTouch(bar: SeekBar) = Unit
        })
    }

    fun render(state: UiState) {
        val settings = state.settings
        backends.render(state.backends, settings.backend)
        threads.render(THREADS, settings.threads)
        val percent = wording.threshold(settings.threshold)
        thresholdLabel.show(wording.text(R.string.setting_threshold, percent))
        threshold.progress = settings.threshold / THRESHOLD_STEP
    }
}

/** A choice of one of several values. */
private class Chips<T>(
    private val root: ViewGroup,
    private val name: (T) -> String,
    private val choose: (T) -> Unit,
) {
    private var values: List<T> = emptyList()

    fun render(next: List<T>, chosen: T) {
        if (next != values) build(next)
        for (i in values.indices) {
            (root.getChildAt(i) as RadioButton).isChecked = values[i] == chosen
        }
    }

    private fun build(next: List<T>) {
        values = next
        root.removeAllViews()
        for (value in next) {
            val chip = root.inflate(R.layout.item_chip) as RadioButton
            chip.text = name(value)
            chip.setOnClickListener { choose(value) }
        }
    }
}

private val THREADS = (1..4).toList()
private const val THRESHOLD_STEP = 5
