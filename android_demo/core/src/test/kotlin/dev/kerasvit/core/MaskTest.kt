package dev.kerasvit.core

import kotlin.test.Test
import kotlin.test.assertEquals
import kotlinx.serialization.json.contentOrNull
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonPrimitive

class MaskTest {
    @Test
    fun `colours of classes are those of Python's reports, and a background has none`() {
        for (case in cases("class_colours.json")) {
            val labels = case.getValue("labels").jsonArray.map { it.jsonPrimitive.content }
            val expected = case.getValue("colours").jsonArray.map { colour ->
                colour.jsonPrimitive.contentOrNull?.let { "ff" + it.drop(1) } ?: "00000000"
            }
            assertEquals(expected, classColours(labels).map { "%08x".format(it) })
        }
    }

    @Test
    fun `of more than 255 classes the colours come again`() {
        val colours = classColours(List(600) { "$it" })
        assertEquals(colours[4], colours[4 + 256])
        assertEquals(0xFF000000.toInt(), colours[255])
    }
}
