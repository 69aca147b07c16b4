//! The tools as the loop uses them.
