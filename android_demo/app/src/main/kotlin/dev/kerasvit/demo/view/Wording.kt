package dev.kerasvit.demo.view

import android.content.res.Resources
import android.icu.text.CompactDecimalFormat
import android.icu.text.MeasureFormat
import android.icu.util.Measure
import android.icu.util.MeasureUnit
import dev.kerasvit.core.Bundle
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Model
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineInfo
import java.text.NumberFormat
import java.util.Locale

/** Words, and numbers in the same language. */
internal class Wording(val resources: Resources) {
    // Of the translation that is shown, which may be English on a phone in Arabic: its digits beside
    // Latin ones would be two ways to write numbers on one screen.
    private val locale: Locale = Locale.forLanguageTag(resources.getString(R.string.language))
    private val percent = NumberFormat.getPercentInstance(locale)
    private val whole = NumberFormat.getIntegerInstance(locale)

    // "142K", "86M", "14万"
    private val rounded =
        CompactDecimalFormat.getInstance(locale, CompactDecimalFormat.CompactStyle.SHORT)

    fun text(id: Int, vararg values: Any): String =
        if (values.isEmpty()) resources.getString(id) else format(resources.getText(id), values)

    fun plural(id: Int, count: Int, vararg values: Any): String =
        format(resources.getQuantityText(id, count), values)

    private fun format(pattern: CharSequence, values: Array<out Any>): String =
        String.format(locale, pattern.toString(), *values)

    /** "98.7%" */
    fun probability(value: Double): String = percent(value, digits = 1)

    /** "50%" */
    fun threshold(percents: Int): String = percent(percents / 100.0, digits = 0)

    /** Three digits: "0.42", "17.3", "167"; a dash if unknown. */
    fun milliseconds(value: Double): String = when {
        value.isNaN() -> text(R.string.time_unknown)
        value < 10 -> String.format(locale, "%.2f", value)
        value < 100 -> String.format(locale, "%.1f", value)
        else -> String.format(locale, "%.0f", value)
    }

    fun withUnit(milliseconds: Double): String =
        text(R.string.milliseconds, milliseconds(milliseconds))

    /** "7.3e-06", as Python and the report write it; "0" for no difference. */
    fun difference(value: Double): String =
        if (value == 0.0) "0" else String.format(Locale.ROOT, "%.2g", value)

    fun count(value: Int): String = whole.format(value)

    fun backend(backend: Backend): String = text(
        when (backend) {
            Backend.CPU -> R.string.backend_cpu
            Backend.CPU_HALF -> R.string.backend_cpu_half
            Backend.CPU_PLAIN -> R.string.backend_cpu_plain
            Backend.GPU -> R.string.backend_gpu
            Backend.NPU -> R.string.backend_npu
        },
    )

    /** "CPU, 2 threads" */
    fun backend(info: EngineInfo): String =
        plural(R.plurals.run_backend, info.threads, backend(info.backend), info.threads)

    /** How much of the model the backend took. */
    fun taken(info: EngineInfo, operators: Int): String {
        val isCpu = info.backend in listOf(Backend.CPU, Backend.CPU_HALF, Backend.CPU_PLAIN)
        val name = if (isCpu) text(R.string.xnnpack) else backend(info.backend)
        val taken = info.taken
        return when {
            info.backend == Backend.CPU_PLAIN -> text(R.string.run_own_kernels, operators)
            taken == null -> text(R.string.run_taken_unknown, name, operators)
            taken < operators -> text(R.string.run_taken, name, taken, operators)
            else -> text(R.string.run_taken_all, name, operators)
        }
    }

    /** "int8 · 231 kB" */
    fun summary(model: Model?): String {
        if (model == null) return ""
        if (model.problem != null) return text(R.string.model_broken)
        val bundle = model.bundle ?: return text(R.string.model_reading)
        val description = bundle.description
        return text(R.string.model_summary, description.precision, size(description.bytes))
    }

    /** All that helps to choose between models. */
    fun details(bundle: Bundle): String {
        val description = bundle.description
        val parameters = description.parameters?.let {
            text(R.string.model_parameters, rounded.format(it))
        }
        return listOfNotNull(
            description.model,
            text(R.string.model_input, description.input.width, description.input.height),
            plural(R.plurals.model_classes, bundle.labels.size, count(bundle.labels.size)),
            parameters,
            text(R.string.model_runtime, description.runtimeFloor),
        ).joinToString(text(R.string.list_separator))
    }

    private fun size(bytes: Long): String {
        val format = MeasureFormat.getInstance(locale, MeasureFormat.FormatWidth.SHORT)
        val (value, unit) = when {
            bytes < 1_000_000 -> whole(bytes / 1e3) to MeasureUnit.KILOBYTE
            bytes < 1_000_000_000 -> whole(bytes / 1e6) to MeasureUnit.MEGABYTE
            else -> whole(bytes / 1e6) / 1e3 to MeasureUnit.GIGABYTE
        }
        return format.format(Measure(value, unit))
    }

    private fun percent(value: Double, digits: Int): String {
        percent.minimumFractionDigits = digits
        percent.maximumFractionDigits = digits
        return percent.format(value)
    }
}

private fun whole(value: Double): Double = Math.rint(value)
