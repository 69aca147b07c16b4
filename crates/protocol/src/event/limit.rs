//! How much of a long text an event carries. Characters are Unicode scalar values.

pub const EVENT_TYPE_CHARS_MAX: usize = 100;

/// `result` of `agent.tool_result` and `agent.user_tool_result`.
pub const RESULT_CHARS_MAX: usize = 5_000;

pub const DIFF_PREVIEW_LINES_MAX: usize = 100;
pub const DIFF_PREVIEW_CHARS_MAX: usize = 5_000;
/// A diff longer than this is not in the event; it is stored once and fetched on demand.
pub const FULL_DIFF_CHARS_MAX: usize = 50_000;

pub const GOAL_CHARS_MAX: usize = 500;
pub const PROMPT_PREVIEW_CHARS_MAX: usize = 500;
pub const OUTPUT_PREVIEW_CHARS_MAX: usize = 1_000;

/// `text` of one `command.output`, in bytes.
pub const OUTPUT_TEXT_BYTES_MAX: usize = 16 * 1024;
/// What all `command.output` of one command carry together, in bytes.
pub const OUTPUT_BYTES_MAX: usize = 4 * 1024 * 1024;

const _: () = assert!(DIFF_PREVIEW_CHARS_MAX <= FULL_DIFF_CHARS_MAX);
