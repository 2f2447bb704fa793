package dev.kerasvit.demo.view

import android.text.Editable
import android.text.TextWatcher
import android.view.LayoutInflater
import android.view.View
import android.view.ViewGroup
import android.widget.BaseAdapter
import android.widget.EditText
import android.widget.ListView
import android.widget.TextView
import dev.kerasvit.core.LabelSearch
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.UiState

/** The classes of the chosen model, which may be many thousands, and a search in them. */
internal class LabelsView(
    override val view: View,
    private val host: Host,
    private val wording: Wording,
) : ScreenView {
    private val model = ModelPart(view.findViewById(R.id.model), host, wording)
    private val query = view.findViewById<EditText>(R.id.labels_query)
    private val count = view.findViewById<TextView>(R.id.labels_count)
    private val adapter = LabelAdapter(wording)
    private var labels: List<String>? = null
    private var search = LabelSearch(emptyList())
    private var searched: String? = null

    init {
        view.findViewById<ListView>(R.id.labels).adapter = adapter
        query.addTextChangedListener(object : TextWatcher {
            override fun beforeTextChanged(s: CharSequence?, at: Int, n: Int, after: Int) = Unit

            override fun onTextChanged(s: CharSequence?, at: Int, before: Int, n: Int) = Unit

            override fun afterTextChanged(text: Editable) = host.send(Event.Search(text.toString()))
        })
    }

    override fun render(state: UiState) {
        model.render(state.model)
        val wanted = state.settings.query
        if (query.text.toString() != wanted) query.setText(wanted)
        val next = state.model?.bundle?.labels.orEmpty()
        if (next === labels && wanted == searched) return
        if (next !== labels) search = LabelSearch(next)
        labels = next
        searched = wanted
        val found = search.find(wanted)
        adapter.show(next, found)
        count.show(
            if (found.isEmpty() && next.isNotEmpty()) {
                wording.text(R.string.labels_none)
            } else {
                wording.plural(R.plurals.labels_count, found.size, wording.count(found.size))
            },
        )
    }
}

private class LabelAdapter(private val wording: Wording) : BaseAdapter() {
    private var labels: List<String> = emptyList()
    private var found: List<Int> = emptyList()

    fun show(labels: List<String>, found: List<Int>) {
        this.labels = labels
        this.found = found
        notifyDataSetChanged()
    }

    override fun getCount() = found.size

    override fun getItem(position: Int) = labels[found[position]]

    override fun getItemId(position: Int) = found[position].toLong()

    // Rows are for reading only.
    override fun isEnabled(position: Int) = false

    override fun areAllItemsEnabled() = false

    override fun getView(position: Int, old: View?, parent: ViewGroup): View {
        val row = old
            ?: LayoutInflater.from(parent.context).inflate(R.layout.item_label, parent, false)
        row.findViewById<TextView>(R.id.label_name).text = getItem(position)
        row.findViewById<TextView>(R.id.label_index).text = wording.count(found[position])
        return row
    }
}
