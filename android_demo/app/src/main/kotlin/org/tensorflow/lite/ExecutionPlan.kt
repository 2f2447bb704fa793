package org.tensorflow.lite

/**
 * How many steps are left after delegation: 1 if one delegate took the whole model. Null if this
 * version of the runtime does not have the method.
 *
 * `getExecutionPlanLength` is visible in this package only, and nothing public tells whether a
 * delegate really took the model.
 */
internal fun executionSteps(interpreter: Interpreter): Int? = try {
    interpreter.getExecutionPlanLength()
} catch (_: LinkageError) {
    null
}
