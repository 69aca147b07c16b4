//! Specs: what the API shows of one, its phases, and what each phase puts out.

mod phase;
mod shape;
mod view;

pub mod output;

pub use phase::Phase;
pub use shape::{OUTPUT_BYTES_MAX, OUTPUT_DEPTH_MAX, ShapeError, Wrong, outline, shape, shape_of};
pub use view::*;
