package dev.kerasvit.demo.screen

import android.content.res.Resources
import android.icu.text.CompactDecimalFormat
import android.icu.text.MeasureFormat
import android.icu.util.Measure
import android.icu.util.MeasureUnit
import dev.kerasvit.core.Bundle
import dev.kerasvit.core.ClassShare
import dev.kerasvit.core.Mask
import dev.kerasvit.core.MaskShape
import dev.kerasvit.core.Measured
import dev.kerasvit.core.Outcome
import dev.kerasvit.core.Output
import dev.kerasvit.core.PatchColours
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Comparison
import dev.kerasvit.demo.state.Model
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.VerificationSummary
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineFailure
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

    /** "98.7%"; "<0.1%" of what is not nothing, but would be "0.0%". */
    fun probability(value: Double): String {
        val text = percent(value, digits = 1)
        if (value == 0.0 || text != percent(0.0, digits = 1)) return text
        return "$LEFT_TO_RIGHT<" + percent(0.001, digits = 1)
    }

    /** "50%" */
    fun percents(value: Int): String = percent(value / 100.0, digits = 0)

    /** Three digits: "0.42", "17.3", "167"; a dash if unknown. */
    fun milliseconds(value: Double): String = when {
        value.isNaN() -> text(R.string.time_unknown)
        value < 10 -> String.format(locale, "%.2f", value)
        value < 100 -> String.format(locale, "%.1f", value)
        else -> String.format(locale, "%.0f", value)
    }

    fun withUnit(milliseconds: Double): String =
        text(R.string.milliseconds, milliseconds(milliseconds))

    /** "12.3 ms · 28 fps"; null until it is known. */
    fun speed(answer: Result.Answer?): String? {
        val median = answer?.times?.inference?.median ?: return null
        return if (median.isNaN()) null else joined(withUnit(median), frames(answer))
    }

    /** "28 fps"; null until it is known, and of a still picture. */
    fun frames(answer: Result.Answer?): String? = answer?.framesPerSecond?.let {
        val number = String.format(locale, if (it < 10) "%.1f" else "%.0f", it)
        text(R.string.frames_per_second, number)
    }

    /** "17.3 ms · CPU, 2 threads" */
    fun run(answer: Result.Answer): String =
        joined(withUnit(answer.times.inference.median), backend(answer.info))

    /** "7, 98.2%", and of which model where there are two. */
    fun spoken(model: String?, label: String, probability: Double?): String =
        spoken(model, label, probability?.let { probability(it) })

    /** "cat/1.jpg, 0.91" */
    fun spoken(model: String?, name: String, number: String?): String {
        val said = if (number == null) name else text(R.string.result_spoken, name, number)
        return if (model == null) said else text(R.string.result_spoken_of, model, said)
    }

    /** "0.91" */
    fun similarity(cosine: Double): String = String.format(locale, "%.2f", cosine)

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
    fun delegated(info: EngineInfo, operators: Int): String {
        val isCpu = info.backend in listOf(Backend.CPU, Backend.CPU_HALF, Backend.CPU_PLAIN)
        val name = if (isCpu) text(R.string.xnnpack) else backend(info.backend)
        val delegated = info.delegated
        return when {
            info.backend == Backend.CPU_PLAIN -> text(R.string.run_own_kernels, operators)
            delegated == null -> text(R.string.run_delegated_unknown, name, operators)
            delegated < operators -> text(R.string.run_delegated, name, delegated, operators)
            else -> text(R.string.run_delegated_all, name, operators)
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
    fun details(bundle: Bundle): String = joined(*facts(bundle).toTypedArray())

    fun facts(bundle: Bundle): List<String> {
        val description = bundle.description
        val parameters = description.parameters?.let {
            text(R.string.model_parameters, rounded.format(it))
        }
        val independent =
            text(R.string.model_independent).takeIf { !description.output.isExclusive }
        return listOfNotNull(
            description.model,
            text(R.string.model_input, description.input.width, description.input.height),
            features(bundle),
            description.output.mask?.let(::masks),
            bundle.gallery?.pictures?.size?.let {
                plural(R.plurals.model_gallery, it, count(it))
            },
            classes(bundle.labels.size).takeIf { bundle.labels.isNotEmpty() },
            independent,
            parameters,
            text(R.string.model_runtime, description.runtimeFloor),
        )
    }

    private fun features(bundle: Bundle): String? {
        val output = bundle.description.output
        val map = output.map
        return when {
            map != null -> map.run {
                val number = count(features)
                plural(R.plurals.model_map, features, count(columns), count(rows), number)
            }
            output.givesFeatures ->
                plural(R.plurals.model_features, output.size, count(output.size))
            else -> null
        }
    }

    private fun masks(shape: MaskShape): String {
        val id = if (shape.isClassMap) R.string.model_class_map else R.string.model_mask_scores
        return text(id, count(shape.columns), count(shape.rows))
    }

    /** What TalkBack says of the mask; its classes are named elsewhere. */
    fun shown(mask: Mask): String =
        mask.shares.size.let { plural(R.plurals.mask_shown, it, count(it)) }

    /** "3 other classes: 0.4%" */
    fun others(shares: List<ClassShare>): String {
        val share = probability(shares.sumOf { it.share })
        return plural(R.plurals.mask_others, shares.size, count(shares.size), share)
    }

    /** What TalkBack says of the picture. */
    fun shown(colours: PatchColours): String =
        colours.run { text(R.string.patches_shown, count(columns), count(rows)) }

    /** "Red 52.1% · Green 29.8%" */
    fun variance(colours: PatchColours): String {
        if (colours.fractions.isEmpty()) return text(R.string.variance_none)
        val names = listOf(R.string.variance_red, R.string.variance_green, R.string.variance_blue)
        val parts = colours.fractions.mapIndexed { i, it -> text(names[i], probability(it)) }
        return joined(*parts.toTypedArray())
    }

    /** "3 pictures added" */
    fun addedPictures(number: Int): String =
        plural(R.plurals.class_pictures, number, count(number))

    /** "1,000 classes" */
    fun classes(number: Int): String = plural(R.plurals.model_classes, number, count(number))

    /** "Same class. digits-int8 is 2.7 times faster." */
    fun comparison(comparison: Comparison): String {
        val classes = comparison.classes?.let(::classes)
        val speed = comparison.speed?.let(::speed)
        if (classes == null || speed == null) return classes ?: speed.orEmpty()
        return text(R.string.two_sentences, classes, speed)
    }

    private fun classes(found: Comparison.Classes): String = when (found) {
        is Comparison.Classes.Same -> text(R.string.compare_same)
        is Comparison.Classes.Different -> text(
            R.string.compare_different,
            spoken(found.first),
            spoken(found.second),
        )
        is Comparison.Classes.OnlyOne -> text(R.string.compare_only_one, spoken(found.named))
        is Comparison.Classes.None -> text(R.string.compare_unsure)
    }

    private fun speed(found: Comparison.Speed): String = when (found) {
        is Comparison.Speed.Same -> text(R.string.compare_as_fast)
        is Comparison.Speed.Faster -> {
            val times = String.format(locale, "%.1f", found.times)
            text(R.string.compare_faster, found.model, times)
        }
    }

    private fun spoken(named: Comparison.Named): String =
        text(R.string.result_spoken_of, named.model, named.label)

    /** "3 of 4 backends agree with the exporter; GPU was refused" */
    fun summary(summary: VerificationSummary): String {
        val total = summary.total
        return listOfNotNull(
            plural(R.plurals.verify_summary, total, summary.agreeing.size, total),
            named(R.plurals.verify_summary_differing, summary.differing),
            named(R.plurals.verify_summary_refused, summary.refused),
        ).joinToString(text(R.string.clause_separator))
    }

    private fun named(id: Int, backends: List<Backend>): String? {
        if (backends.isEmpty()) return null
        val names = backends.map { backend(it) }
        return plural(id, names.size, names.joinToString(text(R.string.name_separator)))
    }

    /** The runtime's own words; that its numbers are useless is the app's finding. */
    fun reason(refused: Outcome.Refused): String =
        if (refused.kind == EngineFailure.NOT_FINITE) text(R.string.verify_not_finite)
        else refused.reason

    /** What a backend gave, beside what it is of. */
    fun facts(measured: Measured, bundle: Bundle?): List<Pair<String, String>> = listOfNotNull(
        R.string.verify_tensor to measured.run { difference(tensorDifference, tensorTolerance) },
        bundle?.description?.output.let { scores(it) to scores(it, measured) },
        measured.otherPixels?.let { R.string.verify_mask to pixels(it.part, it.most) },
        measured.foundClass?.let { R.string.verify_class to classes(it, measured, bundle) },
        R.string.verify_time to withUnit(measured.inferenceMillis),
        bundle?.description?.let {
            R.string.verify_operators to delegated(measured.info, it.operators)
        },
    ).map { (name, fact) -> text(name) to fact }

    private fun scores(output: Output?): Int = when {
        output?.mask?.isClassMap == true -> R.string.verify_mask
        output?.givesFeatures == true || output?.map != null -> R.string.verify_features
        else -> R.string.verify_scores
    }

    private fun scores(output: Output?, measured: Measured): String = measured.run {
        if (output?.mask?.isClassMap == true) pixels(scoreDifference, scoreTolerance)
        else difference(scoreDifference, scoreTolerance)
    }

    private fun difference(value: Double, tolerance: Double): String =
        text(R.string.verify_difference, difference(value), difference(tolerance))

    /** "other class: 0.02%, at most 0.41%" */
    private fun pixels(value: Double, most: Double): String =
        text(R.string.verify_pixels, percent(value, digits = 2), percent(most, digits = 2))

    private fun classes(found: Int, measured: Measured, bundle: Bundle?): String {
        fun name(index: Int?) = bundle?.labels?.getOrNull(index ?: -1) ?: "$index"
        return if (measured.classAgrees) text(R.string.verify_class_same, name(found))
        else text(R.string.verify_class_other, name(found), name(measured.expectedClass))
    }

    private fun joined(vararg parts: String?): String =
        parts.filterNotNull().joinToString(text(R.string.list_separator))

    fun size(bytes: Long): String {
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

// Where words go from right to left, "<" would be at the other side of the number.
private const val LEFT_TO_RIGHT = '\u200E'

private fun whole(value: Double): Double = Math.rint(value)
