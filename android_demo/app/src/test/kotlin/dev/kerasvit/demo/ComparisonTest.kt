package dev.kerasvit.demo

import dev.kerasvit.core.Prediction
import dev.kerasvit.demo.state.Comparison
import dev.kerasvit.demo.state.Comparison.Classes
import dev.kerasvit.demo.state.Comparison.Named
import dev.kerasvit.demo.state.Comparison.Speed
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.Time
import dev.kerasvit.demo.state.Times
import dev.kerasvit.demo.state.comparisonOf
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineInfo
import kotlin.test.assertEquals
import kotlin.test.assertNull
import org.junit.Test

class ComparisonTest {
    @Test
    fun `two models name the same class, or other ones`() {
        assertEquals(Classes.Same, compare(answer("a", "cat"), answer("b", "cat")).classes)
        val different = Classes.Different(Named("a", "cat"), Named("b", "dog"))
        assertEquals(different, compare(answer("a", "cat"), answer("b", "dog")).classes)
    }

    @Test
    fun `a class that is not probable enough is not compared`() {
        val unsure = answer("b", "cat", probability = 0.49)
        val only = Classes.OnlyOne(Named("a", "cat"))
        assertEquals(only, compare(answer("a", "cat", probability = 0.5), unsure).classes)
        assertEquals(only, compare(unsure, answer("a", "cat")).classes)
        assertEquals(Classes.None, compare(unsure, unsure).classes)
    }

    @Test
    fun `the one whose median is less is faster`() {
        val slow = answer("a", "cat", millis = 27.0)
        val fast = answer("b", "cat", millis = 10.0)
        for (pair in listOf(slow to fast, fast to slow)) {
            assertEquals(Speed.Faster("b", 2.7), compare(pair.first, pair.second).speed)
        }
    }

    @Test
    fun `a difference that measuring alone makes is none`() {
        val other = answer("b", "cat", millis = 10.9)
        assertEquals(Speed.Same, compare(answer("a", "cat", millis = 10.0), other).speed)
    }

    @Test
    fun `nothing is said of speed until both have run often enough`() {
        for ((first, second) in listOf(2 to 20, 20 to 2)) {
            val one = answer("a", "cat", millis = 27.0, count = first)
            assertNull(compare(one, answer("b", "cat", count = second)).speed)
        }
        val unknown = answer("a", "cat", millis = Double.NaN)
        assertNull(compare(unknown, answer("b", "cat")).speed)
    }

    @Test
    fun `where one knows no class, only speed is compared`() {
        val none = answer("b", "cat").copy(rows = emptyList())
        val comparison = compare(answer("a", "cat"), none)
        assertEquals(null to Speed.Same, comparison.run { classes to speed })
        val early = answer("a", "cat", count = 2)
        assertNull(comparisonOf(early, none, threshold = 50))
    }

    @Test
    fun `without two answers there is nothing to compare`() {
        assertNull(comparisonOf(answer("a", "cat"), Result.Working(answer("b", "cat")), 50))
        assertNull(comparisonOf(Result.None, answer("b", "cat"), 50))
    }

    private fun compare(first: Result, second: Result): Comparison =
        checkNotNull(comparisonOf(first, second, threshold = 50))

    private fun answer(
        model: String,
        label: String,
        probability: Double = 0.9,
        millis: Double = 10.0,
        count: Int = 3,
    ): Result.Answer {
        val time = Time(millis, millis)
        return Result.Answer(
            model,
            listOf(Prediction(0, label, probability)),
            EngineInfo(Backend.CPU, 2, "a runtime", 1),
            operators = 1,
            times = Times(count, time, time, time),
        )
    }
}
