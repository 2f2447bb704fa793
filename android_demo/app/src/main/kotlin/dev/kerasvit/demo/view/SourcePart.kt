package dev.kerasvit.demo.view

import android.graphics.drawable.BitmapDrawable
import android.view.View
import android.view.ViewGroup
import android.widget.ImageButton
import android.widget.RadioButton
import dev.kerasvit.demo.R
import dev.kerasvit.demo.source.BitmapPreview
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Facing
import dev.kerasvit.demo.state.Sample
import dev.kerasvit.demo.state.Source
import dev.kerasvit.demo.state.UiState

/** Where pictures come from: camera, photos, the model's own picture, samples of the app. */
internal class SourcePart(root: View, private val host: Host, private val wording: Wording) {
    private val camera = root.findViewById<RadioButton>(R.id.source_camera)
    private val photo = root.findViewById<RadioButton>(R.id.source_picture)
    private val golden = root.findViewById<RadioButton>(R.id.source_golden)
    private val scroll = root.findViewById<View>(R.id.samples_scroll)
    private val row = root.findViewById<ViewGroup>(R.id.samples)
    private var samples: List<Sample> = emptyList()

    init {
        camera.setOnClickListener { host.chooseCamera(Facing.BACK) }
        photo.setOnClickListener { host.choosePhoto() }
        golden.setOnClickListener { host.send(Event.ChooseSource(Source.Golden)) }
    }

    fun render(state: UiState) {
        val source = state.settings.source
        camera.isChecked = source is Source.Camera
        // Leaving the list of photos without a choice must not look like a choice.
        photo.isChecked = source is Source.Picture
        golden.isChecked = source is Source.Golden
        if (samples != state.samples) build(state.samples)
        for (i in samples.indices) {
            row.getChildAt(i).isSelected = source == Source.Sample(samples[i].name)
        }
    }

    private fun build(next: List<Sample>) {
        samples = next
        scroll.isVisible = next.isNotEmpty()
        row.removeAllViews()
        for (sample in next) {
            val button = row.inflate(R.layout.item_sample) as ImageButton
            val bitmap = (sample.thumbnail as? BitmapPreview)?.bitmap
            button.clipToOutline = true
            button.setImageDrawable(bitmap?.let { BitmapDrawable(button.resources, it).sharp() })
            button.contentDescription =
                wording.text(R.string.source_sample, sample.name.substringBeforeLast('.'))
            button.setOnClickListener {
                host.send(Event.ChooseSource(Source.Sample(sample.name)))
            }
        }
    }
}
