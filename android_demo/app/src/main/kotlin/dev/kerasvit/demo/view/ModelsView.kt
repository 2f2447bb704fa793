package dev.kerasvit.demo.view

import android.view.View
import android.view.ViewGroup
import android.widget.TextView
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Model
import dev.kerasvit.demo.state.UiState

/** The bundles in the app, to choose one. */
internal class ModelsView(
    override val view: View,
    private val host: Host,
    private val wording: Wording,
) : ScreenView {
    private val list = view.findViewById<ViewGroup>(R.id.models)
    private var shown: List<Model> = emptyList()

    init {
        view.findViewById<View>(R.id.models_back).setOnClickListener { host.send(Event.Back) }
    }

    override fun render(state: UiState) {
        val models = state.models.orEmpty()
        if (models != shown) build(models)
        val settings = state.settings
        val chosen = if (settings.pickingRival) settings.rival else settings.model
        for (i in models.indices) list.getChildAt(i).isSelected = models[i].name == chosen
    }

    private fun build(models: List<Model>) {
        shown = models
        list.removeAllViews()
        for (model in models) {
            val item = list.inflate(R.layout.item_model)
            item.findViewById<TextView>(R.id.item_model_name).text = model.name
            item.findViewById<TextView>(R.id.item_model_summary).text = wording.summary(model)
            item.findViewById<TextView>(R.id.item_model_detail).text = details(model)
            item.setOnClickListener { host.send(Event.ChooseModel(model.name)) }
            item.actAsButton()
        }
    }

    private fun details(model: Model): String = when {
        model.bundle != null -> wording.details(model.bundle)
        model.problem != null -> wording.problem(model.problem).body
        else -> ""
    }
}
